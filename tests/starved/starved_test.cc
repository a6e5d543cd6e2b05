// Jobs of two processes in which allocations of one of them fail, from the n-th on. Each rank must
// end in bounded time, with success or an error, and with right elements. No rank may crash, and
// the rank whose allocation failed must say that memory was the cause.
//
// usage: starved_test STRIDE COUNT...: at both ranks each STRIDE-th allocation fails, in a job of
// its
//        own, and the COUNT - 1 after it. "all": all after it
//        starved_test one RANK N COUNT: one of these jobs, to debug it
// STARVED_JOBS is the number of jobs at a time.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include "r2ccl/r2ccl.h"

// glibc's own.
extern "C" void* __libc_malloc(size_t bytes);                // NOLINT(bugprone-reserved-identifier)
extern "C" void* __libc_calloc(size_t count, size_t bytes);  // NOLINT(bugprone-reserved-identifier)
extern "C" void* __libc_realloc(void* old, size_t bytes);    // NOLINT(bugprone-reserved-identifier)

namespace {

// These count in a process while its job runs.
std::atomic<bool> counts{false};
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> fail_from{INT64_MAX};
std::atomic<int64_t> fail_count{0};

bool fails() {
  if (!counts.load(std::memory_order_relaxed)) return false;
  const int64_t number = allocations.fetch_add(1, std::memory_order_relaxed) + 1;
  const int64_t past = number - fail_from.load(std::memory_order_relaxed);
  if (past < 0 || past >= fail_count.load(std::memory_order_relaxed)) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

// Everything in the process calls these: the library with its C++ runtime, and the C library for
// it. The job itself allocates nothing.
extern "C" void* malloc(size_t bytes) {
  return fails() ? nullptr : __libc_malloc(bytes);
}
extern "C" void* calloc(size_t count, size_t bytes) {
  return fails() ? nullptr : __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* old, size_t bytes) {
  return fails() ? nullptr : __libc_realloc(old, bytes);
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPatienceMs = 30'000;  // a bound of the job (below) and time for a busy machine
constexpr size_t kCount = 20'000;
bool verbose = false;  // tell of each job
char status_directory[64];

struct Outcome {
  r2cclResult_t result = r2cclSuccess;
  bool wrong_values = false;
  bool stays = false;  // a communicator could not be aborted and destroyed
  int64_t allocations = 0;
  char call[32] = "";
  char text[400] = "";
};

// The job. It allocates nothing itself, so that each failure is the library's.
class Rank {
 public:
  Rank(int rank, int id_in, int id_out) : rank_(rank), id_in_(id_in), id_out_(id_out) {}

  Outcome run() {
    work();
    if (outcome_.result != r2cclSuccess) {
      // As an application must, so that the other ranks do not wait for the calls that failed.
      // These calls need no memory.
      for (const r2cclComm_t comm : {child_, comm_}) {
        if (comm == nullptr) continue;
        const bool ended =
            r2cclCommAbort(comm) == r2cclSuccess && r2cclCommDestroy(comm) == r2cclSuccess;
        outcome_.stays = outcome_.stays || !ended;
      }
    } else {
      (void)r2cclCommDestroy(child_);
      (void)r2cclCommDestroy(comm_);
    }
    outcome_.allocations = allocations;
    return outcome_;
  }

 private:
  bool ok(const char* call, r2cclResult_t result) {
    if (result == r2cclSuccess) return true;
    outcome_.result = result;
    std::snprintf(outcome_.call, sizeof outcome_.call, "%s", call);
    std::snprintf(outcome_.text, sizeof outcome_.text, "%s", r2cclGetLastError(nullptr));
    return false;
  }
  void expect(const int32_t* values, size_t count, int32_t base, int32_t slope) {
    for (size_t i = 0; i < count; ++i) {
      if (values[i] != base + slope * static_cast<int32_t>(i)) outcome_.wrong_values = true;
    }
  }
  bool init() {
    r2cclUniqueId id;
    if (rank_ == 0) {
      if (!ok("r2cclGetUniqueId", r2cclGetUniqueId(&id))) return false;
      if (write(id_out_, &id, sizeof id) != sizeof id) std::abort();
    } else if (read(id_in_, &id, sizeof id) != sizeof id) {
      outcome_.result = r2cclRemoteError;  // rank 0 has none
      return false;
    }
    return ok("r2cclCommInitRank", r2cclCommInitRank(&comm_, 2, id, rank_));
  }
  bool collectives(r2cclComm_t comm, const char* name) {
    const auto mine = static_cast<int32_t>(rank_);
    for (size_t i = 0; i < kCount; ++i) input_[i] = 1 + mine + static_cast<int32_t>(i);
    if (!ok(name, r2cclAllReduce(input_, output_, kCount, r2cclInt32, r2cclSum, comm, nullptr))) {
      return false;
    }
    expect(output_, kCount, 3, 2);
    if (!ok(name, r2cclAllGather(input_, output_, kCount, r2cclInt32, comm, nullptr))) return false;
    expect(output_, kCount, 1, 1);
    expect(output_ + kCount, kCount, 2, 1);
    return true;
  }
  bool messages() {
    const int other = 1 - rank_;
    for (const bool tagged : {false, true}) {
      r2cclRequest_t request = nullptr;
      std::memset(output_, 0, sizeof output_);
      const r2cclResult_t posted =
          tagged ? r2cclRecvTagged(output_, kCount, r2cclInt32, other, 5, nullptr, comm_, &request)
                 : r2cclRecv(output_, kCount, r2cclInt32, other, comm_, &request);
      if (!ok("Recv", posted)) return false;
      const r2cclResult_t sent =
          tagged ? r2cclSendTagged(input_, kCount, r2cclInt32, other, 5, comm_, nullptr)
                 : r2cclSend(input_, kCount, r2cclInt32, other, comm_, nullptr);
      if (!ok("Send", sent)) return false;
      if (!ok("r2cclRequestWait", r2cclRequestWait(&request, -1))) return false;
      expect(output_, kCount, 1 + other, 1);
    }
    return true;
  }
  bool group() {
    const int other = 1 - rank_;
    if (!ok("r2cclGroupStart", r2cclGroupStart())) return false;
    const bool added = ok("Send", r2cclSend(input_, 100, r2cclInt32, other, comm_, nullptr)) &&
                       ok("Recv", r2cclRecv(output_, 100, r2cclInt32, other, comm_, nullptr));
    const r2cclResult_t ended = r2cclGroupEnd();
    if (!added || !ok("r2cclGroupEnd", ended)) return false;
    expect(output_, 100, 1 + other, 1);
    return true;
  }
  // Operations that are open together, and collectives that the others do not use.
  bool requests() {
    r2cclRequest_t open[3] = {};
    const size_t half = kCount / 2;
    const auto mine = static_cast<int32_t>(rank_);
    if (!ok("r2cclSetCallName", r2cclSetCallName("a sum"))) return false;
    if (!ok("AllReduce",
            r2cclAllReduce(input_, output_, half, r2cclInt32, r2cclMax, comm_, &open[0])) ||
        !ok("Broadcast",
            r2cclBroadcast(input_, output_ + half, half, r2cclInt32, 1, comm_, &open[1])) ||
        !ok("AllToAll",
            r2cclAllToAll(input_, output_ + 2 * half, half / 2, r2cclInt32, comm_, &open[2])) ||
        !ok("r2cclRequestWaitAll", r2cclRequestWaitAll(3, open, -1))) {
      return false;
    }
    expect(output_, half, 2, 1);
    expect(output_ + half, half, 2, 1);
    const auto from = static_cast<int32_t>(half / 2) * mine;
    expect(output_ + 2 * half, half / 2, 1 + from, 1);
    expect(output_ + 2 * half + half / 2, half / 2, 2 + from, 1);
    return scaled_sum();
  }
  bool scaled_sum() {
    const int32_t factor = 2;
    r2cclRedOp_t op;
    if (!ok("r2cclRedOpCreatePreMulSum",
            r2cclRedOpCreatePreMulSum(&op, &factor, r2cclInt32, r2cclScalarHostImmediate, comm_)) ||
        !ok("ReduceScatter",
            r2cclReduceScatter(input_, output_, kCount / 2, r2cclInt32, op, comm_, nullptr)) ||
        !ok("r2cclRedOpDestroy", r2cclRedOpDestroy(op, comm_)) ||
        !ok("r2cclBarrier", r2cclBarrier(comm_, nullptr))) {
      return false;
    }
    expect(output_, kCount / 2, 6 + 2 * static_cast<int32_t>(kCount) * rank_, 4);
    return true;
  }
  // Questions and services. One without memory fails by itself, and the job goes on.
  void services() {
    static char text[64 * 1024];
    size_t bytes = sizeof text;
    (void)r2cclCommReport(comm_, text, &bytes);
    static r2cclPathInfo_t paths[8];
    paths[0].size = sizeof paths[0];
    size_t count = 8;
    (void)r2cclCommGetPaths(comm_, paths, &count);
    count = 0;
    (void)r2cclCommGetVerdicts(comm_, nullptr, &count);
    r2cclErrorInfo_t info;
    info.size = sizeof info;
    (void)r2cclGetErrorInfo(nullptr, &info);
    const auto told = [](r2cclComm_t, const r2cclVerdict_t*, void*) {};
    (void)r2cclCommSetVerdictCallback(comm_, told, nullptr);
    operator_asks();
  }
  // As `r2ccl status` does, without waiting for the answer.
  void operator_asks() {
    DIR* const directory = opendir(status_directory);
    if (directory == nullptr) return;
    char own[32];
    std::snprintf(own, sizeof own, "%d", static_cast<int>(getpid()));
    while (const dirent* entry = readdir(directory)) {
      if (std::strstr(entry->d_name, own) == nullptr) continue;
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      const int length = std::snprintf(address.sun_path, sizeof address.sun_path, "%s/%s",
                                       status_directory, entry->d_name);
      if (length >= static_cast<int>(sizeof address.sun_path)) continue;
      operator_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(operator_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) continue;
      (void)!::write(operator_, "job\n", 4);
    }
    closedir(directory);
  }
  void work() {
    if (!init()) return;
    services();
    if (!collectives(comm_, "collective") || !messages() || !group() || !requests()) return;
    if (!ok("r2cclCommSplit", r2cclCommSplit(comm_, 0, rank_, &child_, nullptr))) return;
    if (!collectives(child_, "collective of the child")) return;
    if (!ok("r2cclCommFinalize of the child", r2cclCommFinalize(child_))) return;
    (void)ok("r2cclCommFinalize", r2cclCommFinalize(comm_));
  }

  const int rank_;
  const int id_in_;
  const int id_out_;
  r2cclComm_t comm_ = nullptr;
  r2cclComm_t child_ = nullptr;
  int operator_ = -1;  // the connection of one who asks for the status
  Outcome outcome_;
  int32_t input_[kCount] = {};
  int32_t output_[2 * kCount] = {};
};

// One process of a job.
struct Process {
  pid_t pid = -1;
  int result = -1;  // the end of a pipe from which its outcome comes; -1: it has ended
  Outcome outcome;
  const char* wrong = "";  // how it ended wrongly
};

Process start(int rank, int64_t from, int64_t count, int id_in, int id_out) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  Process process{fork(), ends[0], {}, ""};
  if (process.pid == 0) {
    close(ends[0]);
    close(rank == 0 ? id_in : id_out);
    // Ranks that do not meet take all of it; ranks that should meet have time on a busy machine.
    setenv("R2CCL_INIT_TIMEOUT_S", count > 0 ? "2" : "60", 1);
    allocations = 0;
    fail_count = count;
    fail_from = from;
    counts = true;
    static Rank job(rank, id_in, id_out);
    const Outcome outcome = job.run();
    counts = false;
    if (write(ends[1], &outcome, sizeof outcome) < 0) std::abort();
    _exit(0);
  }
  close(ends[1]);
  return process;
}

// The process has told its outcome, or has ended, or has no time left.
void finish(Process& process, bool in_time) {
  if (!in_time) kill(process.pid, SIGABRT);
  const bool told =
      in_time && read(process.result, &process.outcome, sizeof(Outcome)) == sizeof(Outcome);
  close(process.result);
  process.result = -1;
  int status = 0;
  (void)waitpid(process.pid, &status, 0);
  if (!in_time) {
    process.wrong = "does not end";
  } else if (!told || status != 0) {
    process.wrong = "crashes";
  }
}

// A job of two ranks. At `rank`, `count` allocations fail from the `from`-th on.
struct Job {
  int rank = 0;
  int64_t from = INT64_MAX;
  int64_t count = 0;
  Process ranks[2];
  Clock::time_point deadline;

  bool ended() const { return ranks[0].result < 0 && ranks[1].result < 0; }
};

Job start(int rank, int64_t from, int64_t count) {
  Job job{rank, from, count, {}, Clock::now() + std::chrono::milliseconds(kPatienceMs)};
  int id[2];
  if (pipe2(id, O_CLOEXEC) != 0) std::abort();
  for (int r = 0; r < 2; ++r) {
    job.ranks[r] = start(r, r == rank ? from : INT64_MAX, count, id[0], id[1]);
  }
  close(id[0]);
  close(id[1]);
  return job;
}

// In the words of the library, of a system call, or of the start of a thread.
bool names_memory(const char* text) {
  return std::strstr(text, "out of memory") != nullptr ||
         std::strstr(text, "Cannot allocate memory") != nullptr ||
         std::strstr(text, "Resource temporarily unavailable") != nullptr;
}

// How a rank of the job ended wrongly, or "".
const char* wrong_with(const Job& job, int rank) {
  const Outcome& at = job.ranks[rank].outcome;
  if (job.ranks[rank].wrong[0] != 0) return job.ranks[rank].wrong;
  if (at.wrong_values) return "gets wrong values";
  if (at.stays) return "cannot end its communicator";
  // The loss may have been the rendezvous's, which serves both ranks alike: then they do not meet.
  const bool did_not_meet = std::strstr("r2cclCommInitRank r2cclCommSplit", at.call) != nullptr &&
                            (at.result == r2cclTimeout || at.result == r2cclRemoteError);
  const bool silent =
      rank == job.rank && at.result != r2cclSuccess && !did_not_meet && !names_memory(at.text);
  return silent ? "does not name memory as the cause" : "";
}

// Returns whether the job ended as it must. Tells how both ranks of a wrong one ended.
bool judge(const Job& job) {
  const bool right = wrong_with(job, 0)[0] == 0 && wrong_with(job, 1)[0] == 0;
  for (int r = 0; r < 2 && (verbose || !right); ++r) {
    const Outcome& at = job.ranks[r].outcome;
    const char* wrong = wrong_with(job, r);
    std::printf("allocation %lld of rank %d (%lld fail): rank %d %s: %d in %s: %s\n",
                static_cast<long long>(job.from), job.rank, static_cast<long long>(job.count), r,
                wrong[0] == 0 ? "ends" : wrong, static_cast<int>(at.result), at.call, at.text);
  }
  return right;
}

// Waits until some process of these jobs has ended.
void wait_for_any(std::vector<Job>& jobs) {
  std::vector<pollfd> ready;
  std::vector<Process*> processes;
  auto deadline = Clock::time_point::max();
  for (Job& job : jobs) {
    for (Process& process : job.ranks) {
      if (process.result < 0) continue;
      ready.push_back({process.result, POLLIN, 0});
      processes.push_back(&process);
      deadline = std::min(deadline, job.deadline);
    }
  }
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  (void)poll(ready.data(), ready.size(), std::max<int>(0, static_cast<int>(left) + 1));
  for (size_t i = 0; i < ready.size(); ++i) {
    if (ready[i].revents != 0) finish(*processes[i], true);
  }
  for (Job& job : jobs) {
    if (Clock::now() < job.deadline) continue;
    for (Process& process : job.ranks) {
      if (process.result >= 0) finish(process, false);
    }
  }
}

// Most of a job's time is a wait.
size_t jobs_at_a_time() {
  const char* given = std::getenv("STARVED_JOBS");
  return given == nullptr ? 16 : static_cast<size_t>(std::atoi(given));
}

struct Tally {
  int64_t jobs = 0;
  int64_t wrong = 0;
};

// Fails `count` allocations from each `stride`-th on. Returns false when a job without a failure
// fails.
bool try_all(int rank, int64_t stride, int64_t count, Tally& tally) {
  std::vector<Job> jobs{start(rank, INT64_MAX, 0)};
  while (!jobs[0].ended()) wait_for_any(jobs);
  if (!judge(jobs[0]) || jobs[0].ranks[0].outcome.result != r2cclSuccess ||
      jobs[0].ranks[1].outcome.result != r2cclSuccess) {
    return false;
  }
  const int64_t most = jobs[0].ranks[rank].outcome.allocations;
  jobs.clear();
  std::printf("rank %d allocates %lld times\n", rank, static_cast<long long>(most));
  for (int64_t next = 1; next <= most || !jobs.empty();) {
    for (; next <= most && jobs.size() < jobs_at_a_time(); next += stride) {
      jobs.push_back(start(rank, next, count));
      ++tally.jobs;
    }
    wait_for_any(jobs);
    std::erase_if(jobs, [&](const Job& job) {
      if (job.ended() && !judge(job)) ++tally.wrong;
      return job.ended();
    });
  }
  return true;
}

int run_one(int rank, int64_t from, int64_t count) {
  verbose = true;
  std::vector<Job> jobs{start(rank, from, count)};
  while (!jobs[0].ended()) wait_for_any(jobs);
  return judge(jobs[0]) ? 0 : 1;
}

// A count, or "all": from then on.
int64_t count_of(const char* text) {
  return std::strcmp(text, "all") == 0 ? INT64_MAX : std::atoll(text);
}

// STRIDE COUNT..., or "one" RANK N COUNT.
int run_all(std::span<char*> args) {
  if (std::strcmp(args[0], "one") == 0) {
    return args.size() != 4 ? 2
                            : run_one(std::atoi(args[1]), std::atoll(args[2]), count_of(args[3]));
  }
  Tally tally;
  for (const char* count : args.subspan(1)) {
    for (int rank = 0; rank < 2; ++rank) {
      if (!try_all(rank, std::atoll(args[0]), count_of(count), tally)) return 1;
    }
  }
  std::printf("%lld jobs, %lld wrong\n", static_cast<long long>(tally.jobs),
              static_cast<long long>(tally.wrong));
  return tally.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  setenv("R2CCL_SOCKET_IFNAME", "lo", 1);
  setenv("R2CCL_CUTOFF_S", "10", 1);
  // Every line of the log is made and written, to no file.
  setenv("R2CCL_DEBUG", "TRACE", 0);
  setenv("R2CCL_DEBUG_FILE", "/dev/null", 0);
  char runtime[] = "/tmp/r2ccl_starved_XXXXXX";
  if (mkdtemp(runtime) == nullptr) return 2;
  setenv("XDG_RUNTIME_DIR", runtime, 1);
  std::snprintf(status_directory, sizeof status_directory, "%s/r2ccl-%u", runtime, geteuid());
  const int result = run_all(std::span(argv + 1, argv + argc));
  std::filesystem::remove_all(runtime);
  return result;
}
