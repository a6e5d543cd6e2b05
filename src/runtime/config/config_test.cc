#include "runtime/config/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

namespace r2ccl {
namespace {

using Environment = std::map<std::string, std::string>;

Result<Config> load(const Environment& environment) {
  return load_config([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

LockedBytes secret(const std::string& text) {
  return LockedBytes::copy_of(std::as_bytes(std::span(text)));
}

TEST(Config, IsTheDefaultWhenNothingIsSet) {
  EXPECT_EQ(load({}).value(), Config());
}

TEST(Config, TakesAnEmptyVariableAsNotSet) {
  EXPECT_EQ(load({{"R2CCL_ALGO", ""}, {"R2CCL_CUTOFF_S", ""}, {"R2CCL_COMM_ID", ""}}).value(),
            Config());
}

TEST(Config, ReadsEveryVariable) {
  const Config config = load({{"R2CCL_SOCKET_IFNAME", "nic"},
                              {"R2CCL_SOCKET_FAMILY", "AF_INET6"},
                              {"R2CCL_OOB_IFNAME", "^=mgmt0,eth1"},
                              {"R2CCL_DEBUG", "info"},
                              {"R2CCL_DEBUG_FILE", "log.%h"},
                              {"R2CCL_COMM_ID", "node0:4711"},
                              {"R2CCL_SECRET", "0123456789abcdef"},
                              {"R2CCL_REQUIRE_AUTH", "1"},
                              {"R2CCL_CUTOFF_S", "7"},
                              {"R2CCL_INIT_TIMEOUT_S", "8"},
                              {"R2CCL_MONITOR", "0"},
                              {"R2CCL_ALGO", "hd"},
                              {"R2CCL_REPRODUCIBLE", "1"},
                              {"R2CCL_VIEWS", "0"},
                              {"R2CCL_DAMPING", "0"},
                              {"R2CCL_HOST_ID", "rack 3 slot 7"},
                              {"R2CCL_FAULT_FILE", "faults"}})
                            .value();
  Config expected;
  expected.socket_ifname = "nic";
  expected.socket_family = AddressFamily::ipv6;
  expected.oob_ifname = "^=mgmt0,eth1";
  expected.debug = LogLevel::info;
  expected.debug_file = "log.%h";
  expected.comm_id = "node0:4711";
  expected.secret = secret("0123456789abcdef");
  expected.require_auth = true;
  expected.cutoff_ns = 7 * kSecond;
  expected.init_timeout_ns = 8 * kSecond;
  expected.monitor = false;
  expected.algo = AlgorithmChoice::halving_doubling;
  expected.reproducible = true;
  expected.views = false;
  expected.damping = false;
  expected.host_id = "rack 3 slot 7";
  expected.fault_file = "faults";
  expected.notes = config.notes;
  EXPECT_EQ(config, expected);
}

TEST(Config, HonoursNcclsVariablesUnlessOursAreSet) {
  const Environment nccl = {{"NCCL_SOCKET_IFNAME", "eth"},   {"NCCL_SOCKET_FAMILY", "AF_INET"},
                            {"NCCL_OOB_NET_IFNAME", "mgmt"}, {"NCCL_DEBUG", "WARN"},
                            {"NCCL_DEBUG_FILE", "f"},        {"NCCL_COMM_ID", "h:1"}};
  Config config = load(nccl).value();
  EXPECT_EQ(config.socket_ifname, "eth");
  EXPECT_EQ(config.socket_family, AddressFamily::ipv4);
  EXPECT_EQ(config.oob_ifname, "mgmt");
  EXPECT_EQ(config.debug, LogLevel::warn);
  EXPECT_EQ(config.debug_file, "f");
  EXPECT_EQ(config.comm_id, "h:1");
  Environment both = nccl;
  both["R2CCL_SOCKET_IFNAME"] = "nic";
  both["R2CCL_DEBUG"] = "";
  config = load(both).value();
  EXPECT_EQ(config.socket_ifname, "nic");
  EXPECT_EQ(config.debug, LogLevel::warn);
}

TEST(Config, RefusesNonsenseInEveryVariableNamingItAndItsValue) {
  const std::multimap<std::string, std::string> nonsense = {
      {"R2CCL_SOCKET_IFNAME", "eth0,,eth1"},
      {"R2CCL_SOCKET_IFNAME", "^"},
      {"R2CCL_SOCKET_IFNAME", "a name"},
      {"R2CCL_SOCKET_IFNAME", "averyverylongname"},
      {"R2CCL_SOCKET_IFNAME", "eth0,"},
      {"R2CCL_SOCKET_FAMILY", "AF_UNIX"},
      {"R2CCL_OOB_IFNAME", "=^eth0"},
      {"R2CCL_DEBUG", "LOUD"},
      {"R2CCL_COMM_ID", "node0"},
      {"R2CCL_COMM_ID", "node0:99999"},
      {"R2CCL_REQUIRE_AUTH", "yes"},
      {"R2CCL_CUTOFF_S", "0"},
      {"R2CCL_CUTOFF_S", "-5"},
      {"R2CCL_CUTOFF_S", "1.5"},
      {"R2CCL_CUTOFF_S", "99999999999999999999"},
      {"R2CCL_INIT_TIMEOUT_S", "soon"},
      {"R2CCL_INIT_TIMEOUT_S", "12s"},
      {"R2CCL_MONITOR", "2"},
      {"R2CCL_ALGO", "tree"},
      {"R2CCL_DAMPING", " "},
      {"R2CCL_HOST_ID", "two\nlines"},
      {"R2CCL_HOST_ID", "a C1 control\xc2\x9b"},
      {"R2CCL_HOST_ID", "another order\xe2\x80\xae"},
      {"R2CCL_HOST_ID", "not UTF-8\xff"},
      {"R2CCL_HOST_ID", std::string(256, 'h')},
  };
  for (const auto& [name, value] : nonsense) {
    const auto config = load({{name, value}});
    ASSERT_FALSE(config.ok()) << name << "=" << value;
    EXPECT_EQ(config.status().code(), Code::invalid_argument);
    EXPECT_EQ(config.status().message().rfind(name + "=" + value + ": allowed is ", 0), 0u)
        << config.status().message();
  }
}

TEST(Config, IgnoresANonsensicalVariableOfNcclWithAWarning) {
  const Config config = load({{"NCCL_DEBUG", "LOUD"},
                              {"NCCL_SOCKET_FAMILY", "AF_UNIX"},
                              {"NCCL_SOCKET_IFNAME", "a name"},
                              {"NCCL_OOB_NET_IFNAME", "=^eth0"},
                              {"NCCL_COMM_ID", "node0:99999"}})
                            .value();
  EXPECT_EQ(config.notes.warnings.size(), 5U);
  EXPECT_EQ(config.notes.warnings[2],
            "NCCL_OOB_NET_IFNAME==^eth0 is ignored: allowed is prefixes "
            "separated by commas; a leading = makes them whole names, a "
            "leading ^ excludes them; lo@127.0.1.1 makes an address a NIC of its own");
  Config expected;
  expected.notes = config.notes;
  EXPECT_EQ(config, expected);
}

TEST(Config, RemembersWhichVariableWasSet) {
  const Config config = load({{"NCCL_SOCKET_IFNAME", "eth"},
                              {"NCCL_COMM_ID", "h:1"},
                              {"R2CCL_OOB_IFNAME", "mgmt"},
                              {"R2CCL_SECRET", "0123456789abcdef"}})
                            .value();
  EXPECT_EQ(config.socket_ifname_variable, "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(config.comm_id_variable, "NCCL_COMM_ID");
  EXPECT_EQ(config.oob_ifname_variable, "R2CCL_OOB_IFNAME");
  EXPECT_EQ(config.notes.in_force,
            (std::vector<std::string>{"NCCL_SOCKET_IFNAME=eth", "R2CCL_OOB_IFNAME=mgmt",
                                      "NCCL_COMM_ID=h:1", "R2CCL_SECRET is set"}));
}

TEST(Config, FindsTheSettingThatAPersonMeant) {
  const std::map<std::string, std::string> warnings = {
      {"R2CCL_SOKCET_IFNAME", "did you mean R2CCL_SOCKET_IFNAME?"},
      {"R2CCL_CUTOF_S", "did you mean R2CCL_CUTOFF_S?"},
      {"R2CCL_SECRETFILE", "did you mean R2CCL_SECRET_FILE?"},
      {"R2CCL_INIT_TIMEOUT", "did you mean R2CCL_INIT_TIMEOUT_S?"},
      {"R2CCL_DEUBG", "did you mean R2CCL_DEBUG?"},
      {"R2CCL_NUMBER_OF_THREADS", "so it is ignored"},
      {"R2CCL_", "so it is ignored"},
      {"R2CCL_" + std::string(10'000, 'x'), "so it is ignored"}};
  for (const auto& [name, words] : warnings) {
    const std::string entry = name + "=the value";
    const char* environment[] = {"PATH=/bin", entry.c_str(), "R2CCL_ALGO=ring", "R2CCL_LAB=x"};
    const auto told = unknown_settings(environment);
    ASSERT_EQ(told.size(), 1U) << name;
    EXPECT_EQ(told.front().rfind(name + " is not a setting", 0), 0U) << told.front();
    EXPECT_NE(told.front().find(words), std::string::npos) << told.front();
    EXPECT_EQ(told.front().find("the value"), std::string::npos);
  }
  const char* nothing[] = {"NCCL_DEBUG=INFO", "XR2CCL_ALG=ring", "R2CCL=1"};
  EXPECT_TRUE(unknown_settings(nothing).empty());
}

TEST(Config, SaysThatAPortIsOutOfRange) {
  EXPECT_EQ(load({{"R2CCL_COMM_ID", "foo:99999"}}).status().message(),
            "R2CCL_COMM_ID=foo:99999: allowed is host:port with a port of 1 to 65535, an IPv6 "
            "address in brackets");
}

TEST(Config, NamesThePermittedValues) {
  EXPECT_EQ(load({{"R2CCL_ALGO", "tree"}}).status().message(),
            "R2CCL_ALGO=tree: allowed is one of auto, ring, hd, rd, hier, direct, nested, split, "
            "recursive_split, leaf, packed");
  EXPECT_EQ(load({{"R2CCL_CUTOFF_S", "0"}}).status().message(),
            "R2CCL_CUTOFF_S=0: allowed is whole seconds, 1 to 86400");
}

TEST(Config, NeverRepeatsASecret) {
  const auto config = load({{"R2CCL_SECRET", "tooshort"}});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().message().find("tooshort"), std::string::npos);
}

TEST(Config, TakesTheSecretFromTheVariableOrTheFile) {
  Config config;
  EXPECT_TRUE(load_secret(config).value().empty());
  config.secret = secret("0123456789abcdef");
  EXPECT_EQ(load_secret(config).value(), config.secret);
  config.secret_file = "/nonexistent/secret";
  EXPECT_EQ(
      load_secret(config).status().message(),
      "R2CCL_SECRET_FILE=/nonexistent/secret: cannot read the file: No such file or directory");
}

TEST(Config, RefusesTwoSecrets) {
  EXPECT_FALSE(load({{"R2CCL_SECRET", "0123456789abcdef"}, {"R2CCL_SECRET_FILE", "f"}}).ok());
}

TEST(ConfigurationDocument, HoldsTheTableAsTheProgramPrintsIt) {
  const auto root =
      std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
  std::ifstream file(root / "docs" / "configuration.md");
  ASSERT_TRUE(file) << "docs/configuration.md is missing";
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("\n" + configuration_table()), std::string::npos)
      << "docs/configuration.md must contain exactly this:\n"
      << configuration_table();
}

}  // namespace
}  // namespace r2ccl
