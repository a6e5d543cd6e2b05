#include "tests/fuzz/agreement_seeds.h"

#include <array>

#include "nccl/listen_handle.h"
#include "nccl/meeting_messages.h"
#include "protocol/health/nic_report.h"
#include "protocol/shrink/shrink_messages.h"
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
  const std::vector<NicState> nics = {{0, NicReach{}}, {1, NicReach{1, 2}}, {3, std::nullopt}};
  seeds.add("view", "report", encode(NicReport{nics, {{0, 500, 2, 1}}}));
  seeds.add("view", "rates", encode(RateTable{{0, 1, {0, 0}}, {2, 0, {500, 1000}}}));
}

void add_nccl_connects(Seeds& seeds) {
  nccl::ListenHandle handle;
  handle.process.fill(std::byte{9});
  const std::array<std::byte, kSecretBytes> secret{std::byte{7}};
  handle.secret = LockedBytes::copy_of(secret);
  handle.listener = 3;
  handle.endpoints = {{parse_address("10.0.0.1").value(), 4711},
                      {parse_address("fd00::1").value(), 4712}};
  std::array<std::byte, nccl::kHandleBytes> bytes{};
  nccl::encode(handle, bytes);
  seeds.add("nccl_connect", "handle", with({0}, bytes));
  nccl::Ask ask;
  ask.process = handle.process;
  ask.link = 5;
  ask.listener = 3;
  ask.info.rank = Rank(1);
  ask.info.host_name = "node1";
  seeds.add("nccl_connect", "ask", with({1}, nccl::encode(ask).value()));
  nccl::Answer answer;
  answer.link = 5;
  answer.connection = 2;
  answer.token = handle.secret;
  answer.info = ask.info;
  seeds.add("nccl_connect", "answer", with({2}, nccl::encode(answer).value().bytes()));
}

}  // namespace

void add_agreements(Seeds& seeds) {
  add_nccl_connects(seeds);
  add_views(seeds);
  add_shrinks(seeds);
}

}  // namespace r2ccl
