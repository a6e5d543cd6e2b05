#include "runtime/config/host_port.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

TEST(HostPort, ReadsNamesAndAddresses) {
  EXPECT_EQ(parse_host_port("node0:4711").value(), (HostPort{"node0", 4711}));
  EXPECT_EQ(parse_host_port("10.0.0.1:1").value(), (HostPort{"10.0.0.1", 1}));
  EXPECT_EQ(parse_host_port("[fd00::1]:65535").value(), (HostPort{"fd00::1", 65535}));
  EXPECT_EQ(to_string(parse_host_port("[fd00::1]:65535").value()), "[fd00::1]:65535");
}

TEST(HostPort, RefusesTextThatIsNotHostAndPort) {
  for (const char* text : {"", ":", "node0", "node0:", ":4711", "node0:0", "node0:65536", "node0:x",
                           "node0:-1", "node0:47 ", "fd00::1:4711", "[]:4711", "a b:1", "[a:1"}) {
    EXPECT_FALSE(parse_host_port(text).ok()) << text;
  }
}

}  // namespace
}  // namespace r2ccl
