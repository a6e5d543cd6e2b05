// Puts the verdicts of a process's links together, so that each fault is told once. A link of two
// processes judges alone, and mostly can name only a pair of NICs. The process sees more:
// - A NIC that several links name is one fault.
// - A NIC of this host that processes of two other hosts miss, and that reaches no other host
//   any more, is named. Without a name the same holds for the host as a whole.
// - Links to several processes of a host lose the same pair together.
// A pair waits for verdicts of other hosts, for kFaultWait at most.
//
// A fault is repaired once each path that was lost for it is up again. `lossy` and `tampered` lose
// no path: they are told as they come, the same one once in kFaultRepeat.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/admin/link_health.h"

namespace r2ccl::nccl {

// Longer than an idle path needs to notice that it is lost.
inline constexpr TimeNs kFaultWait = 3 * kSecond;
inline constexpr TimeNs kFaultRepeat = 60 * kSecond;
inline constexpr size_t kFaultsKept = 1000;

// A verdict of a link. Without `verdict.nic` it is on all NICs of its host.
struct LinkVerdict {
  uint64_t link = 0;  // its number
  std::string peer_host;
  VerdictInfo verdict;
  uint32_t process = 0;  // with Scope::process: which one
  bool over = false;     // the path is up again
  friend bool operator==(const LinkVerdict&, const LinkVerdict&) = default;
};

// A fault that has been told.
struct Fault {
  uint64_t number = 0;  // from 0 on, in the order in which faults are told
  VerdictInfo verdict;
  uint32_t process = 0;  // with Scope::process
  size_t missed_by = 0;  // other hosts that miss this host's NIC; 0: no such evidence was needed
  TimeNs found_at = 0;   // a pair may wait before it is told
  TimeNs told_at = 0;
  std::optional<TimeNs> repaired_at;
};
// Return a line for the log.
std::string fault_text(const Fault& fault);
std::string repair_text(const Fault& fault);

// The paths of a NIC of this host to other hosts.
struct NicReach {
  size_t hosts = 0;        // to which it has paths, lost ones included
  bool connected = false;  // one of these paths is
};

class FaultBoard {
 public:
  // `host`: this host's name. `reach`: of its NIC; of all its NICs for an empty name.
  FaultBoard(std::string host, std::function<NicReach(const std::string& nic)> reach)
      : host_(std::move(host)), reach_(std::move(reach)) {}

  void on_verdict(const LinkVerdict& verdict, TimeNs now);
  // The path of the link between these NICs is up. `nic`: this host's.
  void on_path_up(uint64_t link, const std::string& nic, const std::string& peer_nic);
  // The link has ended: its paths do not come back.
  void on_link_end(uint64_t link);
  // Tells what is due: each fault here is new, or repaired. A fault may be both, in this order.
  std::vector<Fault> progress(TimeNs now);
  TimeNs next_timeout() const;

  // The last kFaultsKept faults, oldest first, and the count of all.
  const std::deque<Fault>& faults() const { return faults_; }
  uint64_t count() const { return count_; }

 private:
  // A path that was lost. An empty name stands for any NIC.
  struct Lost {
    uint64_t link = 0;
    std::string nic;
    std::string peer_nic;
  };
  // A fault that is not repaired.
  struct Open {
    LinkVerdict first;
    std::string nic;  // this host's end, if it has one
    std::string peer_host;
    std::string peer_nic;
    TimeNs heard_at = 0;
    std::set<std::string> hosts;  // that miss this host's NIC
    std::vector<Lost> lost;
    bool by_count = false;           // it names this host's NIC because they miss it
    bool returned = false;           // a path of these is up again
    std::optional<uint64_t> number;  // the fault's; none: it waits
    std::vector<uint64_t> replaced;  // told faults that this one includes
  };

  Open open_of(const LinkVerdict& verdict, TimeNs now) const;
  bool names_own(const Open& open) const;
  bool covers(const Open& open, const Open& other) const;
  void merge(Open& into, const Open& from);
  void take_in(Open made, TimeNs now);
  void name_own(std::string nic, TimeNs now);
  void judge(size_t place, TimeNs now);
  void tell(Open& open, TimeNs now);
  void tell_once(const LinkVerdict& verdict, TimeNs now);
  Fault& add_fault(const LinkVerdict& verdict, size_t missed_by, TimeNs found_at, TimeNs now);
  Fault* find(const std::optional<uint64_t>& number);
  void end_repaired(TimeNs now);

  const std::string host_;
  const std::function<NicReach(const std::string&)> reach_;
  std::vector<Open> open_;
  std::deque<Fault> faults_;
  uint64_t count_ = 0;
  std::vector<Fault> news_;
  bool changed_ = false;  // progress() is due
};

}  // namespace r2ccl::nccl
