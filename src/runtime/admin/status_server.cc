#include "runtime/admin/status_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/limits.h"
#include "base/log.h"

namespace r2ccl {
namespace {

constexpr TimeNs kPause = 1 * kSecond;
// Longer than any request, because names of NICs and hosts are short.
constexpr size_t kRequestBytesMax = 512;

std::string too_large(size_t bytes) {
  return "{\"problem\":\"the answer has " + std::to_string(bytes) + " bytes, more than " +
         std::to_string(limits::kStatusAnswerBytesMax) + "\"}";
}

}  // namespace

std::optional<StatusRequest> parse_status_request(std::string_view line) {
  if (line == "report\n") return StatusRequest::report;
  if (line == "job\n") return StatusRequest::job;
  if (line.starts_with("drain ") && line.ends_with('\n')) return StatusRequest::drain;
  return std::nullopt;
}

// One connection: reads a line, writes a text. It only moves bytes and records the request; the
// server decides.
class StatusServer::Client final : private EventHandler {
 public:
  Client(GuardedFd connection, TimeNs now)
      : connection_(std::move(connection)), deadline_(now + limits::kStatusRequestTime) {}

  bool start(Reactor& reactor) {
    auto added = reactor.add(connection_.get(), *this, false);
    if (!added.ok()) return false;
    registration_ = std::move(added).value();
    return true;
  }
  // Returns the request that has not been answered.
  std::optional<StatusRequest> wants() const {
    return text_ == nullptr && !over_ ? request_ : std::nullopt;
  }
  void answer(Text text, TimeNs now) {
    text_ = std::move(text);
    deadline_ = now + limits::kStatusAnswerTime;
    write();
  }
  // The deadline restarts when the request is complete, because the other ranks have a time limit
  // of their own.
  bool has_new_request() const { return request_ && number_ == 0; }
  void note_request(uint64_t number, TimeNs now) {
    number_ = number;
    deadline_ = now + limits::kStatusAnswerTime;
  }
  uint64_t number() const { return number_; }
  const std::string& line() const { return line_; }
  void drop() { over_ = true; }
  bool over(TimeNs now) const { return over_ || now >= deadline_; }
  TimeNs deadline() const { return over_ ? 0 : deadline_; }
  // Returns true when the server must act at once.
  bool urgent() const { return over_ || has_new_request(); }

 private:
  void on_ready(const PollEvent& event) override {
    if (over_) return;
    if (event.readable) read();
    if (event.writable && !over_ && text_ != nullptr) write();
    if (over_) registration_.reset();  // level-triggered: it would be reported for ever
  }

  void read() {
    std::array<char, kRequestBytesMax> bytes;
    const ssize_t count = recv(connection_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    // The end of its stream means that the client has left. Bytes after a request are an error.
    over_ = count <= 0 || request_.has_value();
    if (over_) return;
    line_.append(bytes.data(), static_cast<size_t>(count));
    if (line_.find('\n') == std::string::npos && line_.size() < bytes.size()) return;
    request_ = parse_status_request(line_);
    over_ = !request_.has_value() || (request_ == StatusRequest::drain && gone());
  }
  // A client that stopped waiting before its request was read must not act: it may have sent the
  // opposite request since.
  bool gone() const {
    char next = 0;
    return recv(connection_.get(), &next, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }

  void write() {
    while (sent_ < text_->size()) {
      const ssize_t count = send(connection_.get(), text_->data() + sent_, text_->size() - sent_,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count > 0) {
        sent_ += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        over_ = errno != EAGAIN;
        registration_.want_write(true);
        return;
      }
    }
    over_ = true;
  }

  uint64_t number_ = 0;  // number of its request among all requests; 0: none yet
  GuardedFd connection_;
  std::string line_;
  std::optional<StatusRequest> request_;
  Text text_;
  size_t sent_ = 0;
  TimeNs deadline_;
  bool over_ = false;
  Reactor::Registration registration_;  // last: must go before the connection
};

StatusServer::StatusServer(StatusSource& source, Reactor& reactor, const Clock& clock)
    : source_(source), reactor_(reactor), clock_(clock) {}

StatusServer::~StatusServer() = default;

Status StatusServer::open(StatusSocket socket) {
  socket_.emplace(std::move(socket));
  auto added = reactor_.add(socket_->fd(), *this, false);
  if (!added.ok()) {
    socket_.reset();
    return added.status();
  }
  registration_ = std::move(added).value();
  return {};
}

void StatusServer::pause_until(TimeNs when) {
  paused_until_ = when;
  registration_.reset();
}

void StatusServer::on_ready(const PollEvent&) {
  const TimeNs now = clock_.now();
  while (clients_.size() < limits::kStatusClientsMax) {
    StatusSocket::Accepted accepted = socket_->accept();
    if (accepted.stranger) {
      if (!told_of_stranger_) {
        R2CCL_LOG(info, "status: another user's process was sent away from %s",
                  socket_->path().c_str());
      }
      told_of_stranger_ = true;
      return;  // the next pass accepts the rest, so one user cannot keep this thread busy
    }
    if (accepted.error != 0) return pause_until(now + kPause);
    if (!accepted.connection.valid()) return;
    auto client = std::make_unique<Client>(std::move(accepted.connection), now);
    if (client->start(reactor_)) clients_.push_back(std::move(client));
  }
  pause_until(now);  // until a client has left
}

StatusServer::Text StatusServer::text_of(std::string made) {
  if (made.size() > limits::kStatusAnswerBytesMax) made = too_large(made.size());
  return std::make_shared<const std::string>(std::move(made) + "\n");
}

StatusServer::Text StatusServer::answer_to(const Client& client, StatusRequest request,
                                           TimeNs now) {
  if (request == StatusRequest::drain) {
    std::optional<std::string> made = source_.drain_status(client.number(), client.line());
    return made ? text_of(*std::move(made)) : nullptr;
  }
  Cached& cached = cached_[static_cast<size_t>(request)];
  if (cached.text != nullptr) return cached.text;
  std::optional<std::string> made =
      request == StatusRequest::report ? source_.status_report() : source_.job_status();
  if (!made) return nullptr;
  cached = {text_of(*std::move(made)), now};
  return cached.text;
}

void StatusServer::serve(Client& client, TimeNs now) {
  if (client.has_new_request()) client.note_request(++requests_so_far_, now);
  const auto wanted = client.wants();
  if (!wanted) return;
  try {
    Text text = answer_to(client, *wanted, now);
    if (text != nullptr) client.answer(std::move(text), now);
  } catch (const std::bad_alloc&) {
    // A command changes the links, and may have ended half-way through that.
    if (*wanted == StatusRequest::drain) throw;
    R2CCL_LOG(warn, "status: out of memory: an operator gets no answer");
    client.drop();
  }
}

void StatusServer::drop_clients() noexcept {
  R2CCL_LOG(warn, "status: out of memory: operators get no answer");
  clients_.clear();
  pause_until(clock_.now() + kPause);
}

void StatusServer::progress(TimeNs now) {
  if (!socket_) return;
  for (Cached& cached : cached_) {
    if (now - cached.made_at >= limits::kStatusFreshness) cached = {};
  }
  for (const auto& client : clients_) serve(*client, now);
  std::erase_if(clients_, [now](const auto& client) { return client->over(now); });
  if (registration_ || now < paused_until_ || clients_.size() >= limits::kStatusClientsMax) return;
  auto added = reactor_.add(socket_->fd(), *this, false);
  if (added.ok()) {
    registration_ = std::move(added).value();
  } else {
    paused_until_ = now + kPause;
  }
}

TimeNs StatusServer::next_timeout() const {
  if (!socket_) return kNever;
  TimeNs next = kNever;
  for (const auto& client : clients_) {
    next = std::min(next, client->urgent() ? 0 : client->deadline());
  }
  const bool paused = !registration_ && clients_.size() < limits::kStatusClientsMax;
  return paused ? std::min(next, paused_until_) : next;
}

}  // namespace r2ccl
