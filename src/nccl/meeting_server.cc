#include "nccl/meeting_server.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "runtime/bootstrap/rendezvous_messages.h"
#include "runtime/connection/sealed_stream.h"

namespace r2ccl::nccl {
namespace {

// A guest says each of its two messages at once.
constexpr TimeNs kPatience = 10 * kSecond;
// The time for a guest to read its last message and to close: the server's close could discard it.
constexpr TimeNs kGoodbye = 2 * kSecond;
// How often an ask that waits for the other direction's meeting is decided again.
constexpr TimeNs kLater = 1 * kMillisecond;

}  // namespace

class MeetingServer::Guest final : public EventHandler {
 public:
  enum class State : uint8_t {
    silent,    // has not asked
    asked,     // `ask` is set, and not decided
    answered,  // has its answer
    leaving,   // has its last message
  };

  void on_ready(const PollEvent&) override {}

  State state = State::silent;
  TimeNs deadline = kNever;  // while it must speak, or close
  Ask ask;
  SealedStream stream{kMeetingBytesMax};
  Reactor::Registration registration;  // last: it must end before the connection does
};

MeetingServer::MeetingServer(Reactor& reactor, Transport& transport, const Clock& clock,
                             MeetingHost& host, JobIdentity job,
                             std::function<std::array<std::byte, kNonceBytes>()> nonce)
    : reactor_(reactor),
      clock_(clock),
      host_(host),
      job_(std::move(job)),
      acceptor_(reactor, transport, clock,
                {[this, nonce = std::move(nonce)](NicId) {
                   return make_rendezvous_acceptor(job_, nonce());
                 },
                 [this](EstablishedConnection established) { admit(std::move(established)); }}) {}

MeetingServer::~MeetingServer() = default;

Status MeetingServer::open(std::vector<Endpoint>& endpoints) {
  if (endpoints.empty()) return {Code::system, "no NIC has an address to listen on"};
  for (Endpoint& endpoint : endpoints) {
    const auto listening = acceptor_.listen(endpoint.address, "", kNoNic);
    if (!listening.ok()) return listening.status();
    endpoint.port = listening.value().port;
  }
  return acceptor_.begin();
}

void MeetingServer::admit(EstablishedConnection established) {
  auto guest = std::make_unique<Guest>();
  auto added = reactor_.add(established.connection->poll_id(), *guest, true);
  if (!added.ok()) return;
  guest->stream.open(std::move(established));
  guest->registration = std::move(added).value();
  guest->deadline = clock_.now() + kPatience;
  guests_.push_back(std::move(guest));
}

void MeetingServer::progress(TimeNs now) {
  acceptor_.progress(now);
  std::erase_if(guests_, [&](const auto& guest) {
    if (now < guest->deadline && serve(*guest, now)) return false;
    return true;
  });
}

TimeNs MeetingServer::next_timeout() const {
  TimeNs next = acceptor_.next_timeout();
  for (const auto& guest : guests_) next = std::min(next, guest->deadline);
  const auto waits = [](const auto& guest) { return guest->state == Guest::State::asked; };
  if (std::ranges::any_of(guests_, waits)) next = std::min(next, clock_.now() + kLater);
  return next;
}

// Returns whether the guest stays.
bool MeetingServer::serve(Guest& guest, TimeNs now) {
  const Status status = guest.stream.pump();
  while (const auto message = guest.stream.next()) {
    if (!on_message(guest, *message, now)) return false;
  }
  if (!status.ok()) return false;
  if (guest.state == Guest::State::asked) decide(guest, now);
  if (guest.stream.wants_write() && !guest.stream.pump().ok()) return false;
  guest.registration.want_write(guest.stream.wants_write());
  return true;
}

bool MeetingServer::on_message(Guest& guest, const SealedStream::Message& message, TimeNs now) {
  if (message.type == type_of(MeetingMessage::ask) && guest.state == Guest::State::silent) {
    auto ask = decode_ask(message.body);
    if (!ask.ok()) {
      R2CCL_LOG(warn, "refused a connect: %s", ask.status().message().c_str());
      return false;
    }
    guest.ask = std::move(ask).value();
    guest.state = Guest::State::asked;
    guest.deadline = kNever;
    return true;
  }
  const bool opened = message.type == type_of(MeetingMessage::opened);
  if (!opened || guest.state != Guest::State::answered) return false;
  const Status ready = host_.on_opened(guest.ask);
  if (ready.ok()) {
    guest.stream.send(type_of(MeetingMessage::ready), no_body());
  } else {
    refuse(guest, ready);
  }
  guest.state = Guest::State::leaving;
  guest.deadline = now + kGoodbye;
  return true;
}

void MeetingServer::refuse(Guest& guest, const Status& why) {
  guest.stream.send(type_of(MeetingMessage::refused),
                    std::make_shared<const std::vector<std::byte>>(encode_refused(why)));
}

void MeetingServer::decide(Guest& guest, TimeNs now) {
  Answer answer;
  auto verdict = host_.on_ask(guest.ask, &answer);
  if (verdict.ok() && verdict.value() == MeetingHost::Verdict::later) return;
  guest.state = Guest::State::leaving;
  guest.deadline = now + kGoodbye;
  if (!verdict.ok()) return refuse(guest, verdict.status());
  if (verdict.value() == MeetingHost::Verdict::gone) {
    guest.stream.send(type_of(MeetingMessage::gone), no_body());
    return;
  }
  auto body = encode(answer);
  R2CCL_CHECK(body.ok());  // describe() has made the RankInfo within its bounds
  guest.stream.send(type_of(MeetingMessage::answer), std::move(body).value());
  guest.state = Guest::State::answered;
  guest.deadline = now + kPatience;
}

}  // namespace r2ccl::nccl
