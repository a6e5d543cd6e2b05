#include "tools/simulate/sim_plan_options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tools/common/parse.h"
#include "tools/simulate/sim_plan_svg.h"

namespace r2ccl::tools {
namespace {

SimPlanOptions some_options() {
  SimPlanOptions options;
  options.collective = "all_reduce";
  options.hosts = 4;
  options.nics = 2;
  return options;
}

std::string error_of(const SimPlanOptions& options) {
  return sim_plan_of(options).status().message();
}

TEST(SimPlanOptions, RatesAreBitsASecondWithDecimalUnits) {
  EXPECT_EQ(parse_bit_rate("50G"), 50e9);
  EXPECT_EQ(parse_bit_rate("2.5k"), 2500);
  EXPECT_EQ(parse_bit_rate("1.6T"), 1.6e12);
  EXPECT_EQ(parse_bit_rate("8000"), 8000);
  for (const char* text : {"", "G", "5Q", "5GG", "five", "nan", "inf"}) {
    EXPECT_FALSE(parse_bit_rate(text).has_value()) << text;
  }
  SimPlanOptions options = some_options();
  options.nic_rate = "8G";
  EXPECT_EQ(sim_plan_of(options).value().fabric.nic_rate, 1e9);
}

TEST(SimPlanOptions, AViewHasTheRatesOfAllHosts) {
  SimPlanOptions options = some_options();
  options.view = "3*2x1000/0,1000:250";
  const auto rates = sim_plan_of(options).value().fabric.rates;
  EXPECT_EQ(rates[2], HostRates(2));
  EXPECT_EQ(rates[3], (HostRates{{0, 0}, {1000, 250}}));
}

TEST(SimPlanOptions, APlanKnowsRailsOnlyWhereTheyAreApart) {
  SimPlanOptions options = some_options();
  options.view = "1000,0/0,1000/2*2x1000";
  const View joined =
      View::of({{{1000, 1000}}, {{1000, 1000}}, {{2000, 2000}}, {{2000, 2000}}}).value();
  EXPECT_EQ(sim_plan_of(options).value().key.view, joined);
  options.fabric = "rails";
  EXPECT_EQ(sim_plan_of(options).value().key.view, sim_plan_of(options).value().view);
}

TEST(SimPlanOptions, ABlockHasItsPartOfTheBytes) {
  SimPlanOptions options = some_options();
  options.bytes = "64K";
  EXPECT_EQ(sim_plan_of(options).value().key.count, 16'384U);
  options.collective = "all_gather";
  EXPECT_EQ(sim_plan_of(options).value().key.count, 4096U);
}

TEST(SimPlanOptions, ThePlanKnowsTheLossesUnlessItIsTheHealthyOne) {
  SimPlanOptions options = some_options();
  options.loss = "50";
  EXPECT_FALSE(sim_plan_of(options).value().key.view.empty());
  options.healthy_plan = true;
  EXPECT_TRUE(sim_plan_of(options).value().key.view.empty());
  EXPECT_FALSE(sim_plan_of(options).value().fabric.rates.empty());
}

TEST(SimPlanOptions, ThePlannerCountsTheCostsOfTheNetwork) {
  SimPlanOptions options = some_options();
  options.nic_rate = "8G";
  options.latency_us = 65.536;
  const DomainCosts costs = sim_plan_of(options).value().key.costs.network;
  EXPECT_EQ(costs.hop_ns, 65'536U);
  EXPECT_EQ(costs.kib_ps, 524'288U);  // 512 ns for two NICs, rounded to three binary digits
}

TEST(SimPlanOptions, AFailureHasATimeAHostAndANic) {
  SimPlanOptions options = some_options();
  options.failures = {"1.5,3,1", "2,0,0,250"};
  const sim::FluidOptions values = sim_plan_of(options).value().options;
  ASSERT_EQ(values.changes.size(), 2U);
  EXPECT_DOUBLE_EQ(values.changes[0].at_s, 1.5e-3);
  EXPECT_EQ(values.changes[0].host, 3U);
  EXPECT_EQ(values.changes[0].nic, 1U);
  EXPECT_EQ(values.changes[0].rate, (NicRate{0, 0}));
  EXPECT_EQ(values.changes[1].rate, (NicRate{250, 250}));
}

struct WrongOption {
  void (*set)(SimPlanOptions&);
  const char* message;
};

TEST(SimPlanOptions, AWrongOneIsNamed) {
  const WrongOption kWrong[] = {
      {[](SimPlanOptions& o) { o.collective = "all"; },
       "no collective 'all'; there are all_reduce"},
      {[](SimPlanOptions& o) { o.algorithm = "best"; }, "--algorithm: no algorithm 'best'"},
      {[](SimPlanOptions& o) { o.hosts = 4096, o.ranks_per_host = 2; },
       "--hosts: 8192 ranks on all hosts; the simulator takes 4096"},
      {[](SimPlanOptions& o) { o.root = 4; }, "--root: 4 is none of 4 ranks"},
      {[](SimPlanOptions& o) { o.bytes = "0"; }, "--bytes: '0' is no size from 1 byte"},
      {[](SimPlanOptions& o) { o.bytes = "-1"; }, "--bytes: '-1' is no size"},
      {[](SimPlanOptions& o) { o.collective = "all_to_all", o.bytes = "15"; },
       "--bytes: 15 is less than 16, one element of 4 bytes for each rank"},
      {[](SimPlanOptions& o) { o.nic_rate = "0"; }, "--nic-rate: '0' is no rate; write bits"},
      {[](SimPlanOptions& o) { o.nic_rate = "-50G"; }, "--nic-rate: '-50G' is no rate"},
      {[](SimPlanOptions& o) { o.intra_rate = "1E"; }, "--intra-rate: '1E' is no rate"},
      {[](SimPlanOptions& o) { o.latency_us = -1; }, "--latency-us: write a time from 0"},
      {[](SimPlanOptions& o) { o.message_us = std::nan(""); }, "--message-us: write a time"},
      {[](SimPlanOptions& o) { o.detection_ms = 1e12; }, "--detection-ms: write a time"},
      {[](SimPlanOptions& o) { o.fabric = "tree"; }, "--fabric: 'tree' is none of flat, rails"},
      {[](SimPlanOptions& o) { o.oversubscription = 2; },
       "--oversubscription: only --fabric spine"},
      {[](SimPlanOptions& o) { o.fabric = "spine", o.oversubscription = 0; },
       "--oversubscription: write a factor of 1 or more"},
      {[](SimPlanOptions& o) { o.loss = "100"; }, "--loss: '100' is no percentage from 0 to below"},
      {[](SimPlanOptions& o) { o.loss = "-5"; }, "--loss: '-5' is no percentage"},
      {[](SimPlanOptions& o) { o.loss = "1,2,3,4,5"; }, "--loss: there are 4 hosts"},
      {[](SimPlanOptions& o) { o.loss = "5", o.view = "1"; }, "--loss: give one of --loss"},
      {[](SimPlanOptions& o) { o.view = "2x1000"; }, "--view: it has 1 of 4 hosts"},
      {[](SimPlanOptions& o) { o.view = "3*2x1000/1"; }, "--view: host 3 has 1 NICs, and --nics"},
      {[](SimPlanOptions& o) { o.view = "2x0/3*2x1000"; },
       "--view: host 0 of the view can send nothing"},
      {[](SimPlanOptions& o) { o.failures = {"1,2"}; }, "--fail: '1,2' is neither MS,HOST,NIC"},
      {[](SimPlanOptions& o) { o.failures = {"-1,0,0"}; }, "--fail: write a time"},
      {[](SimPlanOptions& o) { o.failures = {"1,9,0"}; }, "--fail: host 9 has no NIC 0"},
      {[](SimPlanOptions& o) { o.segment = "1"; }, "--segment: '1' is no size from 1K"},
      {[](SimPlanOptions& o) { o.bytes = "16384G"; }, "--segment: 16384G in segments of 256K are"},
      {[](SimPlanOptions& o) { o.memory = "lots"; }, "--memory: 'lots' is no size"},
  };
  for (const WrongOption& wrong : kWrong) {
    SimPlanOptions options = some_options();
    wrong.set(options);
    EXPECT_EQ(error_of(options).substr(0, std::string(wrong.message).size()), wrong.message);
    EXPECT_EQ(error_of(options).empty(), std::string(wrong.message).empty());
  }
}

TEST(SimPlanSvg, ShowsTheShareOfEachPartOfTheTime) {
  UsageRecorder usage(2, 2.0);
  usage.carried(0, 1, 0.5, 1.0, 100);
  double sent = 0;
  for (const double bytes : usage.sent()[0]) sent += bytes;
  EXPECT_NEAR(sent, 100, 1e-9);
  EXPECT_EQ(usage.sent()[0][49], 0);
  EXPECT_NEAR(usage.sent()[0][50], 2, 1e-9);
  EXPECT_NEAR(usage.received()[1][99], 2, 1e-9);
  EXPECT_EQ(usage.received()[1][100], 0);
  const std::string picture = draw_usage(usage, 200, "title");
  EXPECT_NE(picture.find("#0c3c78"), std::string::npos);  // all of the bandwidth
  EXPECT_NE(picture.find("host 1"), std::string::npos);
}

}  // namespace
}  // namespace r2ccl::tools
