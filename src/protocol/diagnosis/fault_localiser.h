// Fault localiser: makes one verdict for each fault from the ranks' observations of their paths. A
// verdict names the rank, the NIC and the kind. Pure.
//
// A verdict never exceeds its evidence; docs/blame.md has the table. It names an
// interface that its own host saw go down or lose its carrier, or whose host told a peer so. For
// every other fault the localiser asks the hosts at both ends and some others to open connections
// between their NICs, which kernels answer. A NIC that reaches no other, while others reach each
// other, is named. When both ends of a broken pair reach others, the verdict is the network between
// them. When no NIC of a rail reaches another one, it is the rail. With two hosts the side is
// unknown, and the verdict gives both ends.
//
// A path that ended as `corrupted` accuses no NIC. The third such end between two hosts within a
// minute is a verdict `tampered` on the pair: of NICs if all of these ends were of one pair, else
// of the hosts. Its further ends belong to it until there has been none for a minute.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/status.h"
#include "protocol/wire/wire.h"

namespace r2ccl {

// A NIC of a host. Ranks of one host share its NICs, so the host counts and not the rank.
struct NicName {
  uint32_t host = 0;  // index into the job's table of hosts
  std::string nic;
  friend auto operator<=>(const NicName&, const NicName&) = default;
};

// One end's report that a path which had been up went down. With NICs without a name it reports
// that the peer's process has died (`connection_lost`), or that its host is cut off (`silent`).
struct Observation {
  Rank observer;
  Rank peer;
  NicName near;  // the observer's end
  NicName far;
  Incarnation incarnation;            // of the path: the same in both ends' reports of one loss
  DownCause cause = DownCause::none;  // the observer's evidence
  DownCause peer_cause = DownCause::none;  // the peer's evidence, when `cause` is peer_notice
  uint64_t detected_us = 0;
  uint64_t retransmitted_bytes = 0;
  uint64_t stall_us = 0;
  uint64_t since_up_us = 0;  // time since the path came up, when the report is sent
  TimeNs wall = 0;
  friend bool operator==(const Observation&, const Observation&) = default;
};

// The subject of a verdict.
enum class Scope : uint8_t {
  nic = 0,      // `faulty`, its cable or its port
  pair = 1,     // `faulty` or `other`, or the network between them: the side is unknown
  rail = 2,     // the network between the NICs of all hosts; `faulty` is the first host's NIC
  host = 3,     // nothing reaches the host of `faulty` on any NIC: it is silent
  process = 4,  // `process` died, on the host of `faulty`
};
const char* to_string(Scope scope);

// Asks a host to open connections from its NICs to the NICs of the other `hosts`.
struct ProbeRequest {
  uint32_t number = 0;  // the localiser's number; the answer repeats it. The codec leaves it out
  std::vector<uint32_t> hosts;
  friend bool operator==(const ProbeRequest&, const ProbeRequest&) = default;
};

struct Reach {
  NicName near;
  NicName far;
  bool reached = false;  // the kernel of the far end answered
  friend bool operator==(const Reach&, const Reach&) = default;
};

struct ProbeAnswer {
  uint32_t number = 0;
  uint32_t host = 0;  // its NICs are the near ends
  std::vector<Reach> tried;
  friend bool operator==(const ProbeAnswer&, const ProbeAnswer&) = default;
};

// Both ends of a pair, and third hosts. More hosts would add nothing to the evidence of a fault.
inline constexpr size_t kProbeHostsMax = 6;
inline constexpr uint32_t kQuestionsMax = limits::kProbeQuestionsMax;
// As many as fit into one notice, with the longest names.
inline constexpr size_t kProbesMax = 48;

struct Verdict {
  uint32_t number = 0;  // the same on every rank
  Scope scope = Scope::nic;
  NicName faulty;
  Rank rank;      // the observer whose evidence decided
  NicName other;  // with Scope::pair; both without a name: all NICs of the two hosts
  DownCause kind = DownCause::none;
  uint64_t detected_us = 0;  // the earliest report
  uint64_t retransmitted_bytes = 0;
  uint64_t stall_us = 0;  // the longest
  TimeNs wall = 0;
  Rank process;           // with Scope::process: the dead rank
  uint32_t loss_ppm = 0;  // with DownCause::lossy: packets lost of a million sent
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

std::vector<std::byte> encode(const Observation& observation);
Result<Observation> decode_observation(Rank observer, std::span<const std::byte> bytes);
std::vector<std::byte> encode(const Verdict& verdict);
Result<Verdict> decode_verdict(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const ProbeRequest& request);
Result<ProbeRequest> decode_probe_request(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const ProbeAnswer& answer);
Result<ProbeAnswer> decode_probe_answer(std::span<const std::byte> bytes);

// Whether packet loss explains that a connection between two NICs broke.
enum class LossExplains : uint8_t {
  no,
  perhaps,  // the pair loses packets: a verdict may follow
  yes,      // a verdict has named one of the NICs, or the pair, as lossy
};

// Collects observations for a short while, so that each fault gets one verdict. Each fault has its
// own time, from the first observation that no verdict explains.
class FaultLocaliser {
 public:
  // `nics_of_hosts`: the number of data NICs of each host of the job.
  explicit FaultLocaliser(std::vector<size_t> nics_of_hosts)
      : nics_of_hosts_(std::move(nics_of_hosts)) {}

  // Takes a report. The same report may come again with more bytes and a longer stall. A report
  // without a cause takes an earlier one back. The localiser ignores a report with an unknown host.
  void observe(const Observation& observation, TimeNs now);
  // Takes the verdict of another localising rank that this one could not reach meanwhile.
  void on_verdict(const Verdict& verdict, TimeNs now);
  // Returns the requests to send: one to each host that they name, each once.
  std::vector<ProbeRequest> wanted(TimeNs now);
  // The question has gone to so many ranks of the host, and each answers for its own NICs. Without
  // this call one answer is expected.
  void expect_answers(uint32_t number, uint32_t host, size_t ranks);
  void on_answer(const ProbeAnswer& answer, TimeNs now);
  // Drops broken connections that a named loss explains, and holds back the ones that it may
  // explain: the more precise verdict stands for them.
  void explain_by_loss(
      const std::function<LossExplains(const NicName& near, const NicName& far)>& explains,
      TimeNs now);
  // Returns the verdicts that are ripe.
  std::vector<Verdict> due(TimeNs now);
  // Forgets a report that another rank localises from now on, or that its observer takes back.
  void withdraw(const Observation& o, TimeNs now);
  TimeNs next_timeout() const;
  // Returns whether time alone changes nothing here: there is no report, answer or recent verdict.
  bool is_quiet() const {
    return open_.empty() && ready_.empty() && recent_.empty() && questions_.empty() &&
           reached_.empty() && excuses_.empty() && corruptions_.empty() && tamperings_.empty() &&
           undecided_.empty();
  }

  void check_invariants() const;

 private:
  // Coalesce time. A process that dies closes all its connections at once: this is the time for its
  // death to be reported, and for several reports of one fault to share one question.
  static constexpr TimeNs kCoalesceTime = 10 * kMillisecond;
  // Settle time: the stall of the affected chunks is known then, and all carriers of a dead switch
  // are reported.
  static constexpr TimeNs kSettleTime = 60 * kMillisecond;
  // Probe timeout: the answers may never come, because both hosts of a pair may be stopped.
  static constexpr TimeNs kProbeTimeout = 250 * kMillisecond;
  // A kernel answers on the very pair whose path was lost. Connections prove nothing then; only the
  // losses of other paths do.
  static constexpr TimeNs kProbeTimeoutStalled = 250 * kMillisecond;
  // Time for the loss localiser to name the cause of a broken connection.
  static constexpr TimeNs kLossVerdictTimeout = 2 * kSecond;
  static constexpr TimeNs kLossLook = 50 * kMillisecond;
  // Late-report window: paths that carry nothing notice a fault at their next heartbeat.
  static constexpr TimeNs kLateReportWindow = 2500 * kMillisecond;

  using Pair = std::pair<NicName, NicName>;  // in order
  struct Open {
    Observation seen;
    TimeNs at = 0;
    TimeNs ripe_at = 0;     // without meaning when `probed`
    uint32_t question = 0;  // <= last_question_: asked because of its fault; 0: nothing yet
    bool covered = false;   // that question tries this very pair, and came after it was lost
    bool probed = false;    // implies covered: a probe without an answer, and no path that was lost
  };
  struct Recent {
    NicName nic;
    bool named = false;  // false: only one end of a pair
    NicName other;       // with a host: exactly this pair, whose ends reach others
    bool one_pair = false;
    TimeNs at = 0;
    TimeNs until() const { return at + kLateReportWindow; }
  };
  // Identifies a report for as long as it may come again.
  using ReportId = std::tuple<Rank, Rank, TimeNs>;
  static ReportId id_of(const Observation& o) { return {o.observer, o.peer, o.wall}; }
  // The report of an end that has lost its path because of bytes.
  struct Excuse {
    Observation seen;
    TimeNs at = 0;
  };
  // A path of this pair ended as `corrupted`.
  struct Corruption {
    Pair pair;
    Observation seen;  // by the end that found it
    TimeNs at = 0;
  };
  struct Tampering {
    Pair pair;      // without names: of hosts
    TimeNs at = 0;  // the last of its ends
  };
  // The way in which a pair was lost.
  enum class Evidence : uint8_t {
    silent,   // it answers nothing
    stalled,  // it answers, but bytes did not pass
    reset,    // it answers; the connection is gone
  };
  struct Question {
    TimeNs at = 0;
    std::set<uint32_t> hosts;            // at most kProbeHostsMax
    std::map<uint32_t, size_t> awaited;  // of these, each with the answers that still come
    std::set<Pair> tried;
  };
  struct Reached {
    uint32_t question = 0;
    TimeNs at = 0;
  };
  enum class RailEvidence : uint8_t { none, partial, full };

  bool absorbed(const Observation& observation, TimeNs now) const;
  bool update(const Observation& observation);
  void excuse(const Observation& observation, TimeNs now);
  bool is_of_named_tampering(const Pair& pair, TimeNs now);
  void forget_tampering(TimeNs now);
  void count_tampering(const Observation& observation, TimeNs now);
  bool excused(const Observation& observation) const;
  void end_peer(const Observation& observation);
  bool answers(const Open& open) const;
  void take_answer(const Reach& reach, const ProbeAnswer& answer, TimeNs now);
  bool wants_question(const Open& open, TimeNs now) const;
  std::vector<Open*> without_question(const std::vector<Open*>& fault, TimeNs now);
  ProbeRequest ask(const std::vector<Open*>& asking, const std::vector<Open*>& fault, TimeNs now);
  std::set<uint32_t> hosts_to_ask(const std::vector<Open*>& asking,
                                  const std::vector<Open*>& fault) const;
  void ask_again(TimeNs now);
  std::vector<std::vector<Open*>> faults();
  std::vector<Open*> fault_of(const Open& seed);
  RailEvidence rail_evidence(const std::vector<Open*>& fault) const;
  // Returns whether a probe has an answer for its pair.
  bool tried(const Open& open) const;
  void index();
  bool known_broken(const NicName& a, const NicName& b) const;
  bool reported(const NicName& nic) const;
  bool reaches_others(const NicName& nic, const NicName& opposite, TimeNs since) const;
  Evidence evidence(const Open& open) const;
  std::set<uint32_t> hosts_opposite(const NicName& nic, const Open& like) const;
  size_t witnesses_against(const NicName& nic, const Open& like) const;
  bool heard(const Open& open) const;
  bool lost_all(uint32_t host, const Open& seed) const;
  bool missed_by_others(uint32_t host, const Open& seed) const;
  bool host_is_known(const Open& seed, bool near_lost, bool far_lost) const;
  bool waits_for_witness(const Open& open, TimeNs now) const;
  TimeNs lost_elsewhere_at(const NicName& nic, const NicName& opposite) const;
  Verdict localise_rail(const std::vector<Open*>& fault, TimeNs now);
  NicName worse_end(const Open& pair) const;
  Verdict localise_nic(const Open& seed, TimeNs now);
  Verdict localise_pair(const Open& seed, TimeNs now);
  Verdict localise_hosts(const Open& seed, bool one, bool other, TimeNs now);
  Verdict localise_one(const Open& seed, TimeNs now);
  void note_undecided(const NicName& nic, const Open& seed, TimeNs now);
  Verdict take(const std::function<bool(const Observation&)>& explained);
  void note_recent(const NicName& nic, bool named, TimeNs now);
  void remember(const NicName& nic, bool named, TimeNs now);
  void forget_old(TimeNs now);

  // An index of `open_` while the localiser makes verdicts: a fault may have thousands of entries.
  struct Index {
    std::set<NicName> reported;  // by their own hosts
    std::set<Pair> given_up;     // at least one end reports more than the end of the connection
    std::map<NicName, std::vector<size_t>> of_nic;
  };

  std::vector<size_t> nics_of_hosts_;
  std::vector<Open> open_;  // in order of arrival; of hosts that the job has
  Index index_;
  std::vector<Recent> recent_;
  std::vector<Excuse> excuses_;
  std::vector<Corruption> corruptions_;  // that no verdict names; of two hosts kTamperedEnds - 1
  std::vector<Tampering> tamperings_;    // named
  std::vector<Verdict> ready_;
  std::set<Rank> ended_;  // processes that were reported dead
  // The questions and their answers, while they are of use.
  uint32_t last_question_ = 0;
  std::map<uint32_t, Question> questions_;  // at most kQuestionsMax, numbered up to last_question_
  std::map<Pair, Reached> reached_;
  // NICs with a verdict that have not recovered; further failed probes add nothing.
  std::set<NicName> broken_nics_;
  std::set<Pair> broken_pairs_;
  // Lost pairs of a verdict that names no NIC. For a while they remain evidence against both ends.
  struct Undecided {
    Evidence how;
    TimeNs at;
  };
  std::map<Pair, Undecided> undecided_;
};

}  // namespace r2ccl
