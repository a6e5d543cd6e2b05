// One end of a path, as the failure detector and the path scheduler see it. The runtime's Path adds
// the connections; tests use a fake. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "protocol/path/busy_rate.h"
#include "protocol/path/nic_queue.h"
#include "protocol/path/path_health.h"
#include "protocol/path/path_model.h"
#include "protocol/path/path_state.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

class PathEnd {
 public:
  // `nic_queue`: of its NIC at this end; must outlive the path.
  PathEnd(size_t place, bool carries_no_chunks, const NicQueue& nic_queue)
      : index(place), control_only(carries_no_chunks), queue_(&nic_queue) {}
  virtual ~PathEnd() = default;
  PathEnd(const PathEnd&) = delete;
  PathEnd& operator=(const PathEnd&) = delete;

  const size_t index;       // its place among the paths of its link
  const bool control_only;  // the out-of-band path: carries control frames, never chunks
  PathState state;
  PathModel model;
  BusyRate busy_rate;  // of its data connection
  PathHealth health;
  std::optional<DownCause> broken;  // the connection broke, and its link has not acted yet
  bool peer_suspects = false;       // the other end's last report says so
  bool drained = false;             // one of its NICs is out of service
  bool data_passes = false;         // full-size frames have passed both ways on its data connection
  bool standby = false;  // drained or a fallback, and its link has another path: no new chunks

  // Returns the account of the NIC by which its bytes leave.
  const NicQueue& queue() const { return *queue_; }
  // Returns whether the path may get new chunks.
  bool carries() const { return state.usable() && data_passes && !standby; }
  // Returns whether its control stream takes a frame now.
  virtual bool control_writable() const = 0;
  // Returns whether its data connection takes a new frame now.
  virtual bool can_start_frame() const = 0;
  // Returns whether the kernel of this host is short of memory: the path pauses reads and writes.
  virtual bool paused() const = 0;
  // Returns whether a frame stays half-written for ever, because its bytes cannot be read.
  virtual bool abandoned() const = 0;
  // Return ConnectionInfo::unanswered_ns of each connection; kNever without it.
  virtual TimeNs data_unanswered() const = 0;
  virtual TimeNs control_unanswered() const = 0;

  // Returns whether the control stream is in service and takes a frame. An operator may unplug a
  // drained path at any moment, so its control stream is not in service.
  bool good_control() const {
    return control_writable() && !broken && !control_only && state.usable() && !standby;
  }

 protected:
  // Legal while nothing is outstanding.
  void leave_by(const NicQueue& nic_queue) { queue_ = &nic_queue; }

 private:
  const NicQueue* queue_;
};

}  // namespace r2ccl
