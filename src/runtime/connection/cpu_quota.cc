#include "runtime/connection/cpu_quota.h"

#include <fstream>
#include <string_view>

namespace r2ccl {
namespace {

// A hierarchy of groups: where it is mounted, and the file and the word that say "no quota".
struct Hierarchy {
  std::string mount;
  const char* file;
  std::string_view unlimited;
};

Hierarchy version_2(const std::string& root) {
  return {root + "/sys/fs/cgroup", "/cpu.max", "max"};
}

Hierarchy version_1(const std::string& root) {
  return {root + "/sys/fs/cgroup/cpu", "/cpu.cfs_quota_us", "-1"};
}

bool has_quota(const Hierarchy& groups, const std::string& group) {
  std::ifstream file(groups.mount + group + groups.file);
  std::string word;
  file >> word;
  return !word.empty() && word != groups.unlimited;
}

// A container may show its group by the host's name, under a mount that begins at the group itself.
// The names that do not exist there are skipped, and the mount's own file is the group's.
bool has_quota_up_to_root(const Hierarchy& groups, std::string group) {
  while (!group.empty()) {
    if (has_quota(groups, group)) return true;
    group.resize(group.rfind('/'));
  }
  return has_quota(groups, "");
}

bool lists_cpu(std::string_view controllers) {
  const std::string list = "," + std::string(controllers) + ",";
  return list.find(",cpu,") != std::string::npos;
}

}  // namespace

bool has_cpu_quota(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  // Each line is "number:controllers:/group"; that of cgroup v2 has no controllers.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty() && has_quota_up_to_root(version_2(root), group)) return true;
    if (lists_cpu(controllers) && has_quota_up_to_root(version_1(root), group)) return true;
  }
  return false;
}

}  // namespace r2ccl
