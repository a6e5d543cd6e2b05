// The report and the status of a fixed state, byte for byte: users have programs that read them.
#include <gtest/gtest.h>

#include <cstdio>

#include "runtime/admin/link_health.h"
#include "runtime/admin/rank_summary.h"
#include "schema/nic.h"
#include "testing/scripted_link.h"
#include "tests/golden/golden.h"

namespace r2ccl {
namespace {

RankSummary sample() {
  RankSummary summary;
  summary.uptime_ms = 123456789;
  summary.operations = 4711;
  summary.hedged = 1ull << 40;
  summary.retransmitted = 17;
  summary.verdicts = 3;
  summary.error = "rank 2 \"died\"";
  summary.call = "AllReduce 11 (5 float32, sum)";
  summary.call_ms = 5000;
  summary.blocker = {Blocker::Kind::no_send, Rank(2), 10, Rank(0), Rank(1)};
  summary.nics.push_back({.nic = NicId(0),
                          .up = true,
                          .sent = 1ull << 33,
                          .received = 2,
                          .delay_us = 3456,
                          .paths_up = 4,
                          .paths_suspect = 5,
                          .paths_validating = 6,
                          .paths_down = 7,
                          .drained = true,
                          .paths_drained = 8,
                          .loss_ppm = 25'123,
                          .idle = IdleCause::unreached});
  summary.nics.push_back({.nic = kNoNic, .up = false, .received = 1});
  summary.nics.push_back({.nic = kShmNic, .sent = 70'000, .paths_up = 1});
  summary.troubles.push_back({.peer = Rank(2),
                              .nic = NicId(0),
                              .peer_nic = NicId(1),
                              .phase = PathPhase::down,
                              .cause = DownCause::peer_notice,
                              .peer_cause = DownCause::carrier_lost,
                              .dials = true,
                              .since_ms = 1000,
                              .next_attempt_ms = 200,
                              .penalty_milli = 1834,
                              .returns = 3});
  summary.troubles.push_back(
      {.peer = Rank(0), .nic = NicId(9), .peer_nic = NicId(9), .phase = PathPhase::validating});
  summary.troubles_left_out = 11;
  summary.relays.push_back({Rank(0), Rank(2), true, false, PathPhase::up, 1ull << 33, 70'000});
  summary.relays.push_back({Rank(2), Rank(0), false, true, PathPhase::suspect, 3, 4});
  summary.relays_left_out = 12;
  summary.corruptions = 13;
  summary.log_lines_dropped = 1'000'000;
  return summary;
}

std::vector<RankInfo> ranks() {
  std::vector<RankInfo> ranks(3);
  for (int32_t rank = 0; rank < 3; ++rank) {
    RankInfo& info = ranks[static_cast<size_t>(rank)];
    info.rank = Rank(rank);
    info.host_name = "h" + std::to_string(rank);
    info.pid = 100 + static_cast<uint32_t>(rank);
    info.nics.resize(2);
    info.nics[0].name = "nic0";
    info.nics[1].name = "nic1";
  }
  return ranks;
}

TEST(Golden, StatusOfARank) {
  const std::vector<RankInfo> infos = ranks();
  const std::vector<const RankInfo*> table = {&infos[0], &infos[1], &infos[2]};
  const RankSummary summary = sample();
  EXPECT_EQ(by_line(member_json(table, Rank(1), "h1", Reachability::answered, &summary)),
            golden("status_member.json"));
}

TEST(Golden, SummaryOfARank) {
  std::string digits;
  const std::vector<std::byte> bytes = encode(sample());
  for (size_t i = 0; i < bytes.size(); ++i) {
    char digit[4];
    std::snprintf(digit, sizeof digit, "%02x%c", static_cast<unsigned>(bytes[i]),
                  i % 32 == 31 || i + 1 == bytes.size() ? '\n' : ' ');
    digits += digit;
  }
  EXPECT_EQ(digits, golden("rank_summary.txt"));
}

// A path that failed and returned, one with unknown times, and one that was never up.
TEST(Golden, PathsAndNicsInTheReport) {
  ScriptedLink scripted(3);
  scripted.connect(0);
  scripted.pass(30 * kMillisecond);
  scripted.connect_control(1);
  int number = 0;
  JsonWriter out;
  out.begin_object();
  const std::vector<ShownNic> nics = {{"nic0", false, true, 1500, 1000, 1, 2}};
  schema::write_list(out, "nics", nics, schema::kNicFields);
  std::vector<PathInfo> infos;
  const RankInfo peer = ranks()[0];
  ManualClock clock;  // at the link's time
  clock.advance(30 * kMillisecond);
  for (auto* path : scripted.link().paths()) {
    if (number++ == 0) {
      path->history = {.downs = 2,
                       .returns = 1,
                       .suspicions = 3,
                       .retransmitted_bytes = 4,
                       .down_at = kSecond / 2,
                       .cause = DownCause::peer_notice,
                       .peer_cause = DownCause::silent,
                       .why = "the peer said \"so\"",
                       .corruptions = 5,
                       .attempt = "refused"};
      path->backoff.on_down(clock.now() - 15 * kMillisecond, true);
    }
    const Link& link = scripted.link();
    infos.push_back(path_info(peer, link, *path, shortest_one_way(link), kSecond, clock));
    infos.back().peer = Rank(1);
  }
  schema::write_list(out, "paths", infos, schema::kPathFields);
  out.end_object();
  EXPECT_EQ(by_line(out.text()), golden("report_paths.json"));
}

TEST(Golden, VerdictsInTheReport) {
  VerdictInfo nic;
  nic.place = 7;
  nic.rank = Rank(1);
  nic.kind = DownCause::lossy;
  nic.host = "h2";
  nic.nic = "nic1";
  nic.loss_ppm = 25'123;
  nic.retransmitted = 4096;
  nic.stall = 3'456'789;
  nic.wall = 1'767'323'045'678'000'000;
  VerdictInfo pair;
  pair.scope = Scope::pair;
  pair.kind = DownCause::carrier_lost;
  pair.host = "h0";
  pair.nic = "nic0";
  pair.peer_host = "h1";
  pair.peer_nic = "nic1";
  pair.detected = 530'000;
  VerdictInfo process;
  process.scope = Scope::process;
  process.kind = DownCause::connection_lost;
  process.host = "h1";
  process.process = Rank(3);
  JsonWriter out;
  const std::vector<VerdictInfo> verdicts = {nic, pair, process};
  schema::write_list(out.begin_object(), "verdicts", verdicts, schema::kVerdictFields);
  out.end_object();
  EXPECT_EQ(by_line(out.text()), golden("report_verdicts.json"));
}

}  // namespace
}  // namespace r2ccl
