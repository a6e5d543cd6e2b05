#include "runtime/connection/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace r2ccl {
namespace {

// A directory with the files of a machine's control groups.
class CpuQuotaTest : public testing::Test {
 protected:
  CpuQuotaTest() {
    std::string name = testing::TempDir() + "r2ccl_quota_XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~CpuQuotaTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  bool found() const { return has_cpu_quota(root_); }

  std::string root_;
};

TEST_F(CpuQuotaTest, AMachineWithoutControlGroupsHasNone) {
  EXPECT_FALSE(found());
}

TEST_F(CpuQuotaTest, TheProcessesOwnGroupCounts) {
  write("/proc/self/cgroup", "0::/user.slice/job");
  write("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000");
  EXPECT_FALSE(found());
  write("/sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000");
  EXPECT_TRUE(found());
}

TEST_F(CpuQuotaTest, AGroupAboveItCounts) {
  write("/proc/self/cgroup", "0::/pods/pod7/main/worker");
  write("/sys/fs/cgroup/pods/pod7/main/worker/cpu.max", "max 100000");
  write("/sys/fs/cgroup/pods/cpu.max", "max 100000");
  EXPECT_FALSE(found());
  write("/sys/fs/cgroup/pods/pod7/cpu.max", "400000 100000");
  EXPECT_TRUE(found());
}

TEST_F(CpuQuotaTest, AGroupBesideItDoesNotCount) {
  write("/proc/self/cgroup", "0::/pods/pod7");
  write("/sys/fs/cgroup/pods/pod8/cpu.max", "400000 100000");
  write("/sys/fs/cgroup/pods/pod7/below/cpu.max", "400000 100000");
  EXPECT_FALSE(found());
}

TEST_F(CpuQuotaTest, AContainerSeesItsGroupAsTheRoot) {
  write("/proc/self/cgroup", "0::/");
  EXPECT_FALSE(found());
  write("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_TRUE(found());
}

TEST_F(CpuQuotaTest, AContainerMayHaveTheHostsNameOfItsGroup) {
  write("/proc/self/cgroup", "0::/docker/0123");
  write("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_TRUE(found());
}

TEST_F(CpuQuotaTest, TheFirstVersionsControllerCountsWithTheGroupsAboveIt) {
  write("/proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/slurm/job/step\n3:cpuset:/other");
  write("/sys/fs/cgroup/cpu/slurm/job/step/cpu.cfs_quota_us", "-1");
  write("/sys/fs/cgroup/cpu/other/cpu.cfs_quota_us", "50000");
  EXPECT_FALSE(found());
  write("/sys/fs/cgroup/cpu/slurm/job/cpu.cfs_quota_us", "50000");
  EXPECT_TRUE(found());
}

TEST_F(CpuQuotaTest, LinesOfAnotherFormAreSkipped) {
  write("/proc/self/cgroup", "nonsense\n0:\n0::relative\n:::");
  write("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_FALSE(found());
}

}  // namespace
}  // namespace r2ccl
