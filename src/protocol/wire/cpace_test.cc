// The figures are those of draft-irtf-cfrg-cpace-21, appendix B.3.
#include "protocol/wire/cpace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace r2ccl::cpace {
namespace {

std::vector<std::byte> hex(const std::string& digits) {
  std::vector<std::byte> out;
  for (size_t i = 0; i < digits.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return out;
}
Bytes text(const char* letters) {
  return std::as_bytes(std::span(letters, std::char_traits<char>::length(letters)));
}
template <typename Array>
Array array_of(const std::string& digits) {
  Array out;
  std::ranges::copy(hex(digits), out.begin());
  return out;
}
template <typename Range>
bool equals(const Range& bytes, const std::string& digits) {
  return std::ranges::equal(bytes, hex(digits));
}

const Bytes kPassword = text("Password");
const std::vector<std::byte> kChannel = hex("0b415f696e69746961746f720b425f726573706f6e646572");
const std::vector<std::byte> kSession = hex("7e4b4791d6a8ef019b936c79fb7f2c57");
const char* const kGenerator = "222b6b195fe84b1652badb6f6a3ae3d24341e7306967f0b8115b40d5698c7e56";
const char* const kScalarA = "da3d23700a9e5699258aef94dc060dfda5ebb61f02a5ea77fad53f4ff0976d08";
const char* const kShareA = "d6bac480f2c386c394efc7c47adb9925dcd2630b64f240c50f8d0eec482b9157";
const char* const kScalarB = "d2316b454718c35362d83d69df6320f38578ed5984651435e2949762d900b80d";
const char* const kShareB = "3ea7e0b19560d7c0b0f5734f63b955286dfa8232b5ebe63324e2d9e7433f7258";
const char* const kKey =
    "b69effbf61b51d56401c0f65601abe428de8206feaaf0e32198896dcae7b35cd"
    "2b38950a39dfd5d4a79164614c2984f7daa460b588c1e80c3fa2068af7900447";

Messages messages() {
  return {array_of<Point>(kShareA), text("ADa"), array_of<Point>(kShareB), text("ADb")};
}

TEST(Cpace, MakesTheGeneratorOfTheDraft) {
  EXPECT_TRUE(
      equals(generator_string(kPassword, kChannel, kSession),
             "11435061636552697374726574746f3235350850617373776f726464" + std::string(200, '0') +
                 "180b415f696e69746961746f720b425f726573706f6e646572107e4b4791d6a8ef019b936c"
                 "79fb7f2c57"));
  EXPECT_TRUE(equals(generator(kPassword, kChannel, kSession), kGenerator));
}

TEST(Cpace, MakesTheSharesOfTheDraft) {
  const auto base = array_of<Point>(kGenerator);
  EXPECT_TRUE(equals(share(array_of<Scalar>(kScalarA), base), kShareA));
  EXPECT_TRUE(equals(share(array_of<Scalar>(kScalarB), base), kShareB));
}

TEST(Cpace, BothEndsMakeTheKeyOfTheDraft) {
  const auto a =
      session_key(array_of<Scalar>(kScalarA), array_of<Point>(kShareB), kSession, messages());
  const auto b =
      session_key(array_of<Scalar>(kScalarB), array_of<Point>(kShareA), kSession, messages());
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(equals(*a, kKey));
  EXPECT_TRUE(equals(*b, kKey));
}

TEST(Cpace, RefusesTheNeutralElementAndBytesThatAreNoPoint) {
  const auto scalar = array_of<Scalar>(kScalarA);
  EXPECT_FALSE(session_key(scalar, Point{}, kSession, messages()));
  Point none;
  none.fill(std::byte{0xff});
  EXPECT_FALSE(session_key(scalar, none, kSession, messages()));
  // A point of the draft with its lowest bit changed.
  Point negative = array_of<Point>(kShareB);
  negative[0] ^= std::byte{1};
  EXPECT_FALSE(session_key(scalar, negative, kSession, messages()));
}

// The keys of two ends that meet with fresh scalars.
struct Keys {
  SessionKey a;
  SessionKey b;
};
Keys meet(Bytes password_a, Bytes password_b, Bytes session_a, Bytes session_b) {
  const Scalar a = random_scalar();
  const Scalar b = random_scalar();
  Messages said;
  said.initiator_share = share(a, generator(password_a, kChannel, session_a));
  said.responder_share = share(b, generator(password_b, kChannel, session_b));
  return {*session_key(a, said.responder_share, session_a, said),
          *session_key(b, said.initiator_share, session_b, said)};
}

TEST(Cpace, AgreesOnAFreshKeyForOnePasswordAlsoForNone) {
  for (const Bytes password : {kPassword, Bytes()}) {
    const Keys first = meet(password, password, kSession, kSession);
    const Keys second = meet(password, password, kSession, kSession);
    EXPECT_EQ(first.a, first.b);
    EXPECT_NE(first.a, second.a);
  }
}

TEST(Cpace, DoesNotAgreeForTwoPasswordsOrTwoSessions) {
  const Keys passwords = meet(kPassword, text("Passwore"), kSession, kSession);
  EXPECT_NE(passwords.a, passwords.b);
  const Keys sessions = meet(kPassword, kPassword, kSession, text("another"));
  EXPECT_NE(sessions.a, sessions.b);
}

TEST(Cpace, TheKeyCoversBothSharesAndTheirAssociatedData) {
  const auto scalar = array_of<Scalar>(kScalarA);
  const auto peers = array_of<Point>(kShareB);
  const SessionKey good = *session_key(scalar, peers, kSession, messages());
  for (int field = 0; field < 4; ++field) {
    Messages changed = messages();
    if (field == 0) changed.initiator_share[3] ^= std::byte{1};
    if (field == 1) changed.initiator_data = text("ADx");
    if (field == 2) changed.responder_share[3] ^= std::byte{1};
    if (field == 3) changed.responder_data = text("AD");
    EXPECT_NE(*session_key(scalar, peers, kSession, changed), good) << "field " << field;
  }
}

}  // namespace
}  // namespace r2ccl::cpace
