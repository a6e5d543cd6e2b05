#include "runtime/connection/path_dialer.h"

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

void PathDialer::start(DialRequest request,
                       std::array<std::array<std::byte, kNonceBytes>, 2> nonces, TimeNs now) {
  R2CCL_CHECK(!busy());
  request_ = std::move(request);
  attempt_ = std::make_unique<Attempt>(Attempt{nonces, {}, {}});
  on_control_ = request_.opens == DialOpens::control;
  asks_relay_ = false;
  answered_ = false;
  started_at_ = now;
  const TimeNs answered_by = now + request_.answered_within;
  connect(answered_by, answered_by + request_.shaken_within);
}

void PathDialer::cancel() {
  registration_.reset();
  attempt_.reset();
  connection_.reset();
  stage_ = Stage::idle;
  deadline_ = kNever;
  place_.leave();
}

void PathDialer::progress(TimeNs now) {
  if (busy() && now >= deadline_) fail(ETIMEDOUT, "no answer in time");
}

void PathDialer::connect(TimeNs answered_by, TimeNs done_by) {
  stage_ = Stage::connecting;
  deadline_ = std::min(answered_by, done_by);
  done_by_ = done_by;
  auto opened = transport_.connect(request_.remote, request_.options);
  if (!opened.ok()) return fail(EMFILE, opened.status().message());
  connection_ = std::move(opened).value();
  auto added = reactor_.add(connection_->poll_id(), *this, true);
  if (!added.ok()) return fail(EMFILE, added.status().message());
  registration_ = std::move(added).value();
}

void PathDialer::on_ready(const PollEvent&) {
  if (stage_ == Stage::connecting) {
    switch (connection_->connect_state()) {
      case ConnectState::pending:
        return;
      case ConnectState::failed:
        return fail(connection_->connect_error(),
                    system_error("connect", connection_->connect_error()).message());
      case ConnectState::established:
        on_connected();
        break;
    }
  }
  if (stage_ == Stage::hanging_up) return told();
  if (stage_ == Stage::shaking) pump();
}

// The attempt opened no connection.
void PathDialer::told() {
  cancel();
  owner_.on_dialed(*this, {});
}

ConnectionKind PathDialer::kind() const {
  if (!request_.call.empty()) return ConnectionKind::call;
  switch (request_.opens) {
    case DialOpens::both:
      return on_control_ ? ConnectionKind::join : ConnectionKind::data;
    case DialOpens::control:
      return ConnectionKind::control;
    case DialOpens::data:
      return ConnectionKind::join;
  }
  return ConnectionKind::join;
}

void PathDialer::on_connected() {
  answered_ = true;
  if (request_.probe_only) return told();
  request_.relay ? ask_relay() : shake(request_.remote_nic);
  stage_ = Stage::shaking;  // not before: the lines above may run out of memory
  deadline_ = done_by_;
}

// `to` names the peer, for which the rank that relays takes the connection.
void PathDialer::ask_relay() {
  const ConnectionIdentity identity{ConnectionKind::relay, request_.self,
                                    request_.peer,         request_.path,
                                    request_.local_nic,    request_.relay->via_nic};
  attempt_->io.emplace(std::move(connection_),
                       make_initiator(run_, identity, Incarnation(),
                                      request_.relay->nonces[on_control_ ? 1 : 0], {}));
  asks_relay_ = true;
}

// Goes on with the handshake with the peer, on the same connection. Returns false when the rank
// does not relay.
bool PathDialer::on_relayed(EstablishedConnection established) {
  asks_relay_ = false;
  ByteReader reply(established.session.peer_payload);
  const NicId nic(reply.get<uint16_t>());
  const std::string via = "rank " + std::to_string(request_.relay->via.value());
  if (reply.bad() || !established.leftover.empty()) {
    fail(EPROTO, via + " relays in a way that this version does not know");
    return false;
  }
  if (nic == kNoNic) {
    fail(EHOSTUNREACH, via + " does not reach it either");
    return false;
  }
  connection_ = std::move(established.connection);
  shake(nic);
  return true;
}

void PathDialer::shake(NicId remote_nic) {
  ConnectionIdentity identity;
  identity.kind = kind();
  identity.from = request_.self;
  identity.to = request_.peer;
  identity.path = request_.path;
  identity.from_nic = request_.local_nic;
  identity.to_nic = remote_nic;
  // The control stream names the incarnation that it joins.
  const auto& data = attempt_->dialed.data;
  const Incarnation last = data ? data->session.incarnation : request_.last_used;
  const auto& nonce = attempt_->nonces[on_control_ ? 1 : 0];
  attempt_->io.emplace(std::move(connection_),
                       make_initiator(run_, identity, last, nonce, request_.call));
}

void PathDialer::pump() {
  std::optional<HandshakeIo>& io = attempt_->io;
  while (true) {
    switch (io->pump()) {
      case HandshakeIo::Progress::running:
        return registration_.want_write(io->wants_write());
      case HandshakeIo::Progress::failed:
        return fail(EPROTO, io->error().message());
      case HandshakeIo::Progress::done:
        break;
    }
    if (!asks_relay_) return take_established();
    if (!on_relayed(io->take())) return;
  }
}

void PathDialer::take_established() {
  std::optional<HandshakeIo>& io = attempt_->io;
  if (!request_.call.empty()) {
    stage_ = Stage::hanging_up;
    return registration_.want_write(false);
  }
  registration_.reset();
  EstablishedConnection established = io->take();
  io.reset();
  (on_control_ ? attempt_->dialed.control : attempt_->dialed.data) = std::move(established);
  if (request_.opens == DialOpens::both && !on_control_) {
    on_control_ = true;
    const TimeNs done_by = done_by_ + 2 * limits::kConnectAttempt;
    return connect(done_by, done_by);
  }
  DialedPath dialed = std::move(attempt_->dialed);
  cancel();
  owner_.on_dialed(*this, std::move(dialed));
}

void PathDialer::fail(int error, const std::string& why) {
  const DialFailure failure{error, answered_, to_string(request_.remote) + ": " + why};
  cancel();
  owner_.on_dial_failed(*this, failure);
}

}  // namespace r2ccl
