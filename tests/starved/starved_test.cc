// A job of two processes in which allocations of one of them fail, from the n-th on. Each rank must
// end in bounded time, with success or an error. No rank may crash, and the rank whose allocation
// failed must say that memory was the cause.
//
// usage: starved_test STRIDE COUNT: fails COUNT allocations from each STRIDE-th on, at both ranks
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "r2ccl/r2ccl.h"

extern "C" void* __libc_malloc(size_t bytes);  // NOLINT(bugprone-reserved-identifier): glibc's

namespace {

std::atomic<int64_t> allocations{0};
std::atomic<int64_t> fail_from{INT64_MAX};
std::atomic<int64_t> fail_count{0};

// The addresses of the library's code.
uintptr_t code_begin = 0;
uintptr_t code_end = 0;

int find_code(dl_phdr_info* info, size_t, void*) {
  if (std::strstr(info->dlpi_name, "libr2ccl.so") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    code_begin = info->dlpi_addr + part.p_vaddr;
    code_end = code_begin + part.p_memsz;
  }
  return 1;
}

bool fails() {
  const int64_t number = allocations.fetch_add(1, std::memory_order_relaxed) + 1;
  const int64_t past = number - fail_from.load(std::memory_order_relaxed);
  return past >= 0 && past < fail_count.load(std::memory_order_relaxed);
}

}  // namespace

// The library has its C++ runtime inside, and that has operator new. It calls this malloc, as
// everything in the process does; only the library's own calls count.
extern "C" void* malloc(size_t bytes) {
  const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  if (caller >= code_begin && caller < code_end && fails()) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPatienceMs = 20'000;  // a bound of the job (below) and time for a busy machine
constexpr size_t kCount = 20'000;

struct Outcome {
  r2cclResult_t result = r2cclSuccess;
  bool wrong_values = false;
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
      if (child_ != nullptr) (void)r2cclCommAbort(child_);
      if (comm_ != nullptr) (void)r2cclCommAbort(comm_);
    }
    if (child_ != nullptr) (void)r2cclCommDestroy(child_);
    if (comm_ != nullptr) (void)r2cclCommDestroy(comm_);
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
  void work() {
    if (!init() || !collectives(comm_, "collective") || !messages() || !group()) return;
    if (!ok("r2cclCommSplit", r2cclCommSplit(comm_, 0, rank_, &child_, nullptr))) return;
    if (!collectives(child_, "collective of the child")) return;
    if (!ok("r2cclCommFinalize", r2cclCommFinalize(child_))) return;
    (void)ok("r2cclCommFinalize", r2cclCommFinalize(comm_));
  }

  const int rank_;
  const int id_in_;
  const int id_out_;
  r2cclComm_t comm_ = nullptr;
  r2cclComm_t child_ = nullptr;
  Outcome outcome_;
  int32_t input_[kCount] = {};
  int32_t output_[2 * kCount] = {};
};

struct Process {
  pid_t pid = -1;
  int result = -1;  // the end of a pipe from which its outcome comes
};

Process start(int rank, int64_t from, int64_t count, int id_in, int id_out) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  Process process{fork(), ends[0]};
  if (process.pid == 0) {
    close(ends[0]);
    close(rank == 0 ? id_in : id_out);
    allocations = 0;
    fail_count = count;
    fail_from = from;
    static Rank job(rank, id_in, id_out);
    const Outcome outcome = job.run();
    fail_from = INT64_MAX;
    if (write(ends[1], &outcome, sizeof outcome) < 0) std::abort();
    _exit(0);
  }
  close(ends[1]);
  return process;
}

// Returns an empty text, or how the process ended wrongly.
const char* finish(const Process& process, Clock::time_point deadline, Outcome& outcome) {
  pollfd ready{process.result, POLLIN, 0};
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  const bool in_time = poll(&ready, 1, left > 0 ? static_cast<int>(left) : 0) == 1;
  if (!in_time) kill(process.pid, SIGABRT);
  const bool told = in_time && read(process.result, &outcome, sizeof outcome) == sizeof outcome;
  close(process.result);
  int status = 0;
  (void)waitpid(process.pid, &status, 0);
  if (!in_time) return "does not end";
  return told && status == 0 ? "" : "crashes";
}

// Returns whether the job ended as it must. `most` gets the number of allocations at `rank`.
bool run(int rank, int64_t from, int64_t count, int64_t& most) {
  int id[2];
  if (pipe(id) != 0) std::abort();
  Process ranks[2];
  for (int r = 0; r < 2; ++r) {
    ranks[r] = start(r, r == rank ? from : INT64_MAX, count, id[0], id[1]);
  }
  close(id[0]);
  close(id[1]);
  const auto deadline = Clock::now() + std::chrono::milliseconds(kPatienceMs);
  bool right = true;
  Outcome outcomes[2];
  for (int r = 0; r < 2; ++r) {
    const char* wrong = finish(ranks[r], deadline, outcomes[r]);
    const Outcome& at = outcomes[r];
    if (wrong[0] == 0 && at.wrong_values) wrong = "gets wrong values";
    // The loss may have been the rendezvous's, which serves both ranks alike: then they do not
    // meet.
    const bool did_not_meet = std::strstr("r2cclCommInitRank r2cclCommSplit", at.call) != nullptr &&
                              (at.result == r2cclTimeout || at.result == r2cclRemoteError);
    const bool silent = r == rank && at.result != r2cclSuccess && !did_not_meet &&
                        std::strstr(at.text, "out of memory") == nullptr;
    if (wrong[0] == 0 && silent) wrong = "does not name memory as the cause";
    if (wrong[0] == 0) continue;
    right = false;
    std::printf("allocation %lld of rank %d (%lld fail): rank %d %s: %d in %s: %s\n",
                static_cast<long long>(from), rank, static_cast<long long>(count), r, wrong,
                static_cast<int>(at.result), at.call, at.text);
  }
  most = outcomes[rank].allocations;
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  const bool one = argc == 4;  // RANK N COUNT: one job, to debug
  if (argc != 3 && !one) return 2;
  const int64_t stride = std::atoll(argv[1]);
  const int64_t count = std::atoll(argv[2]);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  setenv("R2CCL_SOCKET_IFNAME", "lo", 1);
  setenv("R2CCL_INIT_TIMEOUT_S", "2", 1);
  setenv("R2CCL_CUTOFF_S", "3", 1);
  setenv("R2CCL_LOG", "none", 0);
  dl_iterate_phdr(find_code, nullptr);
  if (code_begin == 0) return 2;
  if (one) {
    int64_t most = 0;
    return run(std::atoi(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]), most) ? 0 : 1;
  }
  int64_t runs = 0;
  int64_t wrong = 0;
  for (int rank = 0; rank < 2; ++rank) {
    int64_t most = 0;
    if (!run(rank, INT64_MAX, 0, most)) return 1;
    std::printf("rank %d allocates %lld times\n", rank, static_cast<long long>(most));
    for (int64_t n = 1; n <= most; n += stride) {
      int64_t ignored = 0;
      ++runs;
      if (!run(rank, n, count, ignored)) ++wrong;
    }
  }
  std::printf("%lld jobs, %lld wrong\n", static_cast<long long>(runs),
              static_cast<long long>(wrong));
  return wrong == 0 ? 0 : 1;
}
