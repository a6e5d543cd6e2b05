#include "tests/fuzz/agreement_seeds.h"

#include "protocol/shrink/shrink_messages.h"
#include "protocol/view/host_report.h"
#include "protocol/view/view_messages.h"

namespace r2ccl {
namespace {

void add_shrinks(Seeds& seeds) {
  const View view = View::of({{{1000, 1000}}, {{500, 1000}}, {{1000, 1000}}}).value();
  const ShrinkSubject subject{{Rank(3)}, 0};
  ShrinkDecision decision;
  decision.serial = 1;
  decision.subject = subject;
  decision.view = view;
  seeds.add("shrink", "wish", encode(ShrinkWish{1, false, subject}));
  seeds.add("shrink", "withdrawn", encode(ShrinkWish{1, true, subject}));
  seeds.add("shrink", "question", encode(ShrinkQuestion{1, true, subject}));
  seeds.add("shrink", "answer", encode(ShrinkAnswer{0, {1, false, subject}, true, view}));
  seeds.add("shrink", "made", encode(decision));
  decision.outcome = ShrinkOutcome::lists_differ;
  decision.ranks = {Rank(1)};
  decision.other = {Rank(2)};
  seeds.add("shrink", "lists_differ", encode(decision));
}

void add_views(Seeds& seeds) {
  const View view = View::of({{{1000, 1000}, {750, 500}}, {{1000, 1000}}, {{1000, 1000}}}).value();
  seeds.add("view", "propose",
            encode(ViewAsk{4, 1, ViewStage::propose, 0, ViewRecord{1, 9, view}}));
  seeds.add("view", "collect", encode(ViewAsk{4, 1, ViewStage::collect, 0, {}}));
  seeds.add("view", "answer", encode(ViewAnswer{3, 1, false, 0, 8, 0, {}}));
  seeds.add("view", "record", encode(ViewAnswer{3, 1, false, 0, 8, 1, ViewRecord{1, 9, view}}));
  seeds.add("view", "commit", encode(ViewCommit{4, ViewRecord{1, 9, view}}));
  seeds.add("view", "report",
            encode(HostReport{{NicReach{}, NicReach{1, 2}, std::nullopt}, {{0, 500, 2, 1}}}));
}

}  // namespace

void add_agreements(Seeds& seeds) {
  add_views(seeds);
  add_shrinks(seeds);
}

}  // namespace r2ccl
