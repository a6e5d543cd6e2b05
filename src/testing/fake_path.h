// Fakes of the pure path layer: the end of a path without connections, on a NIC queue of its own,
// and a recorder of the failure detector's decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/path/failure_detector.h"
#include "protocol/path/path_end.h"

namespace r2ccl {

class FakePath final : public PathEnd {
 public:
  explicit FakePath(size_t place, bool carries_no_chunks = false)
      : FakePath(place, carries_no_chunks, std::make_unique<NicQueue>()) {}

  bool writable = true;
  bool can_start = true;
  bool is_paused = false;
  bool is_abandoned = false;
  TimeNs data_owed = kNever;     // data_unanswered()
  TimeNs control_owed = kNever;  // control_unanswered()

  bool control_writable() const override { return writable && state.connected(); }
  bool can_start_frame() const override { return can_start && state.connected(); }
  bool paused() const override { return is_paused; }
  bool abandoned() const override { return is_abandoned; }
  TimeNs data_unanswered() const override { return data_owed; }
  TimeNs control_unanswered() const override { return control_owed; }

  void bring_up(TimeNs now) {
    state.connect(Incarnation(state.incarnation().value() + 1), now);
    state.mark_validated(now);
    data_passes = !control_only;
  }
  // A frame of `bytes` goes out.
  void send(uint32_t bytes, TimeNs now) {
    queue_->on_sent(bytes, model.outstanding().empty(), now);
    Transmission transmission;
    transmission.bytes = bytes;
    model.on_sent(transmission, now, queue_->time_of(queue_->outstanding()));
  }
  // The peer acknowledges all frames.
  void deliver(TimeNs now) {
    const uint64_t before = model.bytes_outstanding();
    std::vector<Transmission> delivered;
    (void)model.on_delivered(model.frames_sent(), {now, 0}, false, now, delivered);
    queue_->on_delivered(before, 0, now);
  }
  // The connection is gone, with all that was outstanding.
  void lose(DownCause cause, TimeNs now) {
    queue_->on_lost(model.bytes_outstanding());
    model.reset();
    data_passes = false;
    state.fail(cause, now);
  }

 private:
  FakePath(size_t place, bool carries_no_chunks, std::unique_ptr<NicQueue> nic_queue)
      : PathEnd(place, carries_no_chunks, *nic_queue), queue_(std::move(nic_queue)) {}

  std::unique_ptr<NicQueue> queue_;
};

// Carries out each decision on fake paths, and notes it in words: "suspect 0".
class RecordedActions final : public FailureDetector::Actions {
 public:
  FailureDetector* detector = nullptr;
  TimeNs prompt = kNever;

  std::vector<std::string> take() { return std::exchange(done_, {}); }

  void send_ping(PathEnd& path, TimeNs now) override {
    note("ping", path);
    last_ping = detector->on_ping_sent(path, false, now);
  }
  void suspect(PathEnd& path, const char* stream, TimeNs, TimeNs now) override {
    note(std::string("suspect by ") + stream, path);
    path.state.suspect(now);
  }
  void clear(PathEnd& path, TimeNs now) override {
    note("clear", path);
    path.state.clear(now);
  }
  void fail(PathEnd& path, DownCause cause, const char*, TimeNs now) override {
    note(std::string("fail ") + to_string(cause), path);
    static_cast<FakePath&>(path).lose(cause, now);
  }
  void probe_kernel(PathEnd& path, TimeNs) override { note("probe", path); }
  void reconnect(PathEnd& path, TimeNs, TimeNs) override { note("reconnect", path); }
  TimeNs prompt_round_trip(TimeNs) const override { return prompt; }

  uint32_t last_ping = 0;

 private:
  void note(const std::string& what, const PathEnd& path) {
    done_.push_back(what + " " + std::to_string(path.index));
  }

  std::vector<std::string> done_;
};

}  // namespace r2ccl
