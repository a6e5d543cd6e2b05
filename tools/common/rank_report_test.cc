#include "tools/common/rank_report.h"

#include <gtest/gtest.h>

namespace r2ccl::tools {
namespace {

TEST(RankReport, LeavesOutATimeOfDetectionThatIsNotKnown) {
  const std::string report = R"({"verdicts": [{"scope": "nic", "host": "h1", "nic": "nic0",
      "kind": "silent", "detected_ms": null, "stall_ms": 2, "replayed_bytes": 0}]})";
  EXPECT_EQ(verdict_lines({report}),
            std::vector<std::string>{"host h1 nic nic0: silent, stall 2 ms, 0 bytes replayed"});
}

TEST(RankReport, TellsTheShareOfPacketsThatALossyNicLoses) {
  const std::string report = R"({"verdicts": [{"scope": "nic", "host": "h1", "nic": "nic0",
      "kind": "lossy", "loss_percent": 5.25, "detected_ms": 700, "stall_ms": 0,
      "replayed_bytes": 0}]})";
  EXPECT_EQ(verdict_lines({report}),
            std::vector<std::string>{"host h1 nic nic0: lossy, 5.25 % of its packets lost, "
                                     "detected in 700 ms, stall 0 ms, 0 bytes replayed"});
}

TEST(RankReport, NamesBothEndsOfAPair) {
  const auto line = [](const std::string& nic, const std::string& peer_nic) {
    return verdict_lines({R"({"verdicts": [{"scope": "pair", "host": "h1", "nic": ")" + nic +
                          R"(", "peer_host": "h2", "peer_nic": ")" + peer_nic +
                          R"(", "kind": "tampered", "detected_ms": null, "stall_ms": 0,
                          "replayed_bytes": 7}]})"})
        .at(0);
  };
  EXPECT_EQ(
      line("nic0", "nic0"),
      "between host h1 nic nic0 and host h2 nic nic0: tampered, stall 0 ms, 7 bytes replayed");
  EXPECT_EQ(
      line("", ""),
      "between host h1 all nics and host h2 all nics: tampered, stall 0 ms, 7 bytes replayed");
}

}  // namespace
}  // namespace r2ccl::tools
