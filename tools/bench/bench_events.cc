#include "tools/bench/bench_events.h"

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

namespace r2ccl::tools {

using nlohmann::json;

namespace {
constexpr TimeNs kVerdictWait = 3 * kSecond;
}  // namespace

std::string events_path(const std::string& file, int rank) {
  std::string path = file;
  if (size_t at = path.find("%r"); at != std::string::npos) {
    path.replace(at, 2, std::to_string(rank));
  }
  return path;
}

Result<std::unique_ptr<BenchEvents>> BenchEvents::start(const std::string& file, int period_ms,
                                                        const BenchComm& comm, const Clock& clock,
                                                        const BenchProgress& progress) {
  std::FILE* out = stdout;
  if (file != "-") {
    const std::string path = events_path(file, comm.rank());
    out = std::fopen(path.c_str(), "we");
    if (out == nullptr) return system_error(path, errno);
  }
  return std::unique_ptr<BenchEvents>(new BenchEvents(out, period_ms, comm, clock, progress));
}

BenchEvents::BenchEvents(std::FILE* out, int period_ms, const BenchComm& comm, const Clock& clock,
                         const BenchProgress& progress)
    : out_(out),
      period_ms_(period_ms),
      comm_(comm),
      clock_(clock),
      progress_(progress),
      thread_([this] { loop(); }) {}

BenchEvents::~BenchEvents() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
  write_line();
  if (out_ != stdout) std::fclose(out_);
}

void BenchEvents::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    write_line();
    lock.lock();
    wake_.wait_for(lock, std::chrono::milliseconds(period_ms_), [this] { return stop_; });
  }
}

void BenchEvents::await_death() const {
  const TimeNs until = clock_.now() + kVerdictWait;
  while (clock_.now() < until) {
    const json report = json::parse(comm_.report(), nullptr, false);
    if (!report.is_object()) return;
    for (const json& verdict : report.value("verdicts", json::array())) {
      if (verdict.value("scope", "") == "process") return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void BenchEvents::write_line() {
  json line = {{"t", static_cast<double>(clock_.now()) / 1e9},
               {"rank", comm_.rank()},
               {"operations", progress_.operations.load(std::memory_order_relaxed)},
               {"checked", progress_.checked_elements.load(std::memory_order_relaxed)},
               {"wrong", progress_.wrong_elements.load(std::memory_order_relaxed)},
               {"nics", json::object()},
               {"verdicts", json::array()}};
  json report = json::parse(comm_.report(), nullptr, false);
  if (report.is_object()) {
    line["host"] = report.value("host", json());
    for (const json& nic : report.value("nics", json::array())) {
      line["nics"][nic.value("name", "?")] = {{"tx", nic.value("tx_bytes", uint64_t{0})},
                                              {"rx", nic.value("rx_bytes", uint64_t{0})}};
    }
    json verdicts = report.value("verdicts", json::array());
    for (; verdicts_told_ < verdicts.size(); ++verdicts_told_) {
      line["verdicts"].push_back(verdicts[verdicts_told_]);
    }
  }
  std::fprintf(out_, "%s\n", line.dump().c_str());
  std::fflush(out_);
}

}  // namespace r2ccl::tools
