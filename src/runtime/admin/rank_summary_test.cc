#include "runtime/admin/rank_summary.h"

#include <gtest/gtest.h>

#include <random>

namespace r2ccl {
namespace {

RankSummary sample() {
  RankSummary summary;
  summary.uptime_ms = 123456789;
  summary.operations = 4711;
  summary.hedged = 1ull << 40;
  summary.retransmitted = 17;
  summary.verdicts = 3;
  summary.error = "rank 2 died";
  summary.call = "AllReduce 11 (5 float32, sum)";
  summary.call_ms = 5000;
  summary.blocker = {.kind = Blocker::Kind::behind, .rank = Rank(2), .number = 10};
  summary.nics = {{NicId(0), true, 1, 2, 3, 4, 5, 6, 7},
                  {kNoNic, true, 10, 20, 30, 40, 0, 0, 1, true, 9, 25'000}};
  summary.troubles = {{Rank(2), NicId(0), NicId(1), PathPhase::down, DownCause::peer_notice,
                       DownCause::carrier_lost, true, 1000, 200, 1800, 3}};
  return summary;
}

std::vector<RankInfo> rank_table() {
  std::vector<RankInfo> rank_table(3);
  for (int32_t rank = 0; rank < 3; ++rank) {
    RankInfo& info = rank_table[static_cast<size_t>(rank)];
    info.rank = Rank(rank);
    info.pid = 100 + static_cast<uint32_t>(rank);
    info.nics.resize(2);
    info.nics[0].name = "nic0";
    info.nics[1].name = "nic1";
  }
  return rank_table;
}

TEST(RankSummary, DecodesItsOwnEncoding) {
  const auto read = decode_rank_summary(encode(sample()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value(), sample());
}

TEST(RankSummary, OfAVersionThatCouldNotDrainIsRead) {
  RankSummary before = sample();
  std::vector<std::byte> bytes = encode(before);
  bytes.resize(bytes.size() - before.nics.size() * 5);
  const auto read = decode_rank_summary(bytes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  for (RankSummary::Line& line : before.nics) {
    line.drained = false;
    line.paths_drained = 0;
  }
  EXPECT_EQ(read.value(), before);
}

TEST(RankSummary, FitsIntoANoticeForAnyNumberOfPaths) {
  RankSummary summary = sample();
  summary.error.assign(10'000, 'e');
  summary.call.assign(10'000, 'c');
  summary.nics.resize(1000, summary.nics[0]);
  summary.troubles.resize(1000, summary.troubles[0]);
  const std::vector<std::byte> bytes = encode(summary);
  // The notice's kind and the question's number are added to it.
  EXPECT_LE(bytes.size() + 5, limits::kNoticeBytesMax);
  const auto read = decode_rank_summary(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().nics.size(), kSummaryLinesMax);
  EXPECT_EQ(read.value().troubles.size(), kSummaryTroublesMax);
  EXPECT_EQ(read.value().troubles_left_out, 1000 - kSummaryTroublesMax);
}

TEST(RankSummary, ListsPathsThatAreDownFirst) {
  RankSummary summary = sample();
  RankSummary::Trouble suspect = summary.troubles[0];
  suspect.phase = PathPhase::suspect;
  summary.troubles.insert(summary.troubles.begin(), kSummaryTroublesMax, suspect);
  const auto read = decode_rank_summary(encode(summary));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().troubles.front().phase, PathPhase::down);
  EXPECT_EQ(read.value().troubles.back().phase, PathPhase::suspect);
}

TEST(RankSummary, RefusesEveryTruncationAndAllowsBytesThatALaterVersionAppends) {
  std::vector<std::byte> bytes = encode(sample());
  const size_t before_drains = bytes.size() - sample().nics.size() * 5;
  for (size_t size = 0; size < bytes.size(); ++size) {
    if (size == before_drains) continue;  // the encoding of a version that could not drain
    EXPECT_FALSE(decode_rank_summary(std::span(bytes).first(size)).ok()) << size;
  }
  bytes.push_back(std::byte{1});
  EXPECT_TRUE(decode_rank_summary(bytes).ok());
  bytes[0] = std::byte{1};
  EXPECT_FALSE(decode_rank_summary(bytes).ok()) << "a version with another beginning";
}

TEST(RankSummary, SurvivesRandomAndDamagedBytes) {
  const std::vector<std::byte> good = encode(sample());
  const std::vector<RankInfo> known = rank_table();
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes = good;
    if (i % 2 == 0) {
      bytes.resize(random() % 400);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      if (!bytes.empty()) bytes[0] = std::byte{2};
    } else {
      for (int flips = 0; flips < 3; ++flips) {
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      }
    }
    const auto read = decode_rank_summary(bytes);
    if (!read.ok()) continue;
    // An accepted summary is within the bounds, so it can be encoded again and printed.
    const auto again = decode_rank_summary(encode(read.value()));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again.value().nics, read.value().nics);
    EXPECT_FALSE(member_json(known, Rank(1), "h", Reachability::answered, &read.value()).empty());
  }
}

TEST(RankSummary, IsNamedByTheRankTable) {
  const RankSummary summary = sample();
  const std::string text =
      member_json(rank_table(), Rank(1), "h1", Reachability::answered, &summary);
  EXPECT_NE(text.find(R"("rank":1,"host":"h1","pid":101,"presence":"answered")"),
            std::string::npos);
  EXPECT_NE(text.find(R"x("in":"AllReduce 11 (5 float32, sum)","in_ms":5000,)x"
                      R"x("waits_for":"rank 2 (host , pid 102), which is at 10",)x"
                      R"("waits_for_rank":2)"),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find(
          R"({"name":"nic0","up":true,"tx_bytes":1,"rx_bytes":2,"delay_ms":0.003,"loss_percent":0)"),
      std::string::npos);
  EXPECT_NE(text.find(R"({"name":"lo")"), std::string::npos);
  EXPECT_NE(text.find(R"({"peer":2,"nic":"nic0","peer_nic":"nic1","state":"down",)"
                      R"("since_ms":1000,"cause":"peer_notice","peer_cause":"carrier_lost",)"
                      R"("opens":true,"next_attempt_ms":200,"penalty":1.8,"returns":3})"),
            std::string::npos)
      << text;
}

TEST(RankSummary, IsShortForARankThatDidNotAnswer) {
  EXPECT_EQ(member_json(rank_table(), Rank(2), "h\n2", Reachability::no_answer, nullptr),
            R"({"rank":2,"host":"h\u000a2","pid":102,"presence":"no answer"})");
}

}  // namespace
}  // namespace r2ccl
