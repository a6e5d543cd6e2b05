// Probes which NICs of some hosts this rank's NICs reach, for the fault localiser. A probe is a
// short connect to the peer's listener on that NIC. The peer's kernel answers it in 0.1 ms, even
// for a stopped process, and a refusal is an answer too. A connect needs both directions of both
// NICs, so it shows whether a NIC works, and not which of its directions fails.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/diagnosis/fault_localiser.h"
#include "runtime/connection/path_dialer.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

class NicProber final : private PathDialer::Owner {
 public:
  using Done = std::function<void(Rank requester, const ProbeAnswer& answer)>;
  NicProber(ProgressEngine& engine, const Clock& clock, Done done)
      : engine_(engine), clock_(clock), done_(std::move(done)) {}

  // One pair of NICs to try, and how.
  struct Target {
    Reach reach;
    DialRequest request;
    TimeNs round_trip = 0;  // round trip as the path measured it last
  };
  // Answers when all targets are reached, or their time is over. A few requests run at a time and
  // the others wait. A request that waits behind too many gets its answer at once, as if it could
  // not try.
  void start(Rank requester, uint32_t number, uint32_t host, std::vector<Target> targets);
  void progress();
  TimeNs next_timeout() const;
  bool is_quiet() const { return jobs_.empty(); }

 private:
  struct Attempt {
    Target target;
    // Several dialers, because one packet may be lost, and a kernel sends the next one only after a
    // second.
    std::vector<std::unique_ptr<PathDialer>> dialers;
    bool unable = false;  // this process had no descriptor for the attempt
  };
  struct Job {
    Rank requester;
    ProbeAnswer answer;
    std::vector<Attempt> attempts;
    TimeNs next_round = 0;
    TimeNs deadline = kNever;
    size_t rounds = 0;
  };

  void on_dialed(PathDialer& dialer, DialedPath dialed) override;
  void on_dial_failed(PathDialer& dialer, const DialFailure& failure) override;
  Attempt* attempt_of(const PathDialer& dialer);
  void dial_rest(Job& job, TimeNs now);
  static bool all_reached(const Job& job);
  size_t running() const;
  void answer(const std::deque<Job>::iterator& job);

  ProgressEngine& engine_;
  const Clock& clock_;
  const Done done_;
  std::deque<Job> jobs_;
};

}  // namespace r2ccl
