#include <gtest/gtest.h>

#include <vector>

#include "runtime/link/link.h"
#include "testing/scripted_link.h"

namespace r2ccl {
namespace {

constexpr ChannelId kChannel = ScriptedLink::kChannel;

TEST(Link, AChannelSendsByTheNicThatItPrefersFirst) {
  for (uint16_t nic = 0; nic < 3; ++nic) {
    ScriptedLink s(3);
    for (size_t path = 0; path < 3; ++path) s.connect(path);
    s.chunks().clear();
    s.link().prefer_nic(kChannel, NicId(nic));
    const std::vector<std::byte> memory(1024);
    (void)s.link().post_send(kChannel, memory, 0);
    s.step();
    ASSERT_EQ(s.chunks().size(), 1u);
    EXPECT_EQ(s.chunks()[0].first, nic);
  }
}

}  // namespace
}  // namespace r2ccl
