#include "tools/admin/status_metrics.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/golden/golden.h"

namespace r2ccl::tools {
namespace {

using nlohmann::json;

RankAnswer answer(int rank, json report) {
  return {{"", 1000, {77, 0xab, Rank(rank)}}, std::move(report)};
}

json verdict(const std::string& nic, const std::string& at) {
  return {{"scope", "nic"},  {"kind", "silent"}, {"host", "h1"}, {"nic", nic},
          {"peer_host", ""}, {"peer_nic", ""},   {"at", at}};
}

json report() {
  return {{"host", "h0"},
          {"pid", 77},
          {"version", "0.1.0"},
          {"error", ""},
          {"uptime_ms", 1500},
          {"view_version", 3},
          {"operations", 9},
          {"mirrored_bytes", 1},
          {"replayed_bytes", 2},
          {"in_flight", {{{"ms", 1100}}, {{"ms", 2500}}}},
          {"nics", {{{"name", "nic0"}, {"up", true}, {"speed_mbps", 0}, {"tx_bytes", 5}}}},
          {"paths",
           {{{"peer", 1},
             {"nic", "nic0"},
             {"peer_nic", "nic1"},
             {"state", "up"},
             {"rate_MBps", 12.5},
             {"rate_measured", true},
             {"lane_rtt_ms", 0},
             {"one_way_excess_ms", nullptr},
             {"loss_percent", 2.5}}}},
          {"verdicts",
           {verdict("nic0", "2026-01-02T03:04:05.250Z"),
            verdict("nic0", "2026-01-02T03:04:01.000Z"), verdict("nic1", "yesterday")}}};
}

json nccl_report() {
  json nccl = report();
  nccl["kind"] = "nccl";
  nccl["rank"] = nullptr;
  nccl.erase("in_flight");
  nccl.erase("operations");
  nccl["paths"][0].update({{"peer_host", "h1"}, {"peer_pid", 78}});
  nccl["links"] = {{{"peer", 1}, {"host", "h1"}, {"pid", 78}, {"connections", 6}}};
  return nccl;
}

std::string metrics(const std::vector<RankAnswer>& answers) {
  return metrics_of(answers);
}

void expect_line(const std::string& text, const std::string& line) {
  EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << " is not in\n" << text;
}

TEST(StatusMetrics, AreInBaseUnits) {
  const std::string text = metrics({answer(0, report())});
  const std::string rank = "{comm=\"00000000000000ab\",uid=\"1000\",rank=\"0\"";
  const std::string path = rank + ",nic=\"nic0\",peer=\"1\",peer_nic=\"nic1\"";
  expect_line(text, "r2ccl_ranks 1");
  expect_line(text, "r2ccl_rank_up" + rank + "} 1");
  expect_line(text,
              "r2ccl_rank_info" + rank + ",host=\"h0\",pid=\"77\",name=\"\",version=\"0.1.0\"} 1");
  expect_line(text, "r2ccl_rank_failed" + rank + "} 0");
  expect_line(text, "r2ccl_rank_uptime_seconds" + rank + "} 1.5");
  expect_line(text, "r2ccl_view_version" + rank + "} 3");
  expect_line(text, "r2ccl_operations_total" + rank + "} 9");
  expect_line(text, "r2ccl_call_wait_seconds" + rank + "} 2.5");
  expect_line(text, "r2ccl_nic_up" + rank + ",nic=\"nic0\"} 1");
  expect_line(text, "r2ccl_nic_transmit_bytes_total" + rank + ",nic=\"nic0\"} 5");
  expect_line(text, "r2ccl_path_state" + path + ",state=\"up\"} 1");
  expect_line(text, "r2ccl_path_rate_bytes_per_second" + path + "} 12500000");
  expect_line(text, "r2ccl_path_loss_ratio" + path + "} 0.025");
  for (const char* unknown : {"nic_speed", "round_trip", "one_way", "path_downs"}) {
    EXPECT_EQ(text.find(unknown), std::string::npos) << unknown;
  }
}

TEST(StatusMetrics, CountVerdictsByTheFaultyComponent) {
  const std::string text = metrics({answer(0, report()), answer(1, report())});
  const std::string begin =
      "{comm=\"00000000000000ab\",uid=\"1000\",scope=\"nic\",kind=\"silent\",host=\"h1\",nic=\"";
  const std::string end = "\",peer_host=\"\",peer_nic=\"\"}";
  expect_line(text, "r2ccl_verdicts" + begin + "nic0" + end + " 2");
  expect_line(text, "r2ccl_verdicts" + begin + "nic1" + end + " 1");
  expect_line(text, "r2ccl_verdict_timestamp_seconds" + begin + "nic0" + end + " 1767323045.25");
  EXPECT_EQ(text.find("timestamp_seconds" + begin + "nic1"), std::string::npos) << text;
}

TEST(StatusMetrics, OfARankWithoutAnAnswerSayThatItIsNotUp) {
  json failed = report();
  failed["error"] = "rank 2 died";
  const std::string text = metrics({answer(0, nullptr), answer(1, failed)});
  const std::string job = "{comm=\"00000000000000ab\",uid=\"1000\",rank=\"";
  expect_line(text, "r2ccl_rank_up" + job + "0\"} 0");
  expect_line(text, "r2ccl_rank_failed" + job + "1\"} 1");
  EXPECT_EQ(text.find("r2ccl_rank_info" + job + "0"), std::string::npos);
  EXPECT_TRUE(metrics({}).ends_with("\nr2ccl_ranks 0\n"));
}

TEST(StatusMetrics, TakeNothingFromFieldsOfAnotherType) {
  const std::string text =
      metrics({answer(0, {{"host", 7},
                          {"pid", 1e300},
                          {"error", {1}},
                          {"operations", "many"},
                          {"nics", {1, {{"name", "a\"\nb"}, {"tx_bytes", -1}, {"rx_bytes", 3}}}},
                          {"paths", "none"},
                          {"in_flight", {"x"}},
                          {"verdicts", {1}}})});
  EXPECT_EQ(text.find("operations"), std::string::npos) << text;
  EXPECT_EQ(text.find("nic_transmit"), std::string::npos) << text;
  EXPECT_NE(text.find("nic=\"a\\\"?b\"} 3\n"), std::string::npos) << text;
}

TEST(StatusMetrics, OfAProcessOfNcclNameTheProcessesThatItIsLinkedWith) {
  const std::string text = metrics({answer(-1, nccl_report())});
  const std::string of_rank = R"({comm="00000000000000ab",uid="1000",rank="")";
  for (const std::string& line :
       {"r2ccl_rank_up" + of_rank + "} 1",
        "r2ccl_nccl_connections" + of_rank + R"(,peer="h1:78"} 6)",
        "r2ccl_path_state" + of_rank +
            R"(,nic="nic0",peer="h1:78",peer_nic="nic1",state="up"} 1)"}) {
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << line << "\n" << text;
  }
  EXPECT_NE(text.find(R"(version="0.1.0",kind="nccl"} 1)"), std::string::npos) << text;
  EXPECT_EQ(text.find("r2ccl_call_wait_seconds{"), std::string::npos) << text;
  EXPECT_EQ(text.find("r2ccl_operations_total{"), std::string::npos) << text;
}

// The whole text for a fixed report, byte for byte.
TEST(StatusMetrics, HaveTheirNamesAndUnits) {
  json whole = report();
  whole.update(json::parse(golden("report_paths.json")));
  whole.update(json::parse(golden("report_verdicts.json")));
  whole["log_lines_dropped"] = 4;
  json& measured = whole["paths"].back();
  measured.update({{"rate_MBps", 12.5},
                   {"rate_measured", true},
                   {"one_way_excess_ms", 2},
                   {"lane_rtt_ms", 0.5},
                   {"loss_percent", 2.5}});
  EXPECT_EQ(metrics({answer(0, whole), answer(-1, nccl_report())}), golden("metrics.prom"));
}

}  // namespace
}  // namespace r2ccl::tools
