// Serves the status socket from the driving thread, and never blocks it. A client sends one line,
// "job", "report" or "drain ...", and receives one JSON text and the end of the stream. The server
// drops a client that is slow, sends anything else or closes early, or for whose answer there is no
// memory. A fault here never affects the job.
//
// Clients share answers: the server makes each text at most once every kStatusFreshness.
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
  report,  // this rank, in full
  job,     // every rank, in short
  drain,   // the paths of a NIC, after a drain command: runtime/admin/drain_requests.h
};
// Returns the request in `line` (with its end); none: unknown.
std::optional<StatusRequest> parse_status_request(std::string_view line);

// The source of the answers. The server calls it in its own thread, only from progress().
class StatusSource {
 public:
  virtual ~StatusSource() = default;
  virtual std::string status_report() = 0;
  // Asks the other ranks first. Returns none until they have answered or their time is over.
  virtual std::optional<std::string> job_status() = 0;
  // `client`: the client's number, larger than those of all earlier requests.
  virtual std::optional<std::string> drain_status(uint64_t client, std::string_view line) = 0;
};

class StatusServer final : private EventHandler {
 public:
  // Requires that all arguments outlive the server.
  StatusServer(StatusSource& source, Reactor& reactor, const Clock& clock);
  ~StatusServer() override;

  Status open(StatusSocket socket);
  // Takes new requests, sends the available answers, and drops clients whose time is over.
  void progress(TimeNs now);
  // Drops all clients, after a handler of the server has run out of memory.
  void drop_clients() noexcept;
  TimeNs next_timeout() const;
  size_t clients() const { return clients_.size(); }

 private:
  class Client;
  using Text = std::shared_ptr<const std::string>;
  struct Cached {
    Text text;
    TimeNs made_at = 0;
  };

  void on_ready(const PollEvent& event) override;  // a client connects
  void pause_until(TimeNs when);
  void serve(Client& client, TimeNs now);
  Text answer_to(const Client& client, StatusRequest request, TimeNs now);
  static Text text_of(std::string made);

  StatusSource& source_;
  Reactor& reactor_;
  const Clock& clock_;
  std::optional<StatusSocket> socket_;
  std::vector<std::unique_ptr<Client>> clients_;
  uint64_t requests_so_far_ = 0;
  std::array<Cached, 2> cached_;  // by request; a drain command is never cached
  TimeNs paused_until_ = 0;       // no client is accepted before
  bool told_of_stranger_ = false;
  Reactor::Registration registration_;  // last: must go before the socket
};

}  // namespace r2ccl
