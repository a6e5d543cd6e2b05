#include "tools/bench/bench_result.h"

#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>
#include <sstream>

namespace r2ccl::tools {
namespace {

using nlohmann::json;

BenchRun run_of(uint64_t bytes, bool in_place, std::vector<TimeNs> durations) {
  BenchRun run{bytes, bytes / 4, in_place, {}, 0, 0, 0};
  TimeNs start = 5 * kSecond;
  for (TimeNs duration : durations) {
    run.operations.push_back({start, duration, duration + kMicrosecond});
    run.total += duration;
    start += duration + kMicrosecond;
  }
  return run;
}

TEST(BenchResult, TakesBusBandwidthsAsNcclTestsDoes) {
  BenchOptions options;
  // 1 MB in 10 ms: 100 MB/s; times 2 * 3/4 for an all-reduce over 4 ranks.
  BenchRun run = run_of(1'000'000, false, {10 * kMillisecond, 10 * kMillisecond});
  EXPECT_DOUBLE_EQ(bandwidth(options, 4, run).algorithm, 100e6);
  EXPECT_DOUBLE_EQ(bandwidth(options, 4, run).bus, 150e6);
  options.collective = Collective::broadcast;
  EXPECT_DOUBLE_EQ(bandwidth(options, 4, run).bus, 100e6);
}

// A gather's senders begin the next one while the root still receives. The slowest ranks of the
// operations then are slow twice.
TEST(BenchResult, TakesTheTimeOfTheSlowestRankOverAllOperations) {
  BenchRun run = run_of(1'000'000, false, {15 * kMillisecond, 15 * kMillisecond});
  run.total = 20 * kMillisecond;
  EXPECT_DOUBLE_EQ(run.time_us(), 10'000);
}

TEST(BenchResult, TakesPercentilesAndTheLongestGapOverAllRuns) {
  std::vector<TimeNs> durations(99, kMillisecond);
  durations.push_back(70 * kMillisecond);
  std::vector<BenchRun> runs = {run_of(64, false, durations),
                                run_of(64, true, std::vector<TimeNs>(100, 2 * kMillisecond))};
  OperationTimes times = operation_times(runs);
  EXPECT_DOUBLE_EQ(times.p50_ms, 2);
  EXPECT_DOUBLE_EQ(times.p99_ms, 2);
  EXPECT_DOUBLE_EQ(times.max_ms, 70);
  EXPECT_DOUBLE_EQ(max_gap_ms(runs), 70.001);
  EXPECT_DOUBLE_EQ(operation_times({}).max_ms, 0);
}

TEST(BenchResult, WritesTheAgreedJsonFields) {
  BenchOptions options;
  options.check = true;
  BenchRun out = run_of(4000, false, {kMillisecond}), in = run_of(4000, true, {kMillisecond});
  out.checked_elements = in.checked_elements = 1000;
  in.wrong_elements = 3;
  std::string verdict =
      R"({"rank": 1, "scope": "pair", "host": "h1", "nic": "nic0", "peer_host": "h0", "peer_nic": "nic0", "process": null, "kind": "hole",
          "detected_ms": 12, "loss_percent": null, "replayed_bytes": 100, "stall_ms": 13, "at": "now"})";
  auto report = [&](const std::string& host) {
    return R"({"host": ")" + host + R"(", "nics": [{"name": "nic0", "tx_bytes": 5, "rx_bytes": 6}],
               "verdicts": [)" +
           verdict + R"(], "paths": [{"suspicions": 2}, {"suspicions": 0}, {"suspicions": 1}]})";
  };
  json document = json::parse(result_json(
      options, 3, {out, in},
      {report("h0"), needed_part(report("h1")), report("h1"), needed_part("not a report")}));
  EXPECT_EQ(document.at("ranks"), 3);
  EXPECT_EQ(document.at("hosts"), 2);
  EXPECT_EQ(document.at("nics"), 1);
  EXPECT_EQ(document.at("operations"), 2);
  EXPECT_EQ(document.at("checked_elements"), 2000);
  EXPECT_EQ(document.at("wrong_elements"), 3);
  ASSERT_EQ(document.at("results").size(), 1u);
  EXPECT_EQ(document.at("results")[0].at("bytes"), 4000);
  EXPECT_EQ(document.at("results")[0].at("wrong"), 3);
  EXPECT_EQ(document.at("nic_bytes").at("h1").at("nic0").at("tx"), 10);  // two ranks of one host
  EXPECT_EQ(document.at("suspicions"), 9);
  ASSERT_EQ(document.at("verdicts").size(), 1u);
  EXPECT_EQ(document.at("verdicts")[0], json::parse(verdict));
}

TEST(BenchTable, HasTheColumnsOfNcclTests) {
  BenchOptions options;
  options.check = true;
  options.sizes = {4000};
  BenchRun run = run_of(4000, false, {kMillisecond});
  std::istringstream row(table_row_start(options, run) + table_row_part(options, 2, &run) +
                         table_row_part(options, 2, nullptr));
  std::vector<std::string> words{std::istream_iterator<std::string>(row), {}};
  EXPECT_EQ(words, (std::vector<std::string>{"4000", "1000", "float", "sum", "-1", "1000.0",
                                             "0.0040", "0.0040", "0", "N/A", "N/A", "N/A", "N/A"}));
  run.wrong_elements = 2;
  EXPECT_NE(table_footer(options, 2, {run}).find("# Out of bounds values : 2 FAILED"),
            std::string::npos);
}

TEST(BenchTable, SaysWhereNothingWasChecked) {
  BenchOptions options;
  options.check = false;
  const BenchRun run = run_of(4000, false, {kMillisecond});
  EXPECT_NE(table_footer(options, 2, {run}).find("# Out of bounds values : not checked\n"),
            std::string::npos);
  const json document = json::parse(result_json(options, 2, {run, run}, {}));
  EXPECT_TRUE(document.at("checked_elements").is_null());
  EXPECT_TRUE(document.at("wrong_elements").is_null());
  EXPECT_TRUE(document.at("results")[0].at("wrong").is_null());
}

TEST(BenchResult, HasAReductionOnlyWhereTheCollectiveHasOne) {
  BenchOptions options;
  const BenchRun run = run_of(4000, false, {kMillisecond});
  const auto redop = [&](Collective collective) {
    options.collective = collective;
    return json::parse(result_json(options, 2, {run}, {})).at("results")[0].at("redop");
  };
  for (const auto collective :
       {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
    EXPECT_EQ(redop(collective), "sum");
  }
  for (const auto collective : {Collective::broadcast, Collective::sendrecv, Collective::alltoall,
                                Collective::all_gather}) {
    EXPECT_TRUE(redop(collective).is_null());
  }
}

TEST(BenchTable, SaysWhichSizesAreRoundedUp) {
  BenchOptions options;
  options.bytes_min = "10";
  options.bytes_max = "25";
  ASSERT_TRUE(resolve(&options).ok());
  EXPECT_EQ(whole_bytes(options, 10, 3), 12u);
  EXPECT_EQ(whole_bytes(options, 12, 3), 12u);
  const std::string header = table_header(options, 3);
  EXPECT_NE(header.find("minBytes 10 maxBytes 25 "), std::string::npos) << header;
  EXPECT_NE(header.find("\n# 10 bytes are rounded up to 12: "), std::string::npos) << header;
  EXPECT_EQ(header.find("# 20 bytes"), std::string::npos) << header;
  options.collective = Collective::alltoall;
  EXPECT_EQ(whole_bytes(options, 13, 3), 24u);
}

TEST(BenchOptions, ChecksUnlessToldOtherwise) {
  const auto checks = [](const std::string& text, const std::string& collective) {
    BenchOptions options;
    if (text != "default") options.check_text = text;
    options.collective_name = collective;
    EXPECT_TRUE(resolve(&options).ok());
    return options.check;
  };
  EXPECT_TRUE(checks("default", "all_reduce"));
  EXPECT_TRUE(checks("", "all_reduce"));
  EXPECT_TRUE(checks("1", "all_reduce"));
  EXPECT_FALSE(checks("0", "all_reduce"));
  EXPECT_FALSE(checks("default", "barrier"));
}

TEST(BenchOptions, MakesTheSizesThatWereAskedFor) {
  auto sizes = [](auto change) {
    BenchOptions options;
    options.bytes_min = "1K";
    change(&options);
    return resolve(&options).ok() ? options.sizes : std::vector<uint64_t>();
  };
  using Sizes = std::vector<uint64_t>;
  EXPECT_EQ(sizes([](BenchOptions*) {}), Sizes{1024});
  EXPECT_EQ(sizes([](BenchOptions* o) { o->bytes_max = "5K"; }), (Sizes{1024, 2048, 4096}));
  EXPECT_EQ(sizes([](BenchOptions* o) { o->bytes_max = "3K", o->step_bytes = "1K"; }),
            (Sizes{1024, 2048, 3072}));
  EXPECT_EQ(sizes([](BenchOptions* o) { o->bytes_max = "4K", o->step_factor = 4; }),
            (Sizes{1024, 4096}));
  EXPECT_EQ(sizes([](BenchOptions* o) { o->bytes_max = "1"; }), Sizes{});
  EXPECT_EQ(sizes([](BenchOptions* o) { o->bytes_min = "0"; }), Sizes{0});
  EXPECT_EQ(sizes([](BenchOptions* o) { o->bytes_min = "lots"; }), Sizes{});
}

TEST(BenchOptions, NamesTheOptionWhoseValueMakesNoSense) {
  const auto error = [](auto change) {
    BenchOptions options;
    change(&options);
    return resolve(&options).message();
  };
  EXPECT_EQ(error([](BenchOptions* o) { o->step_bytes = "0"; }), "-i must be 1 or more");
  EXPECT_EQ(error([](BenchOptions* o) { o->step_factor = 0; }), "-f must be 2 or more");
  EXPECT_EQ(error([](BenchOptions* o) { o->step_bytes = "1K", o->step_factor = 1; }),
            "-f must be 2 or more");
  for (const double seconds : {-1.0, 1e300, std::nan(""), HUGE_VAL}) {
    EXPECT_EQ(error([&](BenchOptions* o) { o->duration_s = seconds; }),
              "--duration must be 0 to 1000000 seconds");
  }
}

TEST(BenchOptions, NamesTheWrongOption) {
  BenchOptions options;
  options.redop_name = "mean";
  EXPECT_NE(resolve(&options).message().find("-o 'mean': choose from avg, band, bor, bxor, max"),
            std::string::npos);
}

}  // namespace
}  // namespace r2ccl::tools
