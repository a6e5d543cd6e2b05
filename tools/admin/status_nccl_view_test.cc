#include "tools/admin/status_nccl_view.h"

#include <gtest/gtest.h>

#include "tools/admin/status_view.h"

namespace r2ccl::tools {
namespace {

using nlohmann::json;

json link(int peer, const std::string& host, int pid) {
  return {{"peer", peer},          {"link", std::to_string(pid)},
          {"host", host},          {"pid", pid},
          {"connections", 4},      {"usable", true},
          {"paths_up", 2},         {"paths_suspect", 0},
          {"paths_proving", 0},    {"paths_down", 0},
          {"paths_drained", 0},    {"verdicts", 0},
          {"tx_bytes", 1'000'000}, {"rx_bytes", 0}};
}

json nic(const std::string& name) {
  return {{"name", name},     {"up", true},         {"tx_bytes", 2'000'000}, {"rx_bytes", 0},
          {"delay_ms", 0.21}, {"paths_up", 2},      {"paths_suspect", 0},    {"paths_proving", 0},
          {"paths_down", 0},  {"paths_drained", 0}, {"loss_percent", 0},     {"drained", false}};
}

json process() {
  const json member = {{"rank", 3},
                       {"host", "h0"},
                       {"pid", 41},
                       {"presence", "answered"},
                       {"uptime_ms", 5000},
                       {"nics", {nic("nic0"), nic("nic1")}},
                       {"troubles", json::array()},
                       {"troubles_left_out", 0}};
  return {{"comm", "0123456789abcdef"},
          {"kind", "nccl"},
          {"rank", 3},
          {"ranks", 8},
          {"pid", 41},
          {"host", "h0"},
          {"hosts", {"h0", "h1", "h2"}},
          {"version", "0.1.0"},
          {"uptime_ms", 5000},
          {"authenticated", true},
          {"members", {member}},
          {"links", {link(1, "h1", 42), link(2, "h2", 43)}},
          {"verdict_count", 0},
          {"verdicts", json::array()}};
}

TEST(StatusNcclView, ShowsTheProcessItsNicsAndItsLinks) {
  EXPECT_EQ(job_text(process(), false),
            "NCCL process 0123456789abcdef: pid 41 on host h0, rank 3 of 8, linked with 2 "
            "processes, up 5.0 s, r2ccl 0.1.0\n"
            "\n"
            "NIC   state  tx MB/s  rx MB/s  delay ms  loss %  paths up\n"
            "nic0  up     -        -        0.21      0.00    2 of 2\n"
            "nic1  up     -        -        0.21      0.00    2 of 2\n"
            "\n"
            "process  host  connections  paths up  tx MB/s  rx MB/s  verdicts\n"
            "42       h1    4            2 of 2    -        -        0\n"
            "43       h2    4            2 of 2    -        -        0\n"
            "\n"
            "all paths are up\n"
            "\n"
            "no faults so far\n");
}

TEST(StatusNcclView, HasRatesOfNicsAndLinks) {
  json later = process();
  later["members"][0]["uptime_ms"] = 6000;
  later["members"][0]["nics"][0]["tx_bytes"] = 5'000'000;
  later["links"][1]["tx_bytes"] = 2'500'000;
  later["links"].insert(later["links"].begin(), link(1, "h0", 40));
  add_rates(process(), &later);
  EXPECT_EQ(later["members"][0]["nics"][0]["tx_MBps"], 3);
  EXPECT_FALSE(later["links"][0].contains("tx_MBps")) << "it was not there before";
  EXPECT_EQ(later["links"][1]["tx_MBps"], 0);
  EXPECT_EQ(later["links"][2]["tx_MBps"], 1.5);
}

TEST(StatusNcclView, ShowsLostPathsWithTheProcessAtTheOtherEndAndFaults) {
  json it = process();
  it["links"][1].update({{"paths_up", 1}, {"paths_down", 1}, {"verdicts", 1}});
  it["members"][0]["troubles"] = {{{"peer", 2},
                                   {"nic", "nic1"},
                                   {"peer_nic", "nic1"},
                                   {"state", "down"},
                                   {"since_ms", 12'300},
                                   {"cause", "peer_notice"},
                                   {"peer_cause", "carrier_lost"},
                                   {"opens", true},
                                   {"next_attempt_ms", 200}}};
  it["verdict_count"] = 1;
  it["verdicts"] = {{{"scope", "nic"},
                     {"host", "h2"},
                     {"nic", "nic1"},
                     {"kind", "carrier_lost"},
                     {"stall_ms", 3},
                     {"replayed_bytes", 0},
                     {"missed_by", 3},
                     {"pid", nullptr},
                     {"repaired_at", ""},
                     {"at", "2026-01-02T03:04:05.678Z"}}};
  const std::string text = job_text(it, false);
  EXPECT_NE(text.find("nic1  43 on h2    nic1  down   12.3 s  carrier_lost (seen by the other end)"
                      "  in 200 ms\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("host h2 nic nic1: carrier_lost, stall 3 ms, 0 bytes replayed, missed by 3 "
                      "hosts\n"),
            std::string::npos)
      << text;
}

TEST(StatusNcclView, ShowsAProcessThatKnowsNoRankAndHasNoLink) {
  json it = process();
  it["rank"] = it["ranks"] = nullptr;
  it["links"] = json::array();
  it["authenticated"] = false;
  const std::string text = job_text(it, false);
  EXPECT_EQ(text.find("rank"), std::string::npos) << text;
  EXPECT_NE(text.find("linked with 0 processes"), std::string::npos) << text;
  EXPECT_NE(text.find("no secret: its start was open to strangers"), std::string::npos) << text;
}

TEST(StatusNcclView, NamesTheProcessesOfPaths) {
  const json report = {
      {"kind", "nccl"},
      {"rank", nullptr},
      {"host", "h0"},
      {"pid", 41},
      {"paths",
       {{{"peer", 1}, {"peer_host", "h1"}, {"peer_pid", 42}, {"nic", "nic0"}, {"state", "up"}}}}};
  const std::string text = paths_text(report);
  EXPECT_EQ(text.find("paths of this process (h0, pid 41):\nto process  NIC "), 0u) << text;
  EXPECT_NE(text.find("\n42 on h1    nic0 "), std::string::npos) << text;
}

// Any process of the user may answer.
TEST(StatusNcclView, TakesAnyJson) {
  for (const char* field : {"members", "links", "verdicts", "hosts", "rank"}) {
    for (const json& value : {json(), json(3), json("x"), json::array({1, nullptr, "x"}),
                              json::array({json::object()}), json::object()}) {
      json it = process();
      it[field] = value;
      add_rates(process(), &it);
      EXPECT_FALSE(job_text(it, true).empty());
    }
  }
}

}  // namespace
}  // namespace r2ccl::tools
