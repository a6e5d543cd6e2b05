#include "runtime/connection/path_addresses.h"

#include <gtest/gtest.h>

#include <string>

namespace r2ccl {
namespace {

// "10.0.0.1/24"
Address parsed(const std::string& text) {
  const size_t slash = text.find('/');
  Address address = parse_address(text.substr(0, slash)).value();
  address.prefix_bits = static_cast<uint8_t>(std::stoi(text.substr(slash + 1)));
  return address;
}

std::vector<Address> parsed_all(const std::vector<std::string>& texts) {
  std::vector<Address> all;
  for (const std::string& text : texts) all.push_back(parsed(text));
  return all;
}

// Returns the pairs as "source > remote", with "?" where the kernel chooses.
std::vector<std::string> pairs_of(const std::vector<std::string>& own,
                                  const std::vector<std::string>& theirs) {
  std::vector<std::string> texts;
  for (const AddressPair& pair : address_pairs(parsed_all(own), parsed_all(theirs))) {
    const bool chosen = pair.source.family != AddressFamily::none;
    texts.push_back((chosen ? to_string(pair.source) : "?") + " > " + to_string(pair.remote));
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(AddressPairs, TheCommonSubnetComesFirstInWhateverOrderTheAddressesAre) {
  EXPECT_EQ(pairs_of({"10.91.0.1/24"}, {"192.168.50.1/24", "10.91.0.2/24"}),
            (Texts{"10.91.0.1 > 10.91.0.2", "10.91.0.1 > 192.168.50.1", "? > 192.168.50.1"}));
  EXPECT_EQ(pairs_of({"10.91.0.1/24"}, {"10.91.0.100/32", "10.91.0.2/24"}),
            (Texts{"10.91.0.1 > 10.91.0.2", "10.91.0.1 > 10.91.0.100"}));
  EXPECT_EQ(pairs_of({"10.91.0.100/32", "10.91.0.2/24"}, {"10.91.0.1/24"}),
            (Texts{"10.91.0.2 > 10.91.0.1"}));
}

TEST(AddressPairs, ARoutedPeerIsReachedFromAnAddressThatIsNotVirtual) {
  EXPECT_EQ(pairs_of({"10.1.0.100/32", "10.1.0.1/24"}, {"10.2.0.1/24"}),
            (Texts{"10.1.0.1 > 10.2.0.1", "? > 10.2.0.1"}));
  EXPECT_EQ(pairs_of({"10.1.0.1/32"}, {"10.1.0.2/32"}),
            (Texts{"10.1.0.1 > 10.1.0.2", "? > 10.1.0.2"}));
}

TEST(AddressPairs, HostsOfBothFamiliesMeetHostsOfOne) {
  EXPECT_EQ(pairs_of({"10.0.0.1/24", "fd00::1/64", "fe80::1/64"}, {"fd00::2/64", "fe80::2/64"}),
            (Texts{"fd00::1 > fd00::2"}));
  EXPECT_EQ(pairs_of({"10.0.0.1/24", "fe80::1/64"}, {"fd00::2/64", "fe80::2/64"}),
            (Texts{"fe80::1 > fe80::2"}));
  EXPECT_TRUE(pairs_of({"10.0.0.1/24"}, {"fd00::2/64"}).empty());
}

class PathAddressesTest : public testing::Test {
 protected:
  std::string next() {
    const auto pair = addresses_.next([&](const Address& a) { return same_address(a, here_); });
    return pair ? to_string(pair->remote) : "none";
  }
  std::string next_after_failure() {
    addresses_.on_failed();
    return next();
  }

  Address here_;
  PathAddresses addresses_{parsed_all({"10.0.0.1/24"}),
                           parsed_all({"10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"})};
};

TEST_F(PathAddressesTest, EachAttemptTakesTheNextUntilOneIsProved) {
  EXPECT_EQ(next(), "10.0.0.2");
  EXPECT_EQ(next_after_failure(), "10.0.0.3");
  EXPECT_EQ(next_after_failure(), "10.0.0.4");
  EXPECT_EQ(next_after_failure(), "10.0.0.2");
  EXPECT_FALSE(addresses_.is_proved(parsed("10.0.0.3/24")));
  ASSERT_TRUE(addresses_.on_proved(parsed("10.0.0.3/24")).has_value());
  EXPECT_TRUE(addresses_.is_proved(parsed("10.0.0.3/32")));
  EXPECT_FALSE(addresses_.is_proved(parsed("10.0.0.2/24")));
  EXPECT_EQ(next(), "10.0.0.3");
}

TEST_F(PathAddressesTest, AProvedAddressThatFailsLeavesOneAttemptOfFourToTheOthers) {
  (void)addresses_.on_proved(parsed("10.0.0.4/24"));
  Texts attempts = {next()};
  for (int i = 0; i < 11; ++i) attempts.push_back(next_after_failure());
  const std::string proved = "10.0.0.4";
  EXPECT_EQ(attempts, (Texts{proved, proved, proved, "10.0.0.2", proved, proved, proved, "10.0.0.3",
                             proved, proved, proved, proved}));
}

TEST_F(PathAddressesTest, AnAddressOfThisHostIsNeverTaken) {
  (void)addresses_.on_proved(parsed("10.0.0.2/24"));
  here_ = parsed("10.0.0.2/24");  // a container engine starts
  EXPECT_EQ(next(), "10.0.0.3");
  addresses_.set_theirs(parsed_all({"10.0.0.2/24"}));
  EXPECT_EQ(next(), "none");
}

}  // namespace
}  // namespace r2ccl
