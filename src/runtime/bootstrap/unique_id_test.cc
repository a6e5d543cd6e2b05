#include "runtime/bootstrap/unique_id.h"

#include <gtest/gtest.h>

#include <random>

#include "protocol/wire/key_schedule.h"

namespace r2ccl {
namespace {

Endpoint ipv4(uint8_t last, uint16_t port) {
  Endpoint endpoint;
  endpoint.address.family = AddressFamily::ipv4;
  endpoint.address.bytes = {10, 0, 0, last};
  endpoint.port = port;
  return endpoint;
}

UniqueId sample() {
  UniqueId id;
  id.job = make_job_identity();
  Endpoint ipv6;
  ipv6.address.family = AddressFamily::ipv6;
  ipv6.address.bytes.fill(0xfd);
  ipv6.port = 65535;
  id.rendezvous = {ipv4(1, 4711), ipv4(2, 4711), ipv6};
  return id;
}

TEST(UniqueId, DecodesItsOwnEncoding) {
  const UniqueId id = sample();
  const auto read = decode_unique_id(encode(id));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().job.id, id.job.id);
  EXPECT_EQ(read.value().job.secret, id.job.secret);
  EXPECT_TRUE(read.value().job.authenticated());
  EXPECT_EQ(read.value().rendezvous, id.rendezvous);
}

TEST(UniqueId, APublicOneHoldsNoSecret) {
  UniqueId id = sample();
  id.job = make_public_job_identity();
  const auto read = decode_unique_id(encode(id));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().job.id, id.job.id);
  EXPECT_FALSE(read.value().job.authenticated());
  EXPECT_NE(make_public_job_identity().id, id.job.id);
}

TEST(UniqueId, TheProcessesSecretIsPartOfTheKeyOfEveryId) {
  const LockedBytes text = generate_secret();
  for (const JobIdentity& told : {make_job_identity(), make_public_job_identity()}) {
    JobIdentity mine = told;
    JobIdentity again = told;
    JobIdentity other = told;
    JobIdentity none = told;
    ASSERT_TRUE(mix_in_secret(text, &mine).ok());
    ASSERT_TRUE(mix_in_secret(text, &again).ok());
    ASSERT_TRUE(mix_in_secret(generate_secret(), &other).ok());
    ASSERT_TRUE(mix_in_secret({}, &none).ok());
    EXPECT_TRUE(mine.authenticated());
    EXPECT_EQ(mine.id, told.id);
    EXPECT_EQ(mine.secret, again.secret);
    EXPECT_NE(mine.secret, other.secret);
    EXPECT_NE(mine.secret, told.secret) << "the id alone does not suffice";
    EXPECT_EQ(none.secret, told.secret);
  }
  JobIdentity one = make_job_identity();
  JobIdentity other = one;
  other.secret = make_job_identity().secret;
  ASSERT_TRUE(mix_in_secret(text, &one).ok());
  ASSERT_TRUE(mix_in_secret(text, &other).ok());
  EXPECT_NE(one.secret, other.secret) << "nor does the secret alone, where the id holds one";
}

TEST(UniqueId, RefusesEveryDamagedByte) {
  const UniqueIdBytes good = encode(sample());
  for (size_t i = 0; i < good.size(); ++i) {
    UniqueIdBytes damaged = good;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(decode_unique_id(damaged).ok()) << "byte " << i;
  }
}

TEST(UniqueId, SaysThatAnUninitialisedIdWasNeverSent) {
  const auto read = decode_unique_id(UniqueIdBytes());
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("was it sent to this rank"), std::string::npos);
}

TEST(UniqueId, RefusesRandomBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    UniqueIdBytes bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    EXPECT_FALSE(decode_unique_id(bytes).ok());
  }
}

TEST(JobIdentity, IsFreshEachTime) {
  const JobIdentity a = make_job_identity();
  const JobIdentity b = make_job_identity();
  EXPECT_NE(a.id, b.id);
  EXPECT_NE(a.secret, b.secret);
}

TEST(JobIdentity, OfANameIsEqualOnAllRanksAndUnauthenticatedWithoutASecret) {
  const auto make = [](const char* name, const std::string& secret) {
    const auto text = std::as_bytes(std::span(secret));
    return make_job_identity(name, text.empty() ? LockedBytes() : LockedBytes::copy_of(text))
        .value();
  };
  const JobIdentity a = make("slurm:17", "");
  EXPECT_EQ(a.id, make("slurm:17", "").id);
  EXPECT_NE(a.id, make("slurm:18", "").id);
  EXPECT_FALSE(a.authenticated());
  const JobIdentity b = make("slurm:17", "correct horse battery");
  EXPECT_TRUE(b.authenticated());
  EXPECT_EQ(b.id, a.id);
  EXPECT_EQ(b.secret, make("slurm:17", "correct horse battery").secret);
  EXPECT_NE(b.secret, make("slurm:17", "correct horse batterz").secret);
}

}  // namespace
}  // namespace r2ccl
