// What `r2ccl drain` asks a communicator for, and what this rank does when another passes it on.
#include "base/limits.h"
#include "base/log.h"
#include "runtime/communicator.h"
#include "runtime/notice.h"

namespace r2ccl {

std::optional<std::string> Communicator::drain_status(std::string_view line) {
  return drain_desk_.answer(line, engine_->cards(), clock_.now());
}

Presence Communicator::ask_drain(Rank rank, const DrainQuestion& question) {
  return ask_by_notice(rank, make_notice(NoticeKind::drain_question, encode(question)));
}

DrainTally Communicator::act_on_drain(const DrainQuestion& question) {
  const auto nic = engine_->own_nic(question.host, question.nic);
  if (nic && question.verb != DrainVerb::check) {
    engine_->set_drained(*nic, question.verb == DrainVerb::drain);
  }
  return engine_->tally_drain(question.host, question.nic);
}

void Communicator::on_drain_question(Rank peer, std::span<const std::byte> body) {
  const auto question = decode_drain_question(body);
  Link* link = engine_->link(peer);
  const bool known = question.ok() && question.value().host.value() >= 0 &&
                     question.value().host.value() < options_.rank_count;
  if (!known || link->notices_pending() >= limits::kSurveyNoticesAhead) return;
  const DrainTally tally = act_on_drain(question.value());
  link->send_notice(
      make_notice(NoticeKind::drain_answer, encode_drain_answer(question.value().number, tally)));
}

void Communicator::on_drain_answer(Rank peer, std::span<const std::byte> body) {
  const auto answer = decode_drain_answer(body);
  if (answer.ok()) drain_desk_.on_answer(peer, answer.value());
}

}  // namespace r2ccl
