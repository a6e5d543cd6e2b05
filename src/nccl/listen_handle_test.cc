#include "nccl/listen_handle.h"

#include <gtest/gtest.h>

namespace r2ccl::nccl {
namespace {

ListenHandle example() {
  ListenHandle handle;
  handle.process.fill(std::byte{7});
  handle.secret = LockedBytes::random(kSecretBytes);
  handle.listener = 42;
  for (const char* text : {"10.1.2.3", "fd00::7"}) {
    handle.endpoints.push_back({*parse_address(text), 4711});
  }
  return handle;
}

TEST(ListenHandle, ComesBackAsItWas) {
  const ListenHandle handle = example();
  std::array<std::byte, kHandleBytes> bytes;
  encode(handle, bytes);
  set_attempt(bytes, 99);
  const auto decoded = decode_listen_handle(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().process, handle.process);
  EXPECT_EQ(decoded.value().secret, handle.secret);
  EXPECT_EQ(decoded.value().listener, 42u);
  EXPECT_EQ(decoded.value().endpoints, handle.endpoints);
  EXPECT_EQ(attempt_of(bytes), 99u);
}

TEST(ListenHandle, IsRefusedWhenAFieldIsNoneOfOurs) {
  std::array<std::byte, kHandleBytes> good;
  encode(example(), good);
  for (const size_t at : {size_t{0}, size_t{4}, size_t{5}, size_t{58}}) {
    auto bytes = good;
    bytes[at] = std::byte{0xff};
    EXPECT_FALSE(decode_listen_handle(bytes).ok()) << "byte " << at;
  }
}

}  // namespace
}  // namespace r2ccl::nccl
