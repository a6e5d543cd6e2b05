#include <gtest/gtest.h>

#include <random>

#include "protocol/view/view_agreement.h"
#include "testing/fuzz.h"

namespace r2ccl {
namespace {

constexpr size_t kHosts = 3;

View example() {
  return View::of({{{1000, 1000}, {750, 500}}, {{1000, 1000}}, {{1000, 1000}}}).value();
}

std::vector<ViewMessage> examples() {
  return {
      ViewAsk{7, 2, ViewStage::propose, 3, ViewRecord{4, 99, example()}},
      ViewAsk{7, 1, ViewStage::collect, 3, {}},
      ViewAsk{7, 3, ViewStage::release, 3, {}},
      ViewAnswer{7, 2, true, 7, 98, 3, {}},
      ViewAnswer{7, 1, false, 0, 98, 4, ViewRecord{4, 99, View()}},
      ViewCommit{7, ViewRecord{4, 99, example()}},
  };
}

Status refusal(const ViewMessage& message, size_t hosts = kHosts) {
  const auto decoded = decode_view_message(encode(message), hosts);
  return decoded.ok() ? Status() : decoded.status();
}

TEST(ViewCodec, EveryMessageComesBackEqual) {
  for (const ViewMessage& message : examples()) {
    const auto decoded = decode_view_message(encode(message), kHosts);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(decoded.value(), message);
  }
}

TEST(ViewCodec, RefusesTruncatedAndSurplusBytes) {
  for (const ViewMessage& message : examples()) {
    std::vector<std::byte> bytes = encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_view_message(std::span(bytes).first(size), kHosts).ok());
    }
    bytes.push_back({});
    EXPECT_FALSE(decode_view_message(bytes, kHosts).ok());
  }
}

TEST(ViewCodec, RefusesAViewOfOtherHosts) {
  const ViewCommit commit{7, ViewRecord{4, 99, example()}};
  EXPECT_EQ(refusal(commit).message(), "");
  EXPECT_NE(refusal(commit, 4).message().find("lacks hosts"), std::string::npos);
  EXPECT_NE(refusal(commit, 2).message().find("too many"), std::string::npos);
}

// The bytes of a view with one class of rates for all hosts but the first.
TEST(ViewCodec, RefusesImpossibleRates) {
  std::vector<std::byte> bytes = encode(ViewCommit{7, ViewRecord{4, 99, example()}});
  // Kind, ballot, version, start, number of classes and the first class's number of NICs.
  const size_t first_rate = 1 + 8 + 8 + 8 + 2 + 1;
  for (size_t i = 0; i < 16; i += 8) {
    for (size_t byte = 0; byte < 4; ++byte) bytes[first_rate + i + byte] = {};
  }
  const auto silent = decode_view_message(bytes, kHosts);
  ASSERT_FALSE(silent.ok());
  EXPECT_NE(silent.status().message().find("host 0 of the view can send nothing"),
            std::string::npos)
      << silent.status().message();
  bytes[first_rate + 3] = std::byte{0xff};
  EXPECT_FALSE(decode_view_message(bytes, kHosts).ok());
}

TEST(ViewCodec, AViewOfManyHostsIsSmallWhereFewDiffer) {
  std::vector<HostRates> hosts(4096, HostRates(8));
  for (size_t host = 100; host < 4096; host += 500) hosts[host][3] = {0, 0};
  const ViewCommit commit{7, ViewRecord{1, 1, View::of(std::move(hosts)).value()}};
  EXPECT_LT(encode(commit).size(), 512u);
  EXPECT_EQ(refusal(commit, 4096).message(), "");
}

TEST(ViewCodec, SurvivesChangedBytesOfAHostileRank) {
  std::mt19937_64 random(1);
  const std::vector<ViewMessage> messages = examples();
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = encode(messages[random() % messages.size()]);
    for (uint64_t k = random() % 4; k > 0; --k) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    fuzz_view(bytes);
  }
}

TEST(ViewAgreement, RefusesMessagesThatNoCorrectRankSends) {
  ViewAgreement agreement(Rank(0), 3, {});
  const auto refuses = [&](const ViewMessage& message) {
    const bool refused = !agreement.on_message(Rank(1), message, 0).ok();
    EXPECT_EQ(agreement.latest().version, 0u);
    EXPECT_TRUE(agreement.may_bind(UINT64_MAX - 1));
    return refused;
  };
  // Ballots of another rank, too low ones and ones that leave no higher one.
  EXPECT_TRUE(refuses(ViewAsk{5, 1, ViewStage::collect, 0, {}}));
  EXPECT_TRUE(refuses(ViewAsk{1, 1, ViewStage::collect, 0, {}}));
  EXPECT_TRUE(refuses(ViewAsk{UINT64_MAX - 2, 1, ViewStage::collect, 0, {}}));
  EXPECT_TRUE(refuses(ViewAnswer{UINT64_MAX, 1, false, 0, 0, 0, {}}));
  EXPECT_TRUE(refuses(ViewCommit{5, ViewRecord{1, 9, example()}}));
  // A version that skips one, and a start that is bound.
  EXPECT_TRUE(refuses(ViewCommit{4, ViewRecord{2, 9, example()}}));
  agreement.on_bound(1);
  EXPECT_TRUE(refuses(ViewCommit{4, ViewRecord{1, 1, example()}}));
  EXPECT_FALSE(refuses(ViewAsk{4, 1, ViewStage::collect, 0, {}}));
}

TEST(ViewAgreement, AMemberFarBehindAcceptsNoFurtherView) {
  ViewMember member({});
  for (uint64_t version = 1; version < kViewRecordsMax + 2; ++version) {
    const ViewRecord next{version, 10 * version, example()};
    member.obey({version + 10, 1, ViewStage::propose, version - 1, next});
    if (version == kViewRecordsMax) {
      EXPECT_EQ(member.held(), 0u);
      break;
    }
    EXPECT_EQ(member.held(), version + 10);
    EXPECT_TRUE(member.learn(next).ok());
    member.check_invariants();
  }
  member.on_bound(25);
  member.obey({100, 1, ViewStage::propose, kViewRecordsMax - 1,
               ViewRecord{kViewRecordsMax, 10 * kViewRecordsMax, example()}});
  EXPECT_EQ(member.held(), 100u);
}

TEST(ViewAgreement, ALaterViewReplacesOneThatNeverTookEffect) {
  ViewMember member({});
  EXPECT_TRUE(member.learn({1, 5, example()}).ok());
  EXPECT_TRUE(member.learn({2, 3, View()}).ok());
  member.check_invariants();
  EXPECT_TRUE(member.view_of(1).empty());
  EXPECT_TRUE(member.view_of(5).empty());
  EXPECT_TRUE(member.learn({3, 4, example()}).ok());
  EXPECT_TRUE(member.view_of(3).empty());
  EXPECT_EQ(member.view_of(4), example());
}

}  // namespace
}  // namespace r2ccl
