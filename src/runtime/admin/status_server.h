// Serves the status socket from the progress thread, which it never blocks: whoever connects says
// one line, "job", "report" or "drain ...", and gets one JSON text and the end of the stream. Who
// is slow, says anything else or closes early is dropped; a fault here is never one of the job.
//
// Answers are shared: however many ask, each text is made at most once every kStatusFreshness.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "runtime/admin/status_socket.h"
#include "runtime/connection/reactor.h"

namespace r2ccl {

enum class StatusRequest : uint8_t {
  report,  // of this rank, at length
  job,     // of every rank, in short
  drain,   // of the paths of a NIC, after doing something to it: runtime/drain_desk.h
};
// The request that `line` (with its end) is; none: nothing that is known.
std::optional<StatusRequest> parse_status_request(std::string_view line);

// Who knows what is asked for. Called in the server's thread, from progress() alone.
class StatusSource {
 public:
  virtual ~StatusSource() = default;
  virtual std::string status_report() = 0;
  // The other ranks are asked first: none until they have answered or their time is up.
  virtual std::optional<std::string> job_status() = 0;
  // `asker`: a number that is larger than those of all earlier requests.
  virtual std::optional<std::string> drain_status(uint64_t asker, std::string_view line) = 0;
};

class StatusServer final : private EventHandler {
 public:
  // All of them must outlive the server.
  StatusServer(StatusSource& source, Reactor& reactor, const Clock& clock);
  ~StatusServer() override;

  Status open(StatusSocket socket);
  // Takes requests on, answers what can be answered, drops whose time is up.
  void progress();
  TimeNs next_timeout() const;
  size_t clients() const { return clients_.size(); }

 private:
  class Client;
  using Text = std::shared_ptr<const std::string>;
  struct Cached {
    Text text;
    TimeNs made_at = 0;
  };

  void on_ready(const PollEvent& event) override;  // somebody connects
  void pause_until(TimeNs when);
  Text answer_to(const Client& client, StatusRequest request, TimeNs now);
  static Text text_of(std::string made);

  StatusSource& source_;
  Reactor& reactor_;
  const Clock& clock_;
  std::optional<StatusSocket> socket_;
  std::vector<std::unique_ptr<Client>> clients_;
  uint64_t requests_so_far_ = 0;
  std::array<Cached, 2> cached_;  // by request; what changes something is done each time
  TimeNs paused_until_ = 0;       // nobody is let in before
  bool told_of_stranger_ = false;
  Reactor::Registration registration_;  // last: must go before the socket
};

}  // namespace r2ccl
