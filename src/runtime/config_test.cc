#include "runtime/config.h"

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
  expected.damping = false;
  expected.host_id = "rack 3 slot 7";
  expected.fault_file = "faults";
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
      {"R2CCL_HOST_ID", std::string(256, 'h')},
      {"NCCL_DEBUG", "LOUD"},
  };
  for (const auto& [name, value] : nonsense) {
    const auto config = load({{name, value}});
    ASSERT_FALSE(config.ok()) << name << "=" << value;
    EXPECT_EQ(config.status().code(), Code::invalid_argument);
    EXPECT_EQ(config.status().message().rfind(name + "=" + value + ": allowed is ", 0), 0u)
        << config.status().message();
  }
}

TEST(Config, SaysWhatIsAllowed) {
  EXPECT_EQ(load({{"R2CCL_ALGO", "tree"}}).status().message(),
            "R2CCL_ALGO=tree: allowed is one of auto, ring, hd");
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
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  std::ifstream file(root / "docs" / "configuration.md");
  ASSERT_TRUE(file) << "docs/configuration.md is missing";
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("\n" + configuration_table()), std::string::npos)
      << "docs/configuration.md must contain exactly this:\n"
      << configuration_table();
}

}  // namespace
}  // namespace r2ccl
