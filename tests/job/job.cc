#include "job.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

namespace job {
namespace {

using Environment = std::map<std::string, std::string>;

// The calling thread's variables, which take precedence over the process's.
thread_local const Environment* own_environment = nullptr;

std::string new_file_name() {
  static std::atomic<int> count{0};
  return testing::TempDir() + "r2ccl_job." + std::to_string(getpid()) + "." +
         std::to_string(count.fetch_add(1));
}

void pause() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// Returns the text or number after "key". Requires that the JSON object has the key once.
std::string field(const std::string& text, const std::string& key) {
  const size_t at = text.find("\"" + key + "\":");
  if (at == std::string::npos) throw Broken("no " + key + " in " + text);
  size_t from = at + key.size() + 3;
  const bool quoted = text[from] == '"';
  if (quoted) ++from;
  return text.substr(from, text.find_first_of(quoted ? "\"" : ",}", from) - from);
}

std::set<std::string> tcp_inodes() {
  std::set<std::string> inodes;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields(line);
      const std::vector<std::string> all{std::istream_iterator<std::string>(fields), {}};
      if (all.size() > 9) inodes.insert(all[9]);
    }
  }
  return inodes;
}

}  // namespace
}  // namespace job

// Replaces the C library's function for this program and the library under test. The library takes
// some of its settings only from the environment, and ranks that are threads share one.
extern "C" __attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  if (job::own_environment != nullptr) {
    const auto found = job::own_environment->find(name);
    // As with the real function, the caller must not write to the text.
    if (found != job::own_environment->end()) return const_cast<char*>(found->second.c_str());
  }
  const size_t length = std::strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') {
      return *entry + length + 1;
    }
  }
  return nullptr;
}

namespace job {

void check(r2cclResult_t result, const std::string& what) {
  if (result == r2cclSuccess) return;
  throw Broken(what + ": " + r2cclGetErrorString(result) + ": " + r2cclGetLastError(nullptr));
}

void expect_sum(r2cclComm_t comm, int own, const std::vector<int>& members) {
  constexpr size_t kCount = 3000;
  std::vector<int32_t> data(kCount);
  for (size_t i = 0; i < kCount; ++i) data[i] = (own + 1) * 1000 + static_cast<int32_t>(i);
  check(r2cclAllReduce(data.data(), data.data(), kCount, r2cclInt32, r2cclSum, comm, nullptr),
        "sum");
  for (size_t i = 0; i < kCount; ++i) {
    int32_t right = 0;
    for (const int member : members) right += (member + 1) * 1000 + static_cast<int32_t>(i);
    if (data[i] != right) throw Broken("a wrong sum at " + std::to_string(i));
  }
}

size_t tcp_sockets() {
  const std::set<std::string> inodes = tcp_inodes();
  size_t count = 0;
  DIR* descriptors = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(descriptors)) {
    std::array<char, 64> target{};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(path.c_str(), target.data(), target.size() - 1) <= 0) continue;
    const std::string text = target.data();  // socket:[12345]
    if (text.starts_with("socket:[") && inodes.contains(text.substr(8, text.size() - 9))) ++count;
  }
  closedir(descriptors);
  return count;
}

std::string nic(int rank, int index) {
  return "127.0." + std::to_string(index + 1) + "." + std::to_string(rank + 1);
}

// --- Report -------------------------------------------------------------------------------------

bool Report::all(const std::string& at, const std::string& state) const {
  size_t found = 0;
  for (const Path& path : paths) {
    if (path.nic != at) continue;
    if (path.state != state) return false;
    ++found;
  }
  return found > 0;
}

bool Report::any(const std::string& at, const std::string& state) const {
  return std::any_of(paths.begin(), paths.end(),
                     [&](const Path& path) { return path.nic == at && path.state == state; });
}

std::vector<Report::Path> Report::paths_to(int peer) const {
  std::vector<Path> those;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(those),
               [&](const Path& path) { return path.peer == peer; });
  return those;
}

uint64_t Report::sent_to(int peer) const {
  uint64_t bytes = 0;
  for (const Path& path : paths) bytes += path.peer == peer ? path.sent : 0;
  return bytes;
}

uint64_t Report::received_from(int peer) const {
  uint64_t bytes = 0;
  for (const Path& path : paths) bytes += path.peer == peer ? path.received : 0;
  return bytes;
}

Report report_of(r2cclComm_t comm) {
  Report report;
  size_t bytes = 64 * 1024;  // larger than a small job's
  report.text.resize(bytes);
  check(r2cclCommReport(comm, report.text.data(), &bytes), "report");
  if (bytes > report.text.size()) throw Broken("a report of " + std::to_string(bytes) + " bytes");
  report.text.resize(bytes - 1);
  report.hedged = std::stoull(field(report.text, "mirrored_bytes"));
  report.retransmitted = std::stoull(field(report.text, "replayed_bytes"));
  report.view_version = std::stoull(field(report.text, "view_version"));
  constexpr const char* kPathBegin = "{\"peer\":";
  size_t at = report.text.find(kPathBegin);
  while (at != std::string::npos) {
    const size_t end = report.text.find('}', at);
    const std::string path = report.text.substr(at, end - at + 1);
    const std::string name = field(path, "nic");
    report.paths.push_back({.peer = std::stoi(field(path, "peer")),
                            .nic = name.substr(name.find('@') + 1),
                            .state = field(path, "state"),
                            .incarnation = std::stoull(field(path, "incarnation")),
                            .sent = std::stoull(field(path, "tx_bytes")),
                            .received = std::stoull(field(path, "rx_bytes"))});
    at = report.text.find(kPathBegin, end);
  }
  return report;
}

// --- Comm ---------------------------------------------------------------------------------------

Comm::Comm(int rank, int ranks, const r2cclUniqueId& id) : rank_(rank), ranks_(ranks) {
  check(r2cclCommInitRank(&handle_, ranks, id, rank), "init of rank " + std::to_string(rank));
}

Comm::~Comm() {
  abort();
  if (handle_ != nullptr) (void)r2cclCommDestroy(handle_);
}

void Comm::abort() {
  const std::lock_guard lock(mutex_);
  if (handle_ != nullptr) (void)r2cclCommAbort(handle_);
}

r2cclResult_t Comm::destroy() {
  const std::lock_guard lock(mutex_);
  return r2cclCommDestroy(std::exchange(handle_, nullptr));
}

r2cclResult_t Comm::async_error() const {
  r2cclResult_t error = r2cclInternalError;
  check(r2cclCommGetAsyncError(handle_, &error), "async error");
  return error;
}

// --- Job ----------------------------------------------------------------------------------------

Job::Job(int ranks, std::string algorithm)
    : ranks_(ranks),
      algorithm_(std::move(algorithm)),
      fault_file_(new_file_name()),
      runtime_dir_(fault_file_ + ".run") {
  std::filesystem::create_directory(runtime_dir_);
}

Job::~Job() {
  std::filesystem::remove(fault_file_);
  std::filesystem::remove_all(runtime_dir_);
}

std::string Job::status_directory() const {
  return runtime_dir_ + "/r2ccl-" + std::to_string(geteuid());
}

// Ranks of one host communicate over lo without NICs, so each rank claims to be a host of its own.
Environment Job::environment_of(int rank) const {
  std::string nics = "=";
  for (int index = 0; index < kNics; ++index) {
    nics += (index == 0 ? "lo@" : ",lo@") + nic(rank, index);
  }
  return {{"R2CCL_SOCKET_IFNAME", nics},    {"R2CCL_HOST_ID", "host" + std::to_string(rank)},
          {"R2CCL_DAMPING", "0"},  // the tests break NICs more often than any sane network
          {"R2CCL_ALGO", algorithm_},       {"R2CCL_FAULT_FILE", fault_file_},
          {"XDG_RUNTIME_DIR", runtime_dir_}};
}

void Job::fault(const std::string& at, const std::string& words) {
  if (words.empty()) {
    faults_.erase(at);
  } else {
    faults_[at] = words;
  }
  {
    std::ofstream out(fault_file_ + ".new");
    for (const auto& [name, what] : faults_) out << name << " " << what << "\n";
  }
  std::filesystem::rename(fault_file_ + ".new", fault_file_);
}

void Job::wait_for(const std::string& what, const std::function<bool()>& holds) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!holds()) {
    if (broken_) throw Broken("the job is broken, so there will be no " + what);
    if (std::chrono::steady_clock::now() > deadline) throw Broken("there was no " + what);
    pause();
  }
}

void Job::arrive() {
  const std::lock_guard lock(mutex_);
  if (--missing_ == 0) all_arrived_.notify_all();
}

void Job::wait_for_all() {
  std::unique_lock lock(mutex_);
  all_arrived_.wait(lock, [this] { return missing_ == 0; });
}

void Job::run_rank(int rank, size_t body, const r2cclUniqueId& id, const RankBody& work) {
  const Environment environment = environment_of(rank);
  own_environment = &environment;
  std::unique_ptr<Comm>& comm = comms_[body][static_cast<size_t>(rank)];
  try {
    comm = std::make_unique<Comm>(rank, ranks_, id);
  } catch (const Broken& broken) {
    broken_ = true;
    ADD_FAILURE() << "rank " << rank << ": " << broken.what();
  }
  arrive();
  wait_for_all();
  try {
    if (comm != nullptr) work(*comm);
  } catch (const Broken& broken) {
    broken_ = true;
    ADD_FAILURE() << "rank " << rank << ": " << broken.what();
    comm->abort();
  }
  own_environment = nullptr;
}

std::thread Job::newcomer(int rank, std::function<void()> work) const {
  return std::thread([environment = environment_of(rank), work = std::move(work)] {
    own_environment = &environment;
    work();
    own_environment = nullptr;
  });
}

void Job::run(const std::vector<RankBody>& bodies, const std::function<void()>& direct) {
  comms_.resize(bodies.size());
  missing_ = bodies.size() * static_cast<size_t>(ranks_);
  const Environment environment = environment_of(0);
  std::vector<std::thread> threads;
  for (size_t body = 0; body < bodies.size(); ++body) {
    comms_[body].resize(static_cast<size_t>(ranks_));
    r2cclUniqueId id;
    own_environment = &environment;
    ASSERT_EQ(r2cclGetUniqueId(&id), r2cclSuccess) << r2cclGetLastError(nullptr);
    own_environment = nullptr;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back(
          [this, rank, body, id, &bodies] { run_rank(rank, body, id, bodies[body]); });
    }
  }
  wait_for_all();
  try {
    if (direct && !broken_) direct();
  } catch (const Broken& broken) {
    ADD_FAILURE() << broken.what();
    broken_ = true;
    for (const auto& each : comms_) {
      for (const auto& comm : each) comm->abort();
    }
  }
  for (std::thread& thread : threads) thread.join();
  comms_.clear();
}

// --- Rounds -------------------------------------------------------------------------------------

bool Rounds::enter(int round) {
  const std::lock_guard lock(mutex_);
  if (stopped_ && round > newest_) return false;
  newest_ = std::max(newest_, round);
  return true;
}

void Rounds::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

int Rounds::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

// --- values, buffers, operations ----------------------------------------------------------------

int32_t Values::operator[](size_t element) const {
  uint32_t sum = 0;  // wraps, as the library's does
  for (int rank = first_rank; rank <= last_rank; ++rank) {
    uint32_t mixed = static_cast<uint32_t>(element) * 2654435761U + tag * 40503U +
                     static_cast<uint32_t>(rank + 1) * 97U;
    mixed ^= mixed >> 15;
    sum += mixed * 2246822519U;
  }
  return static_cast<int32_t>(sum);
}

Buffer::Buffer(size_t count)
    : data_(static_cast<int32_t*>(std::malloc(std::max<size_t>(count * sizeof(int32_t), 1)))),
      count_(count) {}

Buffer::Buffer(size_t count, const Values& content) : Buffer(count) {
  for (size_t i = 0; i < count; ++i) data_[i] = content[i];
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  end();
  data_ = std::exchange(other.data_, nullptr);
  count_ = other.count_;
  return *this;
}

void Buffer::end() {
  if (data_ == nullptr) return;
  explicit_bzero(data_, count_ * sizeof(int32_t));  // memset would be optimized away
  std::free(data_);
  data_ = nullptr;
}

void Buffer::expect(const Values& right, const std::string& what) const {
  for (size_t i = 0; i < count_; ++i) {
    if (data_[i] == right[i]) continue;
    throw Broken(what + ": element " + std::to_string(i) + " of " + std::to_string(count_) +
                 " is " + std::to_string(data_[i]) + ", not " + std::to_string(right[i]));
  }
}

Operation Operation::all_reduce(Comm& comm, uint32_t tag, size_t count) {
  Operation started("allreduce " + std::to_string(tag),
                    Buffer(count, {comm.rank(), comm.rank(), tag}), Buffer(count),
                    {0, comm.ranks() - 1, tag});
  check(r2cclAllReduce(started.source_.data(), started.target_.data(), count, r2cclInt32, r2cclSum,
                       comm.handle(), &started.request_),
        started.what_);
  return started;
}

Operation Operation::broadcast(Comm& comm, uint32_t tag, size_t count, int root) {
  const Values values{root, root, tag};
  const bool sends = comm.rank() == root;
  Operation started("broadcast " + std::to_string(tag), sends ? Buffer(count, values) : Buffer(0),
                    Buffer(count), values);
  check(r2cclBroadcast(sends ? started.source_.data() : nullptr, started.target_.data(), count,
                       r2cclInt32, root, comm.handle(), &started.request_),
        started.what_);
  return started;
}

Operation Operation::send(Comm& comm, uint32_t tag, size_t count, int peer) {
  Operation started("send " + std::to_string(tag), Buffer(count, {comm.rank(), comm.rank(), tag}),
                    Buffer(0), {});
  check(
      r2cclSend(started.source_.data(), count, r2cclInt32, peer, comm.handle(), &started.request_),
      started.what_);
  return started;
}

Operation Operation::receive(Comm& comm, uint32_t tag, size_t count, int peer) {
  Operation started("receive " + std::to_string(tag), Buffer(0), Buffer(count), {peer, peer, tag});
  check(
      r2cclRecv(started.target_.data(), count, r2cclInt32, peer, comm.handle(), &started.request_),
      started.what_);
  return started;
}

Operation::Operation(Operation&& other) noexcept
    : what_(std::move(other.what_)),
      source_(std::move(other.source_)),
      target_(std::move(other.target_)),
      right_(other.right_),
      request_(std::exchange(other.request_, nullptr)) {}

Operation::~Operation() {
  if (request_ != nullptr) (void)r2cclRequestAbort(&request_);
}

void Operation::finish() {
  check(r2cclRequestWait(&request_, kPatienceMs), what_);
  source_.end();
  target_.expect(right_, what_);
  target_.end();
}

void reduce_and_broadcast(Comm& comm, Rounds& rounds) {
  constexpr size_t kLarge = 60 * 1003;
  constexpr size_t kSmall = 517;
  for (int round = 0; rounds.enter(round); ++round) {
    const auto tag = static_cast<uint32_t>(round) * 2;
    Operation sum = Operation::all_reduce(comm, tag, kLarge);
    Operation copy = Operation::broadcast(comm, tag + 1, kSmall, round % comm.ranks());
    sum.finish();
    copy.finish();
  }
  check(comm.destroy(), "destroy");
}

}  // namespace job
