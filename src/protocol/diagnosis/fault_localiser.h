// Fault localiser: makes one verdict for each fault from the ranks' observations of their paths. A
// verdict names the rank, the NIC and the kind. Pure.
//
// A verdict never exceeds its evidence; docs/blame.md has the table. It names an
// interface that its own host saw go down or lose its carrier, or whose host told a peer so. For
// every other fault the localiser asks the hosts at both ends and some others to open connections
// between their NICs, which kernels answer. A NIC that reaches another is innocent. The fewest NICs
// and hosts that explain all broken pairs are at fault (explanation.h); where several sets do it
// alike, the verdict gives both ends of the pair. When no NIC of a rail reaches another one, it is
// the rail.
//
// A verdict stands until its NIC has worked again. Meanwhile the NIC is no evidence against others.
//
// A path that ended as `corrupted` accuses no NIC. The third such end between two hosts within a
// minute is a verdict `tampered` on the pair: of NICs if all of these ends were of one pair, else
// of the hosts. Its further ends belong to it until there has been none for a minute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/diagnosis/explanation.h"
#include "protocol/diagnosis/nic_name.h"
#include "protocol/diagnosis/observation.h"
#include "protocol/diagnosis/probe.h"
#include "protocol/diagnosis/verdict.h"

namespace r2ccl {

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
  // Returns the verdicts that are ripe. One that names a NIC may replace an earlier one on a pair
  // of it: both have the same time `wall`.
  std::vector<Verdict> due(TimeNs now);
  // Forgets a report that another rank localises from now on, or that its observer takes back.
  void withdraw(const Observation& o, TimeNs now);
  TimeNs next_timeout() const;
  // Returns whether time alone changes nothing here: there is no report, answer or recent verdict.
  bool is_quiet() const;

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
  // A kernel answers on the very pair that stalled. Connections prove nothing then; only the losses
  // of other paths do. One that comes later makes the verdict more precise.
  static constexpr TimeNs kStalledTime = 90 * kMillisecond;
  // Time for the loss localiser to name the cause of a broken connection.
  static constexpr TimeNs kLossVerdictTimeout = 2 * kSecond;
  static constexpr TimeNs kLossLook = 50 * kMillisecond;
  // Late-report window: paths that carry nothing notice a fault at their next heartbeat.
  static constexpr TimeNs kLateReportWindow = 2500 * kMillisecond;

  // The loss of a path that has no verdict yet.
  struct Loss {
    Observation seen;
    TimeNs at = 0;     // when the path was lost
    TimeNs up_at = 0;  // when it had come up
    TimeNs asks_at = 0;
    TimeNs ripe_at = 0;
    uint32_t question = 0;  // <= last_question_: about it; 0: none yet
    bool waits = false;     // for the verdict on another loss of its fault, before it asks
  };
  // The way in which a pair was lost. Each has causes of its own.
  enum class Evidence : uint8_t {
    silent,   // it answers nothing
    stalled,  // it answers, but bytes did not pass
    reset,    // it answers; the connection is gone
  };
  struct Question {
    TimeNs at = 0;
    std::set<uint32_t> hosts;            // at most kProbeHostsMax
    std::map<uint32_t, size_t> awaited;  // of these, each with the answers that still come
  };
  // The newest answer for a pair. The answer of one end that the pair works outweighs the other's.
  struct Probe {
    uint32_t question = 0;
    TimeNs asked_at = 0;
    TimeNs at = 0;
    bool reached = false;
  };
  // A verdict that was made, for as long as it explains losses.
  struct Standing {
    std::set<NicName> named;  // NICs at fault; one without a name: all of its host
    std::set<NicPair> pairs;  // where the side is unknown: the lost pairs
    bool between = false;     // the fault is between the ends of its pair
    Evidence how = Evidence::silent;
    TimeNs wall = 0;  // that of its verdict
    TimeNs at = 0;
    bool over = false;    // one of its paths has worked since
    bool is_old = false;  // explains no late reports any more
    bool names(const NicName& nic) const {
      return named.contains(nic) || named.contains({nic.host, ""});
    }
    bool touches(const NicPair& pair) const;
  };
  // The losses that have one explanation with a certain loss, and all that is known of them.
  struct Case {
    Evidence how = Evidence::silent;
    bool tried = false;  // a probe tried the pair
    bool heard = false;  // the hosts that were asked have answered, but for one
    std::vector<NicPair> pairs;
    Suspects suspects;
  };
  // The report of an end that has lost its path because of bytes.
  struct Excuse {
    Observation seen;
    TimeNs at = 0;
  };
  // A path of this pair ended as `corrupted`.
  struct Corruption {
    NicPair pair;
    Observation seen;  // by the end that found it
    TimeNs at = 0;
  };
  struct Tampering {
    NicPair pair;   // without names: of hosts
    TimeNs at = 0;  // the last of its ends
  };

  // An index of `losses_` while the localiser makes a verdict.
  struct Index {
    std::set<NicName> told;      // by their own hosts
    std::set<NicPair> given_up;  // at least one end reports more than the end of the connection
  };
  enum class RailEvidence : uint8_t { none, partial, full };

  bool absorbed(const Observation& observation, TimeNs now) const;
  bool update(const Observation& observation);
  void excuse(const Observation& observation, TimeNs now);
  bool is_of_named_tampering(const NicPair& pair, TimeNs now);
  void forget_tampering(TimeNs now);
  void count_tampering(const Observation& observation, TimeNs now);
  bool excused(const Observation& observation) const;
  void end_peer(const Observation& observation);

  std::vector<std::vector<Loss*>> faults();
  bool wants_question(const Loss& loss, TimeNs now) const;
  std::vector<Loss*> without_question(const std::vector<Loss*>& fault, TimeNs now);
  std::set<uint32_t> hosts_to_ask(const std::vector<Loss*>& asking,
                                  const std::vector<Loss*>& fault) const;
  ProbeRequest ask(const std::vector<Loss*>& asking, const std::vector<Loss*>& fault, TimeNs now);
  void ask_again(TimeNs now);
  TimeNs time_for(const Loss& loss) const;
  void take_answer(const Reach& reach, const Question& question, uint32_t number, TimeNs now);

  void index();
  const Probe* probe_of(const Loss& loss) const;
  bool answers(const Loss& loss) const;
  Evidence evidence(const Loss& loss) const;
  bool is_known(const NicName& nic) const;
  std::set<NicName> innocent(TimeNs since) const;
  std::vector<NicPair> lost_alike(const Case& c) const;
  std::set<uint32_t> dark_hosts(const Case& c) const;
  Case case_of(const Loss& seed) const;
  static void narrow(Case& c, const NicPair& pair);
  RailEvidence rail_evidence(const Case& c) const;
  std::set<NicName> without_carrier(const Loss& seed) const;

  void judge(Loss seed, TimeNs now);
  void judge_word(const Loss& seed, const NicName& nic, TimeNs now);
  static bool is_witnessed(const NicName& component, const std::set<NicName>& found, const Case& c);
  void wait_until(TimeNs time, const std::vector<NicPair>& pairs);
  Verdict take(const std::function<bool(const Observation&)>& explained);
  void name(Scope scope, const std::set<NicName>& nics, TimeNs now);
  void name_pair(const Loss& seed, const Case& c, TimeNs now);
  void name_between(const Loss& seed, Evidence how, TimeNs now);
  void name_hosts(const Loss& seed, TimeNs now);
  void make(Verdict verdict, Standing standing, TimeNs now);
  void forget_old(TimeNs now);

  std::vector<size_t> nics_of_hosts_;
  std::vector<Loss> losses_;  // in order of arrival; of hosts that the job has
  Index index_;
  std::vector<Standing> standing_;
  std::vector<Excuse> excuses_;
  std::vector<Corruption> corruptions_;  // that no verdict names; of two hosts kTamperedEnds - 1
  std::vector<Tampering> tamperings_;    // named
  std::vector<Verdict> ready_;
  std::set<Rank> ended_;  // processes that were reported dead
  // The questions and their answers, while they are of use.
  uint32_t last_question_ = 0;
  std::map<uint32_t, Question> questions_;  // at most kQuestionsMax, numbered up to last_question_
  std::map<NicPair, Probe> probes_;
};

}  // namespace r2ccl
