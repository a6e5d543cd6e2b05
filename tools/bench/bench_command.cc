// `r2ccl bench`: one rank of a benchmark, or with -p the whole job on this machine.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdio>
#include <memory>

#include "tools/bench/bench_comm.h"
#include "tools/bench/bench_command.h"
#include "tools/bench/bench_events.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_result.h"
#include "tools/bench/bench_run.h"
#include "tools/common/command.h"
#include "tools/common/output_file.h"
#include "tools/common/rank_group.h"
#include "tools/common/rank_report.h"
#include "tools/lab/lab_run.h"

namespace r2ccl::tools {
namespace {

std::vector<bool> placements(const BenchOptions& options) {
  if (!has_in_place(options.collective) || options.out_of_place_only) return {false};
  if (options.in_place_only) return {true};
  // The time of `duration_s` is spent once.
  return options.duration_s > 0 ? std::vector<bool>{false} : std::vector<bool>{false, true};
}

// Measures every size; rank 0 prints each row once it is measured.
Status run_table(const BenchOptions& options, BenchComm* comm, Bench* bench) {
  bool print = comm->rank() == 0;
  if (print) std::fputs(table_header(options, comm->ranks()).c_str(), stdout);
  for (uint64_t bytes : options.sizes) {
    const BenchRun *out_of_place = nullptr, *in_place = nullptr;
    size_t first = bench->runs().size();
    for (bool place : placements(options)) {
      R2CCL_RETURN_IF_ERROR(bench->measure(bytes, place));
    }
    for (size_t i = first; i < bench->runs().size(); ++i) {
      (bench->runs()[i].in_place ? in_place : out_of_place) = &bench->runs()[i];
    }
    if (!print) continue;
    std::printf("%s%s%s\n", table_row_start(options, bench->runs()[first]).c_str(),
                table_row_part(options, comm->ranks(), out_of_place).c_str(),
                table_row_part(options, comm->ranks(), in_place).c_str());
    std::fflush(stdout);
  }
  return Status::ok_status();
}

Status run_measurement(const BenchOptions& options, BenchComm* comm, Bench* bench,
                       const Clock& clock, const BenchProgress& progress) {
  std::unique_ptr<BenchEvents> events;
  if (!options.events_file.empty()) {
    auto started =
        BenchEvents::start(options.events_file, options.events_ms, *comm, clock, progress);
    if (!started.ok()) return started.status();
    events = std::move(started.value());
  }
  Status status = run_table(options, comm, bench);
  if (status.code() == Code::remote && events != nullptr) events->await_death();
  // The log is useful after an error too: it has the operations up to then.
  if (!options.op_log_file.empty() && comm->rank() == 0) {
    R2CCL_RETURN_IF_ERROR(write_text(options.op_log_file, operation_log(bench->runs())));
  }
  return status;
}

Status print_summary(const BenchOptions& options, BenchComm* comm, const Bench& bench) {
  Result<std::vector<std::string>> reports = comm->gather(needed_part(comm->report()));
  if (!reports.ok()) return reports.status();
  if (comm->rank() != 0) return Status::ok_status();
  for (const std::string& line : verdict_lines(reports.value())) {
    std::printf("# verdict: %s\n", line.c_str());
  }
  std::fputs(table_footer(options, comm->ranks(), bench.runs()).c_str(), stdout);
  std::fflush(stdout);
  if (options.json_file.empty()) return Status::ok_status();
  return write_text(options.json_file,
                    result_json(options, comm->ranks(), bench.runs(), reports.value()));
}

// Returns the errors that are known before the measurement.
Status check_job(const BenchOptions& options, int ranks) {
  if (options.root < 0 || options.root >= ranks) {
    return {Code::invalid_argument, "-r must be a rank, 0 to " + std::to_string(ranks - 1)};
  }
  const bool to_next =
      options.collective == Collective::sendrecv || options.collective == Collective::tagged;
  if (to_next && ranks < 2) {
    return {Code::invalid_argument, options.collective_name + " needs 2 ranks"};
  }
  if (options.check && ranks > BenchValues::kRanksMax) {
    return {Code::invalid_argument, "the values of up to " +
                                        std::to_string(BenchValues::kRanksMax) +
                                        " ranks can be checked: run more with -c 0"};
  }
  return Status::ok_status();
}

// Checks the result files, which rank 0 writes after the measurement.
Status check_results(const BenchOptions& options) {
  R2CCL_RETURN_IF_ERROR(check_writable("--json", options.json_file));
  return check_writable("--op-log", options.op_log_file);
}

Status check_local_job(const BenchOptions& options) {
  R2CCL_RETURN_IF_ERROR(check_job(options, options.local_ranks));
  R2CCL_RETURN_IF_ERROR(check_writable("--events", events_path(options.events_file, 0)));
  return check_results(options);
}

// A rank of the bench aborts only after it has reported its error, so the others need not report
// that abort. They report any other end of a peer.
int report_rank_error(const Status& status) {
  const bool told_there =
      status.code() == Code::remote && status.message().ends_with("r2cclCommAbort was called");
  return told_there ? kExitError : report_error("bench", status);
}

// Returns a port that is free now. If another process takes it a moment later, the job fails with a
// clear error.
int free_port() {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Fd owner(fd);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, generic, length) != 0 || getsockname(fd, generic, &length) != 0) return 29500;
  return ntohs(address.sin_port);
}

int run_local_ranks(const BenchOptions& options) {
  if (Status status = check_local_job(options); !status.ok()) return report_error("bench", status);
  RankGroup ranks;
  RankPlace place{0, 1, 0, options.local_ranks, "127.0.0.1", free_port()};
  for (; place.local < options.local_ranks; ++place.local) {
    Status status = ranks.start("", [&] {
      set_rank_environment(place);
      return run_bench_rank(options);
    });
    if (!status.ok()) {
      ranks.signal_all(SIGTERM);
      ranks.attend();
      return report_error("bench", status);
    }
  }
  return ranks.attend();
}

void add_nccl_tests_options(CLI::App* sub, BenchOptions* o) {
  sub->add_option("-b,--minbytes", o->bytes_min, "smallest size, e.g. 64K")
      ->type_name("SIZE")
      ->capture_default_str();
  sub->add_option("-e,--maxbytes", o->bytes_max, "largest size (default: the smallest)")
      ->type_name("SIZE");
  sub->add_option("-i,--stepbytes", o->step_bytes, "bytes between sizes")->type_name("SIZE");
  sub->add_option("-f,--stepfactor", o->step_factor, "factor between sizes (default: 2)");
  sub->add_option("-n,--iters", o->iterations, "timed operations of each size")
      ->capture_default_str();
  sub->add_option("-w,--warmup_iters", o->warmup, "operations before those")->capture_default_str();
  sub->add_option("-c,--check", o->check_text,
                  "1: check every element of every operation on every rank; 0: check nothing")
      ->expected(0, 1)
      ->type_name("0|1")
      ->capture_default_str();
  sub->add_option("-o,--op", o->redop_name,
                  "sum, prod, max, min, avg, and for integers band, bor, bxor")
      ->type_name("OP")
      ->capture_default_str();
  sub->add_option("-d,--datatype", o->type_name,
                  "int8, uint8, int32, uint32, int64, uint64, half, bfloat16, float, double")
      ->type_name("TYPE")
      ->capture_default_str();
  sub->add_option("-r,--root", o->root, "root rank of broadcast, reduce, gather and scatter")
      ->type_name("RANK")
      ->capture_default_str();
}

void add_output_options(CLI::App* sub, BenchOptions* o) {
  sub->add_option("--json", o->json_file, "rank 0 writes the results here ('-': standard output)")
      ->type_name("FILE");
  sub->add_option("--op-log", o->op_log_file, "rank 0 writes the time of every operation here")
      ->type_name("FILE");
  sub->add_option(
         "--events", o->events_file,
         "every rank writes a JSON line every 100 ms here ('-': standard output, %r: rank)")
      ->type_name("FILE");
}

}  // namespace

int run_bench_rank(const BenchOptions& options) {
  SystemClock clock;
  Result<BenchComm> comm = BenchComm::from_environment();
  if (!comm.ok()) {
    const Status& why = comm.status();
    const bool no_launcher = why.code() == Code::invalid_usage;
    return report_rank_error(no_launcher ? Status(why.code(), why.message() +
                                                                  "; -p N starts N ranks on this "
                                                                  "machine")
                                         : why);
  }
  Status status = check_job(options, comm.value().ranks());
  if (status.ok() && comm.value().rank() == 0) status = check_results(options);
  if (!status.ok()) return report_rank_error(status);
  BenchProgress progress;
  Bench bench(options, &comm.value(), clock, &progress);
  status = run_measurement(options, &comm.value(), &bench, clock, progress);
  if (status.ok()) status = print_summary(options, &comm.value(), bench);
  if (status.ok()) status = comm.value().finish();
  if (!status.ok()) {
    return report_rank_error(status.with_context("rank " + std::to_string(comm.value().rank())));
  }
  for (const BenchRun& run : bench.runs()) {
    if (run.wrong_elements != 0) return kExitFailed;
  }
  return 0;
}

void add_bench_command(CLI::App* app, Action* action) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* sub =
      app->add_subcommand("bench", "Measure and check collectives; prints the table of nccl-tests");
  sub->add_option("--collective", o->collective_name,
                  "all_reduce, reduce, broadcast, all_gather, reduce_scatter, gather, scatter, "
                  "alltoall, sendrecv, tagged, barrier")
      ->type_name("NAME")
      ->capture_default_str();
  add_nccl_tests_options(sub, o.get());
  sub->add_option("-p,--procs", o->local_ranks,
                  "start this many ranks on this machine (without: one rank of a launched job)")
      ->check(CLI::Range(1, 1024));
  sub->add_flag("--in-place", o->in_place_only, "only in place (all_reduce and broadcast)");
  sub->add_flag("--out-of-place", o->out_of_place_only, "only out of place");
  sub->add_option("--duration", o->duration_s, "run one size for so long, in place of -n")
      ->type_name("SECONDS");
  sub->add_option("--until", o->until_file,
                  "with --duration: end as soon as a file of this name exists")
      ->type_name("FILE");
  add_output_options(sub, o.get());
  sub->footer(
      "Options and table are those of nccl-tests.\n"
      "Exit status: 0; 1 when an element is wrong; 2 on an error.");
  sub->callback([o, action] {
    *action = [o] {
      if (Status status = resolve(o.get()); !status.ok()) return report_error("bench", status);
      return o->local_ranks > 0 ? run_local_ranks(*o) : run_bench_rank(*o);
    };
  });
}

}  // namespace r2ccl::tools
