#include "runtime/config/process_secret.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

namespace r2ccl {
namespace {

LockedBytes secret_text(const std::string& text) {
  return LockedBytes::copy_of(std::as_bytes(std::span(text)));
}

// A second derivation would return other memory.
TEST(ProcessSecret, IsStretchedOnceForAllCommunicatorsOfAProcess) {
  JobIdentity job;
  job.id.fill(std::byte{7});
  std::array<LockedBytes, 3> keys;
  std::vector<std::thread> threads;
  for (LockedBytes& key : keys) {
    threads.emplace_back(
        [&key, &job] { key = process_secret(secret_text("one for all threads"), job.id).value(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const LockedBytes& key : keys) EXPECT_EQ(key.bytes().data(), keys[0].bytes().data());
  const LockedBytes other = process_secret(secret_text("another"), job.id).value();
  EXPECT_NE(other, keys[0]);
  EXPECT_EQ(process_secret(secret_text("one for all threads"), job.id).value(), keys[0]);
}

}  // namespace
}  // namespace r2ccl
