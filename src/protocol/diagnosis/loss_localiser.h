// Localises the NIC that loses packets from the losses that ranks see on their paths. Pure.
//
// A variant of binary loss tomography, "smallest consistent failure set" (Duffield, Network
// Tomography of Binary Network Performance Characteristics, IEEE Trans. Inf. Theory 2006), on
// passive counters as in 007 (Arzani et al., NSDI 2018). Each rank reports the retransmissions that
// its kernel counts per path. A pair of NICs is lossy or clean. The smallest set of NICs that
// touches every lossy pair is the explanation. A verdict names a NIC only if it is in every
// smallest set: with two hosts, or one lossy pair, both ends explain the loss equally well, and the
// verdict is the pair.
//
// It differs from 007, which ranks links by votes and always names one, because here a verdict that
// names an innocent NIC is worse than none. Losses of one cause happen at the same time: a NIC
// between two pairs that lost packets one after the other is not named.
//
// Congestion also loses packets, and is no fault. Five tests hold it apart from a bad NIC; each has
// a wide margin:
//  - a full queue explains the loss: the meter of the path sees it (loss_meter.h);
//  - a full queue drops in bursts: evidence is the number of 125 ms periods with a loss, and not
//    the number of packets, and at least two hosts must have seen it;
//  - a fan-in hits all NICs of a host that carry as much: if they all lose, no NIC is named;
//  - congestion hits the busiest NICs: a bad NIC loses eight times as large a share as the pairs
//    without it;
//  - a late or reordered packet does not count, because the peer's D-SACK reports it.
// The alternative not taken is active probing (trains of packets, as BADABING does): it would see
// idle NICs too, but it adds load where the network is in trouble, and the control streams already
// cross every pair of NICs with small packets all the time.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/path/loss_meter.h"

namespace r2ccl {

// The losses of one rank's packets from one of its NICs to one of a peer's.
struct LossSample {
  NicName near;
  NicName far;
  LossCount count;
  friend bool operator==(const LossSample&, const LossSample&) = default;
};

// All packets that a rank has sent lately, also on paths without a loss, which clear NICs.
struct LossReport {
  Rank observer;
  TimeNs wall = 0;
  std::vector<LossSample> samples;
  friend bool operator==(const LossReport&, const LossReport&) = default;
};

// As many as fit into one notice, with the longest names.
inline constexpr size_t kLossSamplesMax = 40;

// Encodes the report, truncated to the bound: it keeps the samples with most losses, then the ones
// with most packets.
std::vector<std::byte> encode(const LossReport& report);
Result<LossReport> decode_loss_report(std::span<const std::byte> bytes);

class LossLocaliser {
 public:
  // A rank that sees losses reports this often.
  static constexpr TimeNs kReportInterval = 250 * kMillisecond;

  // `nics_of_hosts`: the number of data NICs of each host of the job.
  explicit LossLocaliser(std::vector<size_t> nics_of_hosts)
      : nics_of_hosts_(std::move(nics_of_hosts)) {}

  // Replaces the rank's last report. Ignores samples that contradict themselves, or name a host
  // that the job does not have.
  void on_report(const LossReport& report, TimeNs now);
  // Takes the verdict of another localising rank, so that this one does not name the same component
  // again.
  void on_verdict(const Verdict& verdict, TimeNs now);
  // Returns new verdicts; their kind is DownCause::lossy.
  std::vector<Verdict> due(TimeNs now);
  TimeNs next_timeout() const;
  // Returns whether time alone changes nothing here: there is no report and no recent verdict.
  bool is_quiet() const {
    return !changed_ && seen_.empty() && lossy_.empty() && named_.empty() && ready_.empty();
  }

  LossExplains explains(const NicName& near, const NicName& far, TimeNs now) const;

  void check_invariants() const;

 private:
  // A report is evidence for this long.
  static constexpr TimeNs kFresh = 1 * kSecond;
  // A lossy component without loss for this long works again: the next loss is news.
  static constexpr TimeNs kCleared = 10 * kSecond;
  // Time to wait for evidence of other pairs before the verdict names only the pair.
  static constexpr TimeNs kPairPatience = 2 * kSecond;
  // A NIC must lose packets for this long before it is named: one full queue, or one short outage,
  // may drop packets of many pairs, and the rate of a loss that has just begun is uncertain.
  static constexpr TimeNs kNicPatience = 500 * kMillisecond;
  // Periods with a loss that are needed: in a pair, to call it lossy; over all pairs of a NIC, to
  // name the NIC; in a pair, to name the pair.
  static constexpr uint32_t kPairPeriods = 2;
  static constexpr uint32_t kNicPeriods = 6;
  static constexpr uint32_t kNamedPairPeriods = 5;
  static constexpr uint32_t kPpmMin = 200;
  static constexpr uint64_t kMargin = 8;
  // The localiser cannot separate more NICs that lose packets at the same time.
  static constexpr size_t kCoverMax = 3;

  using Pair = std::pair<NicName, NicName>;  // in order
  struct Seen {
    LossCount count;
    TimeNs at = 0;
    TimeNs grew_at = 0;  // its last report with more lossy periods than the report before; 0: none
  };
  struct Key {
    Rank observer;
    NicName near;
    NicName far;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct PairState {
    TimeNs lossy_since = 0;
  };
  using Cover = std::set<NicName>;

  std::map<Pair, LossCount> totals() const;
  std::vector<Pair> lossy_pairs(const std::map<Pair, LossCount>& totals) const;
  bool stands_out(const LossCount& count, const Cover& touched,
                  const std::map<Pair, LossCount>& totals) const;
  bool host_is_clean_elsewhere(const NicName& nic, const std::vector<Pair>& lossy,
                               const std::map<Pair, LossCount>& totals) const;
  bool lasted(const NicName& nic, TimeNs since) const;
  TimeNs lost_until(const Pair& pair) const;
  bool lost_together(const std::vector<Pair>& pairs) const;
  void localise_component(const std::vector<Pair>& component, const std::vector<Pair>& lossy,
                          const std::map<Pair, LossCount>& totals, TimeNs now);
  void name(Scope scope, const NicName& nic, const NicName& other, const LossCount& count,
            TimeNs now);
  void forget_old(TimeNs now);

  std::vector<size_t> nics_of_hosts_;
  std::map<Key, Seen> seen_;  // only hosts of the job; no count contradicts itself
  std::map<Rank, TimeNs> wall_;
  std::map<Pair, PairState> lossy_;
  // The named components, and when their loss was last seen. A pair has two ends; a NIC is there
  // twice.
  std::map<Pair, TimeNs> named_;
  std::vector<Verdict> ready_;
  TimeNs localised_at_ = 0;
  bool changed_ = false;
};

}  // namespace r2ccl
