// The cost of a request to a network of NCCL's: two processes of this host call its table directly,
// the plugin's or the one of NCCL's own sockets, which stands in the symbols of its library.
//   nccl_requests LIBRARY SYMBOL [SHARE of the rounds]
// One line for each size of messages: a message and its answer take twice `half_trip_us`; with
// kInFlight messages on the way one takes `each_us`. `cpu_us` is the processor time of both
// processes for one of the latter. bench/nccl_speed.py runs it.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "loaded_library.h"
#include "nccl/abi.h"

namespace r2ccl::nccl {
namespace {

constexpr size_t kInFlight = 8;  // as many as NCCL has of one channel
constexpr int kTag = 7;
constexpr TimeNs kStartMax = 20 * kSecond;

struct Size {
  size_t bytes;
  int rounds;
};
constexpr std::array<Size, 3> kSizes = {{{8, 20'000}, {64 << 10, 5'000}, {1 << 20, 500}}};

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "nccl_requests: %s\n", text.c_str());
  std::exit(1);
}

void check(Outcome outcome, const char* call) {
  if (outcome != kSuccess) fail(std::string(call) + " fails with " + std::to_string(outcome));
}

void print_warning(int level, unsigned long, const char*, int, const char* format, ...) {
  if (level != kLogWarn) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
}

void write_all(int file, const void* bytes, size_t size) {
  if (write(file, bytes, size) != static_cast<ssize_t>(size)) fail("the other process has ended");
}

void read_all(int file, void* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = read(file, static_cast<char*>(bytes) + done, size - done);
    if (got <= 0) fail("the other process has ended");
    done += static_cast<size_t>(got);
  }
}

// The processor time of this process.
TimeNs cpu_time() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const timeval& time) {
    return time.tv_sec * kSecond + time.tv_usec * kMicrosecond;
  };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

// One of the two processes, with a connection to the other one and one from it.
class Side {
 public:
  // `out` and `in`: pipes to the other process.
  Side(const TableV12& table, int out, int in) : table_(table), out_(out), in_(in) {
    int config[16] = {};  // the communicator's: all zero
    check(table_.init(&context_, 1, config, print_warning, nullptr), "init");
    int devices = 0;
    check(table_.devices(&devices), "devices");
    if (devices < 1) fail("the network has no device");
    connect();
    buffer_.resize(kInFlight * kSizes.back().bytes);
    check(table_.regMr(send_, buffer_.data(), buffer_.size(), kPointerHost, &send_memory_),
          "regMr");
    check(table_.regMr(receive_, buffer_.data(), buffer_.size(), kPointerHost, &receive_memory_),
          "regMr");
  }

  void* isend(size_t slot, size_t size) {
    void* request = nullptr;
    while (request == nullptr) {
      check(table_.isend(send_, at(slot, size), size, kTag, send_memory_, nullptr, &request),
            "isend");
    }
    return request;
  }

  void* irecv(size_t slot, size_t size) {
    void* request = nullptr;
    while (request == nullptr) {
      void* data = at(slot, size);
      int tag = kTag;
      check(table_.irecv(receive_, 1, &data, &size, &tag, &receive_memory_, nullptr, &request),
            "irecv");
    }
    return request;
  }

  bool is_done(void* request) {
    int done = 0;
    int size = 0;
    check(table_.test(request, &done, &size), "test");
    return done != 0;
  }

  void wait(void* request) {
    while (!is_done(request)) continue;
  }

  // Waits until the other process is here, too.
  void meet() {
    char byte = 0;
    write_all(out_, &byte, 1);
    read_all(in_, &byte, 1);
  }

  // Gives the other process a time, and returns its own.
  TimeNs exchange(TimeNs own) {
    TimeNs theirs = 0;
    write_all(out_, &own, sizeof own);
    read_all(in_, &theirs, sizeof theirs);
    return theirs;
  }

  void close() {
    meet();
    check(table_.deregMr(send_, send_memory_), "deregMr");
    check(table_.deregMr(receive_, receive_memory_), "deregMr");
    check(table_.closeSend(send_), "closeSend");
    check(table_.closeRecv(receive_), "closeRecv");
    check(table_.finalize(context_), "finalize");
  }

 private:
  char* at(size_t slot, size_t size) { return buffer_.data() + slot * size; }

  void connect() {
    std::array<char, kHandleBytes> own{};
    std::array<char, kHandleBytes> theirs{};
    void* listener = nullptr;
    check(table_.listen(context_, 0, own.data(), &listener), "listen");
    write_all(out_, own.data(), own.size());
    read_all(in_, theirs.data(), theirs.size());
    const SystemClock clock;
    const TimeNs deadline = clock.now() + kStartMax;
    while (send_ == nullptr || receive_ == nullptr) {
      void* device = nullptr;
      if (send_ == nullptr)
        check(table_.connect(context_, 0, theirs.data(), &send_, &device), "connect");
      if (receive_ == nullptr) check(table_.accept(listener, &receive_, &device), "accept");
      if (clock.now() > deadline) fail("the two processes do not connect");
    }
    check(table_.closeListen(listener), "closeListen");
  }

  const TableV12& table_;
  const int out_;
  const int in_;
  void* context_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
  void* send_memory_ = nullptr;
  void* receive_memory_ = nullptr;
  std::vector<char> buffer_;
};

// Messages go back and forth. Returns the time of one way.
double half_trip_us(Side& side, bool first, size_t size, int rounds) {
  side.meet();
  const SystemClock clock;
  const TimeNs begin = clock.now();
  for (int round = 0; round < rounds; ++round) {
    void* receive = side.irecv(1, size);
    if (first) side.wait(side.isend(0, size));
    side.wait(receive);
    if (!first) side.wait(side.isend(0, size));
  }
  return static_cast<double>(clock.now() - begin) / 2e3 / rounds;
}

struct Stream {
  double each_us = 0;
  double cpu_us = 0;
};

// The first process sends, with kInFlight messages on the way.
Stream stream(Side& side, bool first, size_t size, int rounds) {
  side.meet();
  const SystemClock clock;
  const TimeNs begin = clock.now();
  TimeNs cpu = -cpu_time();
  std::array<void*, kInFlight> requests{};
  for (int round = 0; round < rounds + static_cast<int>(kInFlight); ++round) {
    const size_t slot = static_cast<size_t>(round) % kInFlight;
    if (requests[slot] != nullptr) side.wait(std::exchange(requests[slot], nullptr));
    if (round >= rounds) continue;
    requests[slot] = first ? side.isend(slot, size) : side.irecv(slot, size);
  }
  cpu += cpu_time();
  side.meet();
  const TimeNs time = clock.now() - begin;
  return {static_cast<double>(time) / 1e3 / rounds,
          static_cast<double>(cpu + side.exchange(cpu)) / 1e3 / rounds};
}

void run(const TableV12& table, bool first, int out, int in, double share) {
  Side side(table, out, in);
  for (const Size& each : kSizes) {
    const int rounds = std::max(static_cast<int>(each.rounds * share), 1);
    (void)half_trip_us(side, first, each.bytes, rounds / 10 + 1);  // to warm up
    const double half = half_trip_us(side, first, each.bytes, rounds);
    const Stream many = stream(side, first, each.bytes, rounds);
    if (!first) continue;
    std::printf("{\"bytes\": %zu, \"half_trip_us\": %.2f, \"each_us\": %.2f, \"cpu_us\": %.2f}\n",
                each.bytes, half, many.each_us, many.cpu_us);
  }
  side.close();
}

const TableV12& find_table(const char* path, const char* symbol) {
  static const emulated::LoadedLibrary library(path);
  const auto* table = static_cast<const TableV12*>(library.data(symbol));
  if (table == nullptr) fail(std::string(path) + " has no " + symbol);
  return *table;
}

int main_of(int argc, char** argv) {
  if (argc < 3) fail("usage: nccl_requests LIBRARY SYMBOL [SHARE]");
  const double share = argc > 3 ? std::atof(argv[3]) : 1;
  std::array<int, 2> there{};
  std::array<int, 2> back{};
  if (pipe(there.data()) != 0 || pipe(back.data()) != 0) fail("no pipe");
  // Each process loads the library by itself.
  const pid_t child = fork();
  if (child < 0) fail("no second process");
  const TableV12& table = find_table(argv[1], argv[2]);
  run(table, child != 0, child != 0 ? there[1] : back[1], child != 0 ? back[0] : there[0], share);
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace r2ccl::nccl

int main(int argc, char** argv) {
  return r2ccl::nccl::main_of(argc, argv);
}
