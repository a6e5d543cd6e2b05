// Finds the NICs of this host that are slower than they have been, from the bytes that they
// deliver. Pure.
//
// It takes the conservative road, because a window, a slow receiver or a short operation looks like
// a slow NIC. Only a window counts in which the NIC had bytes on their way nearly all the time, and
// in which another NIC of this host reached its own highest rate: what slows all NICs is no NIC's
// fault. To be found faster again, a NIC need not be busy all the time: plans give it less to do.
// The rate is in quarters of the NIC's own highest one, and changes after several windows that
// agree. A host with one NIC shows nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "plan/hosts/view.h"

namespace r2ccl {

// One NIC's part of a window of time.
struct NicWindow {
  uint64_t bytes = 0;  // delivered
  TimeNs busy = 0;     // with bytes on their way
  // The host and its NIC that got most of the bytes; several hosts: kSeveralHosts.
  uint32_t host = 0;
  uint16_t nic = 0;
  friend bool operator==(const NicWindow&, const NicWindow&) = default;
};
inline constexpr uint32_t kSeveralHosts = UINT32_MAX;

// A NIC that sends slowly. Towards one host, that one's NIC may be the cause as well.
struct SlowNic {
  uint16_t nic = 0;
  uint32_t rate = kWholeNic;  // in 1/1000 of its highest rate
  uint32_t host = kSeveralHosts;
  uint16_t peer_nic = 0;  // without a meaning where `host` is kSeveralHosts
  friend bool operator==(const SlowNic&, const SlowNic&) = default;
};

class RateWatch {
 public:
  static constexpr TimeNs kWindow = kSecond;
  static constexpr int kWindows = 3;  // that must agree
  // A finding that no window confirms is forgotten after so many.
  static constexpr int kMemory = 30;

  explicit RateWatch(size_t nics) : nics_(nics) {}

  // Takes the windows of all NICs. Returns whether slow() has changed.
  bool on_window(const std::vector<NicWindow>& windows, TimeNs length);
  std::vector<SlowNic> slow() const;

 private:
  // The finding of a window.
  struct Finding {
    uint32_t rate = kWholeNic;
    uint32_t host = kSeveralHosts;
    uint16_t nic = 0;
    friend bool operator==(const Finding&, const Finding&) = default;
  };
  struct NicWatch {
    double highest = 0;  // bytes per ns; sinks slowly
    Finding found;
    Finding next;  // of the last windows
    int agreeing = 0;
    int without = 0;  // windows since the last finding
  };
  static double measure(NicWatch& nic, const NicWindow& window, TimeNs length);
  static bool agree(NicWatch& nic, const Finding& finding);
  static bool doubt(NicWatch& nic);

  std::vector<NicWatch> nics_;
};

}  // namespace r2ccl
