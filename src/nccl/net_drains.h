// `r2ccl drain` of a NIC of a process with the plugin. Each link has a job of its own, which gets
// the request, and the process answers once all of them have. It also holds the NIC itself, so that
// later links leave it out, too.
//
// The other ends of the links learn of the drain. A process takes only its own NICs out of service:
// it does not know the other links of the processes at those ends.
//
// Driving thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "nccl/peer.h"
#include "runtime/admin/drain_registry.h"
#include "runtime/admin/drain_requests.h"

namespace r2ccl::nccl {

class NetDrains {
 public:
  // `own`: this process. `nics`: their names. All references must outlive this.
  NetDrains(RankInfo own, std::vector<std::string> nics, DrainRegistry& registry,
            const Clock& clock);
  ~NetDrains() { registry_.forget(this); }
  NetDrains(const NetDrains&) = delete;
  NetDrains& operator=(const NetDrains&) = delete;

  // As StatusSource::drain_status. `peers`: the started ones.
  std::optional<std::string> answer(uint64_t client, std::string_view line,
                                    const std::vector<Peer*>& peers);
  // Returns when the client that waits is to ask again.
  TimeNs next_timeout() const { return look_at_; }
  void progress(TimeNs now);
  bool drained(const std::string& nic) const { return held_.contains(nic); }

 private:
  struct Course {  // of a request
    TimeNs asked_at = 0;
    std::map<uint64_t, DrainReply> replies;  // by link
  };
  std::string refusal(const DrainRequest& request) const;
  void hold(const DrainRequest& request);
  bool ask_all(Course& course, uint64_t client, std::string_view line, const DrainRequest& request,
               const std::vector<Peer*>& peers) const;
  std::string text_of(const Course& course, const DrainRequest& request,
                      const std::vector<Peer*>& peers) const;

  const RankInfo own_;
  const std::vector<std::string> nics_;
  DrainRegistry& registry_;
  const Clock& clock_;
  std::map<std::string, uint64_t> held_;  // the ticket of each NIC; as DrainedNic
  std::map<uint64_t, Course> courses_;    // by client
  TimeNs look_at_ = kNever;
};

}  // namespace r2ccl::nccl
