#include "nccl/device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace r2ccl::nccl {
namespace {

namespace fs = std::filesystem;

// A kernel's directory of NICs: eth0 and eth1 are the ports of one card, vf0 and vf1 virtual
// functions of one port, veth0 has no hardware.
class DevicesTest : public testing::Test {
 protected:
  DevicesTest() : root_(fs::path(testing::TempDir()) / ("devices" + std::to_string(getpid()))) {
    add("eth0", 100'000, "0000:3b:00.0", {{"dev_port", "0"}});
    add("eth1", 100'000, "0000:3b:00.0", {{"dev_port", "1"}});
    add("vf0", 25'000, "0000:5e:00.2", {{"phys_port_id", "0000000000000000a1b2c3d4e5f60708"}});
    add("vf1", 25'000, "0000:5e:00.3", {{"phys_port_id", "a1b2c3d4e5f60708"}});
    add("veth0", 0, "", {});
  }
  ~DevicesTest() override { fs::remove_all(root_); }

  std::vector<Device> describe(NcclDevices choice) {
    return describe_devices(nics_, choice, (root_ / "class").string());
  }

  std::vector<Nic> nics_;

 private:
  void add(const std::string& name, uint64_t mbps, const std::string& function,
           const std::vector<std::pair<std::string, std::string>>& files) {
    Nic nic;
    nic.name = name;
    nic.hardware[7] = static_cast<uint8_t>(nics_.size() + 1);
    nic.speed_mbps = mbps;
    nic.usable = true;
    nics_.push_back(nic);
    const fs::path folder = root_ / "class" / name;
    fs::create_directories(folder);
    for (const auto& [file, text] : files) std::ofstream(folder / file) << text << "\n";
    if (function.empty()) return;
    fs::create_directories(root_ / "pci" / function);
    fs::create_directory_symlink(root_ / "pci" / function, folder / "device");
  }

  const fs::path root_;
};

TEST_F(DevicesTest, HaveThePciPathPortAndSpeedOfTheirNics) {
  const auto devices = describe(NcclDevices::per_nic);
  ASSERT_EQ(devices.size(), 5u);
  EXPECT_EQ(devices[0].name, "eth0");
  EXPECT_EQ(devices[0].nic, "eth0");
  EXPECT_EQ(fs::path(devices[1].pci_path).filename(), "0000:3b:00.0");
  EXPECT_EQ(devices[0].port, 0);
  EXPECT_EQ(devices[1].port, 1);
  EXPECT_EQ(devices[1].speed_mbps, 100'000);
  EXPECT_EQ(devices[4].pci_path, "");
  EXPECT_EQ(devices[4].speed_mbps, 10'000) << "as NCCL takes an unknown speed";
}

// NCCL counts the bandwidth of devices with the same guid and port once.
TEST_F(DevicesTest, ShareAGuidWhereTheyShareAPort) {
  const auto devices = describe(NcclDevices::per_nic);
  EXPECT_EQ(devices[2].guid, 0xa1b2c3d4e5f60708u);
  EXPECT_EQ(devices[3].guid, devices[2].guid);
  EXPECT_NE(devices[0].guid, devices[1].guid);
  EXPECT_EQ(devices[4].guid, 5u) << "its address";
}

TEST_F(DevicesTest, LeaveOutNicsThatCarryNoData) {
  nics_[1].usable = false;
  const auto devices = describe(NcclDevices::per_nic);
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[1].name, "vf0");
}

TEST_F(DevicesTest, BecomeOneWithTheSumOfTheirSpeeds) {
  const auto devices = describe(NcclDevices::one);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "r2ccl");
  EXPECT_EQ(devices[0].nic, "") << "its connections prefer none";
  EXPECT_EQ(devices[0].speed_mbps, 260'000);
  EXPECT_EQ(devices[0].pci_path, "") << "it is near no GPU in particular";
}

}  // namespace
}  // namespace r2ccl::nccl
