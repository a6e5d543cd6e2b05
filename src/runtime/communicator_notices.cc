// What the ranks tell each other of their communicators: failures, calls, ends.
#include <algorithm>

#include "base/log.h"
#include "runtime/communicator.h"
#include "runtime/notice.h"

namespace r2ccl {
namespace {

constexpr size_t kNoticeTextMax = 2000;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), std::min(text.size(), kNoticeTextMax)));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A call that does not match is every rank's error; of everything else the others only hear.
std::vector<std::byte> failure_notice(Code code, const std::string& text) {
  std::vector<std::byte> body = bytes_of(text);
  const Code told = code == Code::invalid_usage ? code : Code::remote;
  body.insert(body.begin(), static_cast<std::byte>(told));
  return make_notice(NoticeKind::failure, body);
}

Status read_failure(std::span<const std::byte> body) {
  if (body.empty()) return {Code::remote, "a rank failed"};
  const bool usage = body[0] == static_cast<std::byte>(Code::invalid_usage);
  return {usage ? Code::invalid_usage : Code::remote, text_of(body.subspan(1))};
}

}  // namespace

// The first cause counts; what follows from it does not.
void Communicator::fail(const Status& why, bool tell) {
  {
    std::lock_guard lock(failure_mutex_);
    if (!failure_.ok()) return;
    failure_ = why;
  }
  R2CCL_LOG(warn, "%s: %s", who(options_.self).c_str(), why.message().c_str());
  executor_->cancel(why);
  point_to_point_->cancel(why);
  if (!tell) return;
  const std::string text = why.code() == Code::aborted
                               ? who(options_.self) + " aborted: " + why.message()
                               : why.message();
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    Link* link = engine_->link(Rank(peer));
    if (link == nullptr || link->peer_ended()) continue;
    link->send_notice(failure_notice(why.code(), text));
  }
}

// A rank that left in order will never take part again: whoever needs it must be told.
void Communicator::check_departed() {
  if (finalizing_) return;
  for (int32_t peer = 0; peer < options_.rank_count; ++peer) {
    const Link* link = engine_->link(Rank(peer));
    if (link == nullptr) continue;
    if (link->wants_progress()) return;  // it has more to deliver; the next pass comes at once
    if (link->peer_said_goodbye()) departed_[static_cast<size_t>(peer)] = true;
  }
  if (std::find(departed_.begin(), departed_.end(), true) == departed_.end()) return;
  std::vector<Rank> needed = executor_->waits_on();
  const std::vector<Rank> pairs = point_to_point_->waits_on();
  needed.insert(needed.end(), pairs.begin(), pairs.end());
  for (const Rank rank : needed) {
    if (!departed_[static_cast<size_t>(rank.value())]) continue;
    return fail({Code::remote, who(rank) + " has left: it finalized its communicator while " +
                                   who(options_.self) + " still waits for it"},
                true);
  }
}

CallAudit::Callbacks Communicator::audit_callbacks() {
  CallAudit::Callbacks callbacks;
  callbacks.send = [this](Rank peer, const CallReport& report) {
    Link* link = engine_->link(peer);
    if (!failure_.ok() || link->peer_ended()) return;
    link->send_notice(make_notice(NoticeKind::calls, encode(report)));
  };
  callbacks.fail = [this](const std::string& why) { fail({Code::invalid_usage, why}, true); };
  callbacks.who = [this](Rank rank) { return who(rank); };
  callbacks.waits_on = [this] { return executor_->waits_on(); };
  callbacks.sends = [this](Rank peer) { return point_to_point_->sends_to(peer); };
  callbacks.receives = [this](Rank peer) { return point_to_point_->receives_from(peer); };
  callbacks.also_waits = [this]() -> std::string {
    const std::vector<Rank> peers = point_to_point_->waits_on();
    if (peers.empty()) return "";
    return ", waiting in a Send or Recv with rank " + std::to_string(peers.front().value());
  };
  return callbacks;
}

void Communicator::on_calls(Rank peer, std::span<const std::byte> body) {
  const auto report = decode_call_report(body);
  if (report.ok()) return audit_->on_report(peer, report.value());
  R2CCL_LOG(info, "from rank %d: %s", peer.value(), report.status().message().c_str());
}

void Communicator::on_path_event(const PathEvent& event) {
  // After a failure ranks leave as they like: what closes then says nothing of NICs.
  if (!finalizing_ && failure_.ok()) incidents_->on_path_event(event);
}

void Communicator::on_notice(Rank peer, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto body = bytes.subspan(1);
  switch (static_cast<NoticeKind>(bytes[0])) {
    case NoticeKind::failure:
      return fail(read_failure(body), false);
    case NoticeKind::calls:
      return on_calls(peer, body);
    case NoticeKind::observation:
      return incidents_->on_observation(body);
    case NoticeKind::verdict:
      return incidents_->on_verdict(body);
    case NoticeKind::probe_request:
      return incidents_->on_probe_request(peer, body);
    case NoticeKind::probe_answer:
      return incidents_->on_probe_answer(body);
    case NoticeKind::losses:
      return incidents_->on_losses(peer, body);
    case NoticeKind::status_request:
      return on_status_request(peer, body);
    case NoticeKind::status:
      return on_status(peer, body);
    case NoticeKind::drain_question:
      return drains_->on_question(peer, body);
    case NoticeKind::drain_answer:
      return drains_->on_answer(peer, body);
    case NoticeKind::address:
    case NoticeKind::drained:
      return;  // the engine's
  }
  R2CCL_LOG(info, "a notice of unknown kind %d from rank %d", static_cast<int>(bytes[0]),
            peer.value());
}

void Communicator::on_peer_end(Rank peer, PeerEnd end, const std::string& why) {
  // After a failure processes end as they like, too.
  incidents_->on_peer_gone(peer, failure_.ok() ? end : PeerEnd::goodbye);
  const auto index = static_cast<size_t>(peer.value());
  switch (end) {
    case PeerEnd::goodbye:
      departed_[index] = true;
      return;
    case PeerEnd::dead:
      dead_[index] = true;
      return fail({Code::remote, who(peer) + " died: " + why}, true);
    case PeerEnd::cut_off:
      dead_[index] = true;
      return fail({Code::remote, who(peer) + " is cut off: " + why}, true);
  }
}

}  // namespace r2ccl
