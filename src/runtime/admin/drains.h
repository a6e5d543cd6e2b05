// The part of `r2ccl drain` in one rank: handles the requests of operators at its own socket, and
// carries out and answers the questions that other ranks pass on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/limits.h"
#include "runtime/admin/drain_registry.h"
#include "runtime/admin/drain_requests.h"
#include "runtime/engine/progress_engine.h"

namespace r2ccl {

class Drains {
 public:
  // Requires that the engine has been started and that all arguments outlive this. `registry` may
  // be null.
  Drains(ProgressEngine& engine, RankQuery& query, const Clock& clock, DrainRegistry* registry);
  ~Drains();
  Drains(const Drains&) = delete;
  Drains& operator=(const Drains&) = delete;

  // Takes the NICs out of service that other communicators of this process have out of service.
  void take_over();

  // As DrainRequests::answer and reply.
  std::optional<std::string> answer(uint64_t client, std::string_view line);
  std::optional<DrainReply> reply(uint64_t client, std::string_view line);
  void progress(TimeNs now) { requests_.progress(now); }
  TimeNs next_timeout() const { return requests_.next_timeout(); }

 private:
  DrainTally act(const DrainQuestion& question);
  void take_out(NicId nic, uint64_t ticket);
  void put_back(NicId nic);
  bool refuses(NicId nic, const DrainQuestion& question) const;

  ProgressEngine& engine_;
  const Clock& clock_;
  DrainRegistry* const registry_;
  // For each own NIC out of service: the ticket of the single request that asked for it; 0: not a
  // single one.
  std::array<uint64_t, limits::kNicsMax> tickets_{};
  DrainRequests requests_;
};

}  // namespace r2ccl
