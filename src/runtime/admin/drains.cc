#include "runtime/admin/drains.h"

#include "base/limits.h"

namespace r2ccl {

Drains::Drains(ProgressEngine& engine, RankQuery& query, const Clock& clock,
               DrainRegistry* registry)
    : engine_(engine),
      clock_(clock),
      registry_(registry),
      requests_(query, engine.rank_count(),
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

}  // namespace r2ccl
