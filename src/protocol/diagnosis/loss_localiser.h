// From the losses that ranks see on their paths to the NIC that loses packets. Pure.
//
// A variant of binary loss tomography, "smallest consistent failure set" (Duffield, Network
// Tomography of Binary Network Performance Characteristics, IEEE Trans. Inf. Theory 2006), on
// passive counters as in 007 (Arzani et al., NSDI 2018): each rank reports the retransmissions that
// its kernel counts per path; a pair of NICs is lossy or clean; the smallest set of NICs that
// touches every lossy pair is the explanation. A NIC is named only if it is in every smallest set:
// with two hosts, or one lossy pair, both ends explain the loss equally well, and the verdict is
// the pair.
//
// It differs from 007, which ranks links by votes and always names one, because here a verdict that
// names an innocent NIC is worse than none. Congestion also loses packets, and is no fault. Four
// tests hold it apart from a bad NIC; each has a wide margin:
//  - a full queue drops in bursts: evidence is the number of 125 ms periods with a loss, and not
//    the number of packets, and at least two hosts must have seen it;
//  - a fan-in hits all NICs of a host that carry as much: if they all lose, no NIC is named;
//  - congestion hits what carries most: a NIC loses eight times as large a share as the pairs that
//    it has no part in;
//  - a packet that was only late, or reordered, is reported by the peer's D-SACK and does not
//  count.
// The alternative not taken is active probing (trains of packets, as BADABING does): it would see
// idle NICs too, but it adds load where the network is in trouble, and the control streams already
// cross every pair of NICs with small packets all the time. The other alternative, telling
// congestion from loss by the delay before each loss (Cen et al., End-to-End Differentiation of
// Congestion and Wireless Losses, 2003), fails where the processor delays acknowledgements by more
// than a queue does.
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
#include "protocol/diagnosis/blame.h"
#include "protocol/path/loss_meter.h"

namespace r2ccl {

// The losses of one rank's packets from one of its NICs to one of a peer's.
struct LossSample {
  NicName near;
  NicName far;
  LossCount count;
  friend bool operator==(const LossSample&, const LossSample&) = default;
};

// Everything that a rank has sent of late: also the paths without a loss, which clear NICs.
struct LossReport {
  Rank observer;
  TimeNs wall = 0;
  std::vector<LossSample> samples;
  friend bool operator==(const LossReport&, const LossReport&) = default;
};

// As many as fit into one notice, with the longest names.
inline constexpr size_t kLossSamplesMax = 40;

// Truncates to the bound: the samples with most losses stay, then those with most packets.
std::vector<std::byte> encode(const LossReport& report);
Result<LossReport> decode_loss_report(std::span<const std::byte> bytes);

class LossLocaliser {
 public:
  // A rank that sees losses reports so often.
  static constexpr TimeNs kReportInterval = 250 * kMillisecond;

  // `nics_of_hosts`: how many data NICs each host of the job has.
  explicit LossLocaliser(std::vector<size_t> nics_of_hosts)
      : nics_of_hosts_(std::move(nics_of_hosts)) {}

  // Replaces the rank's last report. Samples that contradict themselves, or name a host that the
  // job does not have, are ignored.
  void on_report(const LossReport& report, TimeNs now);
  // Another rank has judged: what it named is not named again.
  void on_verdict(const Verdict& verdict, TimeNs now);
  // New verdicts: their kind is DownCause::lossy.
  std::vector<Verdict> due(TimeNs now);
  TimeNs next_timeout() const;

  LossExplains explains(const NicName& near, const NicName& far, TimeNs now) const;

  void check_invariants() const;

 private:
  // A report is evidence for so long.
  static constexpr TimeNs kFresh = 1 * kSecond;
  // A component that is lossy without loss for so long works again: the next loss is news.
  static constexpr TimeNs kCleared = 10 * kSecond;
  // For the evidence of other pairs, before only the pair is named.
  static constexpr TimeNs kPairPatience = 2 * kSecond;
  // A NIC is lossy for so long before it is named: one full queue may drop packets of many pairs,
  // and the rate of a loss that has just begun is hardly known.
  static constexpr TimeNs kNicPatience = 500 * kMillisecond;
  // Periods with a loss: of a pair, to be lossy at all; of all pairs of a NIC, to name it; of a
  // pair, to name that.
  static constexpr uint32_t kPairPeriods = 2;
  static constexpr uint32_t kNicPeriods = 6;
  static constexpr uint32_t kNamedPairPeriods = 5;
  static constexpr uint32_t kPpmMin = 200;
  static constexpr uint64_t kMargin = 8;
  // More NICs that lose packets at the same time are not told apart.
  static constexpr size_t kCoverMax = 3;

  using Pair = std::pair<NicName, NicName>;  // in order
  struct Seen {
    LossCount count;
    TimeNs at = 0;
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
  void judge_component(const std::vector<Pair>& component, const std::vector<Pair>& lossy,
                       const std::map<Pair, LossCount>& totals, TimeNs now);
  void name(Scope scope, const NicName& nic, const NicName& other, const LossCount& count,
            TimeNs now);
  void forget_old(TimeNs now);

  std::vector<size_t> nics_of_hosts_;
  std::map<Key, Seen> seen_;  // of hosts that the job has; no count contradicts itself
  std::map<Rank, TimeNs> wall_;
  std::map<Pair, PairState> lossy_;
  // Named, and when the loss was last seen. A pair has two ends, a NIC has itself twice.
  std::map<Pair, TimeNs> named_;
  std::vector<Verdict> ready_;
  TimeNs judged_at_ = 0;
  bool changed_ = false;
};

}  // namespace r2ccl
