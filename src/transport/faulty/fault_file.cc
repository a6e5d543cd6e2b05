#include "transport/faulty/fault_file.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "transport/faulty/faulty_transport.h"

namespace r2ccl {
namespace {

constexpr int64_t kDelayMsMax = 60'000;
constexpr int64_t kBytesPerSecondMax = int64_t{1} << 40;
constexpr int64_t kQueueBytesMax = int64_t{1} << 30;
constexpr int64_t kFlippedBitMax = 8 * 1024;
constexpr int64_t kAddedBytesMax = 1024;
constexpr auto kLookEvery = std::chrono::milliseconds(10);

// Returns the next word as a number from 1 to `highest`; 0 when it is none.
int64_t read_amount(std::istringstream& words, int64_t highest) {
  std::string word;
  words >> word;
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = error == std::errc() && rest == word.data() + word.size();
  return whole && value >= 1 && value <= highest ? value : 0;
}

// Reads "PATTERN AMOUNT ORDER", the pattern in hexadecimal digits.
bool read_change(std::istringstream& words, int64_t highest, int64_t& amount, ByteChange& change) {
  change = {};
  std::string digits;
  words >> digits;
  for (size_t i = 0; i + 2 <= digits.size(); i += 2) {
    unsigned byte = 0;
    const auto [rest, error] = std::from_chars(&digits[i], &digits[i] + 2, byte, 16);
    if (error != std::errc() || rest != &digits[i] + 2) return false;
    change.pattern += static_cast<char>(byte);
  }
  amount = read_amount(words, highest);
  change.order = static_cast<uint64_t>(read_amount(words, INT64_MAX));
  return !change.pattern.empty() && digits.size() % 2 == 0 && amount != 0 && change.order != 0;
}

// Reads the rest of a line into `fault`. Returns why it makes no sense; empty if it does.
std::string read_fault(std::istringstream& words, NicFault& fault) {
  std::string word;
  while (words >> word) {
    if (word == "down") {
      fault.down = true;
    } else if (word == "hole") {
      fault.hole_tx = fault.hole_rx = true;
    } else if (word == "hole-tx") {
      fault.hole_tx = true;
    } else if (word == "hole-rx") {
      fault.hole_rx = true;
    } else if (word == "no-buffers") {
      fault.no_buffers = true;
    } else if (word == "no-events") {
      fault.no_events = true;
    } else if (word == "slow") {
      const int64_t bytes_per_s = read_amount(words, kBytesPerSecondMax);
      if (bytes_per_s == 0) return "slow needs bytes per second";
      fault.bytes_per_s = static_cast<uint64_t>(bytes_per_s);
    } else if (word == "delay") {
      fault.delay_ns = read_amount(words, kDelayMsMax) * kMillisecond;
      if (fault.delay_ns == 0) return "delay needs milliseconds";
    } else if (word == "queue") {
      fault.queue_bytes = static_cast<uint32_t>(read_amount(words, kQueueBytesMax));
      if (fault.queue_bytes == 0) return "queue needs bytes";
    } else if (word == "flip") {
      int64_t bit = 0;
      if (!read_change(words, kFlippedBitMax, bit, fault.change)) {
        return "flip needs a pattern, a bit and an order";
      }
      // The first bit has number 1 here, because an amount is never 0.
      fault.change.bit = static_cast<uint32_t>(bit - 1);
    } else if (word == "add") {
      int64_t bytes = 0;
      if (!read_change(words, kAddedBytesMax, bytes, fault.change)) {
        return "add needs a pattern, bytes and an order";
      }
      fault.change.added = static_cast<uint32_t>(bytes);
    } else {
      return "unknown word " + word;
    }
  }
  return fault == NicFault{.queue_bytes = fault.queue_bytes} ? "no fault" : "";
}

// Returns an error when `file` exists and is no readable file, or when it can never exist.
Status check_readable(const std::string& file) {
  const auto unusable = [](const std::string& why) { return Status(Code::invalid_argument, why); };
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) return unusable("is a directory");
  // To open one waits for its writer, and each content could be read once only.
  if (std::filesystem::is_fifo(file, error)) return unusable("is a FIFO and not a regular file");
  if (access(file.c_str(), R_OK) == 0) return {};
  if (errno != ENOENT) return unusable(system_error("cannot read the file", errno).message());
  const std::filesystem::path directory = std::filesystem::path(file).parent_path();
  if (directory.empty() || std::filesystem::is_directory(directory, error)) return {};
  return unusable("there is no directory " + directory.string() + ", so the file can never come");
}

// Updates a plan from its file, on a thread of its own. The file is small, so each look reads the
// whole file and compares it: no file system's idea of time or change notices can hide a change.
class FaultFileFollower {
 public:
  FaultFileFollower(std::string file, FaultPlan& plan) : file_(std::move(file)), plan_(plan) {
    look();
    // The thread inherits the mask, so it never gets a signal of the application.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_setname_np(thread_.native_handle(), "r2ccl-faults");
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~FaultFileFollower() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    stopped_.notify_one();
    thread_.join();
  }
  FaultFileFollower(const FaultFileFollower&) = delete;
  FaultFileFollower& operator=(const FaultFileFollower&) = delete;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, kLookEvery, [this] { return stop_; })) {
      try {
        look();
      } catch (const std::bad_alloc&) {
        R2CCL_LOG(warn, "%s: out of memory; it is read again", file_.c_str());
      }
    }
  }

  void look() {
    std::ifstream in(file_, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (text == text_) return;
    FaultFileContent content = parse_fault_file(text);
    for (const std::string& complaint : content.complaints) {
      R2CCL_LOG(warn, "%s: %s", file_.c_str(), complaint.c_str());
    }
    for (const auto& [nic, fault] : faults_) {
      if (!content.faults.contains(nic)) plan_.set(nic, {});
    }
    for (const auto& [nic, fault] : content.faults) {
      const auto known = faults_.find(nic);
      if (known == faults_.end() || known->second != fault) plan_.set(nic, fault);
    }
    faults_ = std::move(content.faults);
    text_ = text;
  }

  const std::string file_;
  FaultPlan& plan_;
  // Used by look(): first in the constructor, then on the thread.
  std::string text_;
  std::map<std::string, NicFault> faults_;

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

// A FaultyTransport together with its plan and the plan's follower.
class FollowingTransport final : public Transport {
 public:
  FollowingTransport(std::unique_ptr<Transport> inner, std::string file, const Clock& clock)
      : transport_(std::move(inner), plan_, clock), follower_(std::move(file), plan_) {}

  Poller& poller() override { return transport_.poller(); }
  Result<std::vector<Nic>> nics() override { return transport_.nics(); }
  int nic_events_poll_id() const override { return transport_.nic_events_poll_id(); }
  bool drain_nic_events() override { return transport_.drain_nic_events(); }
  Result<std::unique_ptr<Listener>> listen(const Endpoint& local,
                                           const std::string& device) override {
    return transport_.listen(local, device);
  }
  Result<std::unique_ptr<Connection>> connect(const Endpoint& remote,
                                              const ConnectOptions& options) override {
    return transport_.connect(remote, options);
  }

 private:
  FaultPlan plan_;
  FaultyTransport transport_;
  FaultFileFollower follower_;  // last: its thread wakes the transport's poller
};

}  // namespace

FaultFileContent parse_fault_file(const std::string& text) {
  FaultFileContent content;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string nic;
    if (!(words >> nic)) continue;
    NicFault fault;
    const std::string complaint = read_fault(words, fault);
    if (complaint.empty()) {
      content.faults[nic] = fault;
    } else {
      content.complaints.push_back("line " + std::to_string(number) + " is ignored: " + complaint);
    }
  }
  return content;
}

Result<std::unique_ptr<Transport>> follow_fault_file(std::unique_ptr<Transport> inner,
                                                     std::string file, const Clock& clock) {
  R2CCL_RETURN_IF_ERROR(check_readable(file));
  return std::unique_ptr<Transport>(
      std::make_unique<FollowingTransport>(std::move(inner), std::move(file), clock));
}

}  // namespace r2ccl
