#include "runtime/admin/rank_summary.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/link/notice.h"
#include "runtime/query/rank_query.h"

namespace r2ccl {
namespace {

RankSummary sample() {
  RankSummary summary;
  summary.uptime_ms = 123456789;
  summary.operations = 4711;
  summary.hedged = 1ull << 40;
  summary.retransmitted = 17;
  summary.corruptions = 3;
  summary.log_lines_dropped = 1'000'000;
  summary.verdicts = 3;
  summary.error = "rank 2 died";
  summary.call = "AllReduce 11 (5 float32, sum)";
  summary.call_ms = 5000;
  summary.blocker = {.kind = Blocker::Kind::behind, .rank = Rank(2), .number = 10};
  summary.nics = {{NicId(0), true, 1, 2, 3, 4, 5, 6, 7},
                  {kNoNic, true, 10, 20, 30, 40, 0, 0, 1, true, 9, 25'000}};
  summary.troubles = {{Rank(2), NicId(0), NicId(1), PathPhase::down, DownCause::peer_notice,
                       DownCause::carrier_lost, true, 1000, 200, 1800, 3}};
  summary.relays = {{Rank(0), Rank(2), true, false, PathPhase::up, 1ull << 33, 70'000},
                    {Rank(2), kNoRank, false, true, PathPhase::suspect, 3, 4}};
  return summary;
}

// The numbers of bytes that a later version has appended.
constexpr size_t kRelayBytes = 26;
size_t relay_bytes(const RankSummary& summary) {
  return 5 + summary.relays.size() * kRelayBytes;
}
constexpr size_t kCountBytes = 8;  // two counts end the encoding
// The bytes before it in the answer of a rank of a later communicator.
const size_t kPrefixBytes =
    make_notice(NoticeKind::answer, 0, encode(QueryMessage{}), ContextId(5)).bytes.size();
size_t drain_bytes(const RankSummary& summary) {
  return summary.nics.size() * 5;
}

std::vector<const RankInfo*> all(const std::vector<RankInfo>& infos) {
  std::vector<const RankInfo*> table;
  for (const RankInfo& info : infos) table.push_back(&info);
  return table;
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

// Each kind of wait, that for a message with a tag included.
TEST(RankSummary, HasEveryReasonToWait) {
  RankSummary summary = sample();
  for (int kind = 0; kind <= static_cast<int>(Blocker::kLastKind); ++kind) {
    summary.blocker.kind = static_cast<Blocker::Kind>(kind);
    const auto read = decode_rank_summary(encode(summary));
    ASSERT_TRUE(read.ok()) << kind << ": " << read.status().message();
    EXPECT_EQ(read.value(), summary);
  }
  summary.blocker.kind = static_cast<Blocker::Kind>(12);
  EXPECT_FALSE(decode_rank_summary(encode(summary)).ok()) << "it has no words";
}

TEST(RankSummary, SaysWhyANicDoesNotServe) {
  RankSummary summary = sample();
  summary.nics[0].drained = true;
  for (const IdleCause cause :
       {IdleCause::own_address, IdleCause::shared_subnet, IdleCause::unreached}) {
    summary.nics[0].idle = cause;
    const auto read = decode_rank_summary(encode(summary));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read.value(), summary);
    const std::vector<RankInfo> infos = rank_table();
    const std::string json =
        member_json(all(infos), Rank(0), "h0", Reachability::answered, &summary);
    EXPECT_NE(json.find(words_of(cause)), std::string::npos) << json;
  }
}

TEST(RankSummary, OfAVersionThatCouldNotDrainIsRead) {
  RankSummary before = sample();
  std::vector<std::byte> bytes = encode(before);
  bytes.resize(bytes.size() - kCountBytes - relay_bytes(before) - drain_bytes(before));
  const auto read = decode_rank_summary(bytes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  for (RankSummary::Line& line : before.nics) {
    line.drained = false;
    line.paths_drained = 0;
  }
  before.relays.clear();
  before.corruptions = 0;
  before.log_lines_dropped = 0;
  EXPECT_EQ(read.value(), before);
}

TEST(RankSummary, OfAVersionThatKnowsNoRelaysIsRead) {
  RankSummary before = sample();
  std::vector<std::byte> bytes = encode(before);
  bytes.resize(bytes.size() - kCountBytes - relay_bytes(before));
  const auto read = decode_rank_summary(bytes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  before.relays.clear();
  before.corruptions = 0;
  before.log_lines_dropped = 0;
  EXPECT_EQ(read.value(), before);
}

// A rank of many NICs, all of whose paths are in trouble, may tell of none.
TEST(RankSummary, TellsOfAsManyRelaysAsTheOtherListsLeaveRoomFor) {
  RankSummary summary = sample();
  summary.relays.resize(300, summary.relays[0]);
  for (const size_t nics : {size_t{2}, size_t{8}, size_t{40}, kSummaryLinesMax}) {
    summary.nics.resize(nics, summary.nics[0]);
    const std::vector<std::byte> bytes = encode(summary);
    EXPECT_LE(bytes.size() + kPrefixBytes, limits::kNoticeBytesMax);
    EXPECT_GT(bytes.size() + kPrefixBytes + kRelayBytes, limits::kNoticeBytesMax)
        << "room for another";
    const auto read = decode_rank_summary(bytes);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read.value().relays.size() + read.value().relays_left_out, 300u);
    EXPECT_EQ(read.value(), decode_rank_summary(encode(read.value())).value());
  }
}

TEST(RankSummary, RefusesMoreRelaysThanFit) {
  RankSummary summary = sample();
  std::vector<std::byte> bytes = encode(summary);
  bytes[bytes.size() - kCountBytes - relay_bytes(summary)] = std::byte{255};
  bytes.resize(bytes.size() + 255 * kRelayBytes);
  EXPECT_FALSE(decode_rank_summary(bytes).ok());
}

TEST(RankSummary, FitsIntoANoticeForAnyNumberOfPaths) {
  RankSummary summary = sample();
  summary.error.assign(10'000, 'e');
  summary.call.assign(10'000, 'c');
  summary.nics.resize(1000, summary.nics[0]);
  summary.troubles.resize(1000, summary.troubles[0]);
  summary.relays.resize(1000, summary.relays[0]);
  const std::vector<std::byte> bytes = encode(summary);
  EXPECT_LE(bytes.size() + kPrefixBytes, limits::kNoticeBytesMax);
  const auto read = decode_rank_summary(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().nics.size(), kSummaryLinesMax);
  EXPECT_EQ(read.value().troubles.size(), kSummaryTroublesMax);
  EXPECT_EQ(read.value().troubles_left_out, 1000 - kSummaryTroublesMax);
  EXPECT_EQ(read.value().relays.size() + read.value().relays_left_out, 1000u);
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
  const size_t before_counts = bytes.size() - kCountBytes;
  const size_t before_relays = before_counts - relay_bytes(sample());
  const size_t before_drains = before_relays - drain_bytes(sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    // The encodings of versions that could not drain, and that knew no relays.
    if (size == before_drains || size == before_relays || size == before_counts) continue;
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
    EXPECT_FALSE(
        member_json(all(known), Rank(1), "h", Reachability::answered, &read.value()).empty());
  }
}

TEST(RankSummary, IsNamedByTheRankTable) {
  const RankSummary summary = sample();
  const std::vector<RankInfo> infos = rank_table();
  const std::string text = member_json(all(infos), Rank(1), "h1", Reachability::answered, &summary);
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

TEST(RankSummary, NamesTheRankThatRelaysOrItsHost) {
  std::vector<RankInfo> known = rank_table();
  known[2].host_name = "h2";
  RankSummary summary = sample();
  summary.relays.resize(1);
  summary.relays.push_back({.peer = Rank(0), .via = Rank(2), .phase = PathPhase::down});
  summary.relays.push_back({.peer = Rank(2), .via = Rank(3), .dials = true, .standby = true});
  const std::string text = member_json(all(known), Rank(1), "h1", Reachability::answered, &summary);
  EXPECT_NE(text.find(R"("relays":[{"peer":0,"via":2,"via_host":"h2","state":"up","opens":true,)"
                      R"("tx_bytes":8589934592,"rx_bytes":70000},)"
                      R"({"peer":0,"via":-1,"via_host":"h2","state":"down","opens":false,)"
                      R"("tx_bytes":0,"rx_bytes":0},)"
                      R"({"peer":2,"via":-1,"via_host":"","state":"standby","opens":true,)"
                      R"("tx_bytes":0,"rx_bytes":0}],"relays_left_out":0})"),
            std::string::npos)
      << text;
}

TEST(RankSummary, IsShortForARankThatDidNotAnswer) {
  const std::vector<RankInfo> infos = rank_table();
  EXPECT_EQ(member_json(all(infos), Rank(2), "h\n2", Reachability::no_answer, nullptr),
            R"({"rank":2,"host":"h\u000a2","pid":102,"presence":"no answer"})");
}

}  // namespace
}  // namespace r2ccl
