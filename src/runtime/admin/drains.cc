#include "runtime/admin/drains.h"

#include "base/hash.h"
#include "base/limits.h"
#include "runtime/admin/ask_by_notice.h"
#include "runtime/link/notice.h"

namespace r2ccl {
namespace {

// The next question replaces one that changes nothing. Only an equal command replaces a command:
// the rank must receive each of them, in their order.
uint64_t subject_of(DrainQuestion question) {
  if (question.verb == DrainVerb::check) return 0;
  question.number = 0;
  uint64_t subject = 1;
  for (const std::byte byte : encode(question)) {
    subject = hash_of({subject, std::to_integer<uint64_t>(byte)});
  }
  return subject;
}

}  // namespace

Drains::Drains(ProgressEngine& engine, const Clock& clock, DrainRegistry* registry)
    : engine_(engine),
      clock_(clock),
      registry_(registry),
      requests_(
          engine.self(), static_cast<int32_t>(engine.rank_count()),
          [this](Rank rank, const DrainQuestion& question) { return ask(rank, question); },
          [this](const DrainQuestion& question) { return act(question); }) {}

Drains::~Drains() {
  if (registry_ != nullptr) registry_->forget(this);
}

void Drains::take_over() {
  if (registry_ == nullptr) return;
  for (const DrainedNic& drained : registry_->drained(engine_.own_info().host)) {
    const auto nic = engine_.own_nic(engine_.self(), drained.nic);
    if (nic) take_out(*nic, drained.ticket);
  }
}

void Drains::take_out(NicId nic, uint64_t ticket) {
  uint64_t& held = tickets_[nic.value()];
  // A client that finds the NIC out of service may rely on that as well. Then no client can take it
  // back by ticket any more.
  held = engine_.nics().drained().contains(nic) && held != ticket ? 0 : ticket;
  engine_.set_drained(nic, true);
  const RankInfo& info = engine_.own_info();
  if (registry_ != nullptr) registry_->enter(this, info.host, {info.nics[nic.value()].name, held});
}

void Drains::put_back(NicId nic) {
  tickets_[nic.value()] = 0;
  engine_.set_drained(nic, false);
  const RankInfo& info = engine_.own_info();
  if (registry_ != nullptr) registry_->strike(this, info.host, info.nics[nic.value()].name);
}

std::optional<std::string> Drains::answer(uint64_t client, std::string_view line) {
  return requests_.answer(client, line, engine_.job().ranks(), clock_.now());
}

std::optional<DrainReply> Drains::reply(uint64_t client, std::string_view line) {
  return requests_.reply(client, line, engine_.job().ranks(), clock_.now());
}

Reachability Drains::ask(Rank rank, const DrainQuestion& question) {
  return ask_by_notice(*engine_.link(rank), make_notice(NoticeKind::drain_question,
                                                        subject_of(question), encode(question)));
}

// The command refuses to drain the last NIC. But two operators who each leave one NIC may have
// checked at the same moment. This rank knows which request came first.
bool Drains::refuses(NicId nic, const DrainQuestion& question) const {
  return !engine_.nics().drained().contains(nic) &&
         engine_.tally_drain(question.host, question.nic).stranded > 0;
}

DrainTally Drains::act(const DrainQuestion& question) {
  if (const auto nic = engine_.own_nic(question.host, question.nic)) {
    switch (question.verb) {
      case DrainVerb::check:
        break;
      case DrainVerb::drain:
        if (!refuses(*nic, question)) take_out(*nic, question.ticket);
        break;
      case DrainVerb::undo:
        put_back(*nic);
        break;
      case DrainVerb::take_back:
        if (question.ticket != 0 && question.ticket == tickets_[nic->value()]) put_back(*nic);
        break;
    }
  }
  return engine_.tally_drain(question.host, question.nic);
}

void Drains::on_question(Rank peer, std::span<const std::byte> body) {
  const auto question = decode_drain_question(body);
  const bool known = question.ok() && question.value().host.value() >= 0 &&
                     static_cast<size_t>(question.value().host.value()) < engine_.rank_count();
  if (!known) return;
  const DrainTally tally = act(question.value());
  engine_.link(peer)->send_notice(
      make_notice(NoticeKind::drain_answer, encode_drain_answer(question.value().number, tally)));
}

void Drains::on_answer(Rank peer, std::span<const std::byte> body) {
  const auto answer = decode_drain_answer(body);
  if (answer.ok()) requests_.on_answer(peer, answer.value());
}

}  // namespace r2ccl
