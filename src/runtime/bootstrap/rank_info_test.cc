#include "runtime/bootstrap/rank_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/limits.h"

namespace r2ccl {
namespace {

Address address(uint8_t last, uint8_t prefix_bits = 24) {
  Address out;
  out.family = AddressFamily::ipv4;
  out.bytes = {192, 168, 0, last};
  out.prefix_bits = prefix_bits;
  return out;
}

RankInfo sample(int32_t rank = 3) {
  RankInfo info;
  info.rank = Rank(rank);
  info.host_name = "node7";
  info.host.fill(std::byte{9});
  info.pid = 4711;
  info.library_version = 100;
  info.settings = {{"R2CCL_ALGO", "auto"}, {"R2CCL_MONITOR", "1"}};
  NicInfo nic;
  nic.name = "nic0";
  nic.hardware = {2, 0, 0, 0, 0, 1};
  nic.mtu = 9000;
  nic.speed_mbps = 25000;
  nic.addresses = {address(1), address(2)};
  nic.port = 40000;
  info.nics = {nic, nic};
  info.control = {{address(9), 5000}};
  info.shm = {
      .address = {.family = AddressFamily::local, .bytes = {7, 8}, .prefix_bits = 0, .scope = 0},
      .port = 3};
  info.init_error = "no NIC";
  KnownJob known;
  known.run.fill(std::byte{3});
  known.peer = Rank(5);
  known.parted = {Rank(1), Rank(2)};
  known.proof.fill(std::byte{4});
  info.known_jobs = {known, {}};
  return info;
}

TEST(RankInfo, DecodesItsOwnEncoding) {
  const RankInfo info = sample();
  const auto bytes = encode(info);
  ASSERT_TRUE(bytes.ok());
  const auto read = decode_rank_info(bytes.value());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value(), info);
}

TEST(RankInfo, ARankWithoutSharedMemorySaysSo) {
  RankInfo info = sample();
  info.shm = {};
  const auto read = decode_rank_info(encode(info).value());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().shm.address.family, AddressFamily::none);
}

TEST(RankInfo, StaysBelowItsMaximumWhenEverythingIsAtItsBound) {
  RankInfo info = sample();
  info.host_name.assign(kHostNameBytesMax, 'h');
  info.settings.assign(kSettingsMax, {std::string(kSettingNameBytesMax, 'n'),
                                      std::string(kSettingValueBytesMax, 'v')});
  info.nics[0].name.assign(kNicNameBytesMax, 'x');
  info.nics[0].addresses.assign(kNicAddressesMax, address(1));
  info.nics.assign(limits::kNicsMax, info.nics[0]);
  info.control.assign(kControlEndpointsMax, {address(1), 1});
  info.init_error.assign(kInitErrorBytesMax, 'o');
  const auto bytes = encode(info);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_LE(bytes.value().size(), kRankInfoBytesMax);
  const auto read = decode_rank_info(bytes.value());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value(), info);
}

TEST(RankInfo, SaysWhichBoundIsCrossed) {
  RankInfo info = sample();
  info.nics.resize(limits::kNicsMax + 1);
  const auto bytes = encode(info);
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.status().message().find("NICs of this rank: 65 is more than 64"),
            std::string::npos);
}

TEST(RankInfo, RefusesEveryTruncationAndAnyExtraByte) {
  std::vector<std::byte> bytes = encode(sample()).value();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_rank_info(std::span(bytes).first(size)).ok()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_rank_info(bytes).ok());
}

TEST(RankInfo, NamesARankWhoseLibraryDescribesItselfInAnotherForm) {
  std::vector<std::byte> bytes = encode(sample()).value();
  bytes[0] = std::byte{77};
  bytes.resize(bytes.size() - 20);  // only the fields up to the version have a fixed form
  const Status status = decode_rank_info(bytes).status();
  EXPECT_EQ(status.code(), Code::invalid_usage);
  EXPECT_EQ(
      status.message(),
      "rank 3 (host node7, pid 4711) has r2ccl 0.1.0, which describes a rank in form 77; this "
      "library knows form 3: install one version of r2ccl on all hosts");
}

TEST(RankInfo, RefusesControlCharactersInNames) {
  RankInfo info = sample();
  info.host_name = "node-7";
  std::vector<std::byte> bytes = encode(info).value();
  const auto dash = std::ranges::find(bytes, std::byte{'-'});
  ASSERT_NE(dash, bytes.end());
  *dash = std::byte{'\n'};
  EXPECT_FALSE(decode_rank_info(bytes).ok());
}

TEST(RankInfo, SurvivesRandomAndDamagedBytes) {
  const std::vector<std::byte> good = encode(sample()).value();
  std::mt19937 random(11);
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
    const auto read = decode_rank_info(bytes);
    // Accepted rank info is within the bounds, so it can be encoded again.
    if (read.ok()) {
      EXPECT_TRUE(encode(read.value()).ok());
    }
  }
}

TEST(Agreement, NamesTheSettingAndBothRanks) {
  std::vector<RankInfo> rank_table = {sample(0), sample(1), sample(2)};
  EXPECT_TRUE(check_agreement(rank_table).ok());
  rank_table[2].settings[0].value = "ring";
  EXPECT_EQ(check_agreement(rank_table).message(),
            "R2CCL_ALGO differs between ranks: rank 0 (host node7, pid 4711) has auto, "
            "rank 2 (host node7, pid 4711) has ring");
}

TEST(Agreement, NoticesAMissingSetting) {
  std::vector<RankInfo> rank_table = {sample(0), sample(1)};
  rank_table[1].settings.pop_back();
  EXPECT_FALSE(check_agreement(rank_table).ok());
}

TEST(Agreement, NamesBothVersionsAndBothRanks) {
  std::vector<RankInfo> rank_table = {sample(0), sample(1)};
  rank_table[1].library_version = 10203;
  EXPECT_EQ(check_agreement(rank_table).message(),
            "the version of r2ccl differs between ranks: rank 0 (host node7, pid 4711) has 0.1.0, "
            "rank 1 (host node7, pid 4711) has 1.2.3: install one version of r2ccl on all hosts");
}

}  // namespace
}  // namespace r2ccl
