#include "tools/lab/lab_spec.h"

#include <gtest/gtest.h>

#include "tools/common/parse.h"
#include "tools/lab/lab_script.h"

namespace r2ccl::tools {
namespace {

LabShape shape(int hosts, int nics, double rate_mbit) {
  LabShape result;
  result.hosts = hosts;
  result.nics = nics;
  result.rate_mbit = rate_mbit;
  return result;
}

TEST(Parse, TakesNumbersWholeOrNotAtAll) {
  EXPECT_EQ(parse_int("12"), 12);
  EXPECT_EQ(parse_int("12x"), std::nullopt);
  EXPECT_EQ(parse_int(""), std::nullopt);
  EXPECT_EQ(parse_number("2.5"), 2.5);
  EXPECT_EQ(parse_number("nan"), std::nullopt);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("1MB"), 1048576u);
  EXPECT_EQ(parse_bytes("7"), 7u);
  EXPECT_EQ(parse_bytes("K"), std::nullopt);
  EXPECT_EQ(parse_bytes("99999999999G"), std::nullopt);
}

TEST(LabSpec, SurvivesItsStateFile) {
  LabShape given = shape(3, 2, 100);
  given.nics_per_host = {"2", "1", "2"};
  given.rates = {"100", "h2:nic1=40"};
  given.mtus = {"9000"};
  given.ipv6 = true;
  Result<LabSpec> spec = make_lab_spec(given);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  Result<LabSpec> again = lab_spec_from_json(to_json(spec.value()));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(spec.value(), again.value());
}

TEST(LabSpec, RefusesAStateFileThatIsNone) {
  for (const char* text : {"", "{}", "[1]", "{\"hosts\": 3}"}) {
    EXPECT_FALSE(lab_spec_from_json(text).ok()) << text;
  }
}

TEST(LabSpec, AppliesListsByNicAndOverridesByHost) {
  LabShape given = shape(2, 3, 250);
  given.rates = {"200", "100", "h1:nic2=25"};
  given.mtus = {"h0:nic0=9000"};
  Result<LabSpec> spec = make_lab_spec(given);
  ASSERT_TRUE(spec.ok());
  const auto& hosts = spec.value().hosts;
  EXPECT_EQ(hosts[0][0], (LabNic{200'000'000, 9000}));
  EXPECT_EQ(hosts[1][1], (LabNic{100'000'000, 1500}));
  EXPECT_EQ(hosts[0][2], (LabNic{250'000'000, 1500}));
  EXPECT_EQ(hosts[1][2], (LabNic{25'000'000, 1500}));
}

TEST(LabSpec, RefusesShapesThatCannotBe) {
  auto refused = [](auto change) {
    LabShape given = shape(2, 2, 100);
    change(&given);
    return !make_lab_spec(given).ok();
  };
  EXPECT_TRUE(refused([](LabShape* s) { s->hosts = 0; }));
  EXPECT_TRUE(refused([](LabShape* s) { s->hosts = 1000; }));
  EXPECT_TRUE(refused([](LabShape* s) { s->nics = 0; }));
  EXPECT_TRUE(refused([](LabShape* s) { s->rate_mbit = -1; }));
  EXPECT_TRUE(refused([](LabShape* s) { s->mtu = 10; }));
  EXPECT_TRUE(refused([](LabShape* s) { s->name = "../etc"; }));
  EXPECT_TRUE(refused([](LabShape* s) { s->nics_per_host = {"1"}; }));
  EXPECT_TRUE(refused([](LabShape* s) { s->rates = {"h9:nic0=1"}; }));
  EXPECT_TRUE(refused([](LabShape* s) { s->rates = {"fast"}; }));
  EXPECT_FALSE(refused([](LabShape*) {}));
}

TEST(LabTarget, NamesANicARailOrTheManagementNetwork) {
  LabShape given = shape(3, 2, 100);
  given.nics_per_host = {"2", "1", "2"};
  LabSpec spec = make_lab_spec(given).value();
  auto ports = [&](std::vector<std::string> words) {
    Result<LabTarget> target = parse_target(spec, &words);
    return target.ok() ? target.value().ports : std::vector<LabPort>();
  };
  EXPECT_EQ(ports({"h2", "nic1"}), (std::vector<LabPort>{{2, 1}}));
  EXPECT_EQ(ports({"h2:nic1"}), (std::vector<LabPort>{{2, 1}}));
  EXPECT_EQ(ports({"h1", "mgmt"}), (std::vector<LabPort>{{1, LabPort::kMgmt}}));
  EXPECT_EQ(ports({"rail1"}), (std::vector<LabPort>{{0, 1}, {2, 1}}));  // h1 has no nic1
  EXPECT_EQ(ports({"mgmt"}).size(), 3u);
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{
           {}, {"h1"}, {"h1", "nic1"}, {"h3", "nic0"}, {"rail2"}, {"rail-1"}, {"banana"}}) {
    EXPECT_TRUE(ports(words).empty());
  }
}

TEST(LabFault, ReadsKindsAndAmounts) {
  EXPECT_EQ(describe(parse_fault({"hole-tx"}).value()), "hole-tx");
  EXPECT_EQ(describe(parse_fault({"slow", "25"}).value()), "slow 25 Mbit/s");
  EXPECT_EQ(describe(parse_fault({"slow", "10%"}).value()), "slow 10 %");
  EXPECT_EQ(describe(parse_fault({"lose", "0.5"}).value()), "lose 0.5 %");
  EXPECT_EQ(effect_of(parse_fault({"pull"}).value()), "is unplugged");
  EXPECT_EQ(effect_of(parse_fault({"slow", "25"}).value()), "is slowed to 25 Mbit/s");
  EXPECT_EQ(effect_of(parse_fault({"slow", "10%"}).value()), "is slowed to 10 % of its rate");
  EXPECT_EQ(effect_of(parse_fault({"lose", "0.5"}).value()), "loses 0.5 % of its packets");
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{{},
                                                                              {"burn"},
                                                                              {"slow"},
                                                                              {"slow", "0"},
                                                                              {"slow", "101%"},
                                                                              {"lose", "101"},
                                                                              {"down", "1"}}) {
    EXPECT_FALSE(parse_fault(words).ok());
  }
  EXPECT_EQ(parse_fault({"lose", "200"}).status().message(),
            "'200': lose needs a percentage above 0 and up to 100");
}

TEST(LabScript, SlowsToAShareOfTheNicsOwnRate) {
  LabShape given = shape(1, 1, 250);
  given.rates = {"100"};
  LabSpec spec = make_lab_spec(given).value();
  PortScripts scripts = fault_scripts(spec, {0, 0}, parse_fault({"slow", "10%"}).value(), false);
  EXPECT_NE(scripts.host_tc.find("rate 10000000bit"), std::string::npos) << scripts.host_tc;
  EXPECT_NE(scripts.fabric_tc.find("dev h0n0 root tbf rate 10000000bit"), std::string::npos);
}

TEST(LabScript, UsesTheAddressesOfTheAskedFamily) {
  LabShape given = shape(2, 12, 0);
  EXPECT_NE(host_ip_script(make_lab_spec(given).value(), 1).find("10.77.11.2/24"),
            std::string::npos);
  given.ipv6 = true;
  std::string script = host_ip_script(make_lab_spec(given).value(), 1);
  EXPECT_NE(script.find("fd77:0:0:b::2/64 dev nic11 nodad"), std::string::npos) << script;
  EXPECT_EQ(script.find("10.77"), std::string::npos);
}

TEST(LabScript, TurnsSegmentationOffloadOffWhereItIsAskedTo) {
  LabShape given = shape(2, 2, 0);
  EXPECT_EQ(host_ip_script(make_lab_spec(given).value(), 0).find("gso"), std::string::npos);
  given.single_packets = true;
  EXPECT_NE(host_ip_script(make_lab_spec(given).value(), 0).find("dev nic1 gso_max_segs 1 up"),
            std::string::npos);
}

TEST(LabScript, LeavesUnshapedNicsAlone) {
  LabShape given = shape(2, 2, 0);
  given.mgmt_mbit = 0;
  LabSpec spec = make_lab_spec(given).value();
  EXPECT_EQ(up_scripts(spec).fabric_tc, "");
  EXPECT_EQ(host_tc_script(spec, 0), "");
}

}  // namespace
}  // namespace r2ccl::tools
