#include "tools/lab/lab_host.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <fstream>
#include <optional>

#include "tools/common/fd.h"
#include "tools/common/parse.h"

namespace r2ccl::tools {
namespace {

Status join(const std::string& path, int kind) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return system_error(path, errno);
  if (setns(fd.get(), kind) != 0) return system_error("cannot enter " + path, errno);
  return Status::ok_status();
}

Status mount_at(const char* source, const char* target, const char* type, unsigned long flags) {
  if (mount(source, target, type, flags, nullptr) == 0) return Status::ok_status();
  return system_error(std::string("mount on ") + target, errno);
}

// Mounts an own /dev/shm and /etc/hosts, and a /sys that shows this network namespace's interfaces.
Status make_mounts(const LabHostSettings& settings) {
  Fd cgroups(open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC));
  R2CCL_RETURN_IF_ERROR(mount_at("none", "/", nullptr, MS_REC | MS_SLAVE));
  R2CCL_RETURN_IF_ERROR(mount_at("sysfs", "/sys", "sysfs", 0));
  if (cgroups.valid()) {
    // CPU quotas stay visible; a machine without cgroups has none.
    std::string from = "/proc/self/fd/" + std::to_string(cgroups.get());
    (void)mount(from.c_str(), "/sys/fs/cgroup", nullptr, MS_BIND | MS_REC, nullptr);
  }
  R2CCL_RETURN_IF_ERROR(mount_at("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV));
  return mount_at(settings.hosts_file.c_str(), "/etc/hosts", nullptr, MS_BIND);
}

// As in common netlab setups: several NICs of one host must not answer ARP for each other.
Status tune_network(const LabHostSettings& settings) {
  R2CCL_RETURN_IF_ERROR(write_sysctl("ipv4/tcp_congestion_control", settings.congestion));
  R2CCL_RETURN_IF_ERROR(write_sysctl("ipv4/conf/all/arp_ignore", "1"));
  R2CCL_RETURN_IF_ERROR(write_sysctl("ipv4/conf/all/arp_announce", "2"));
  R2CCL_RETURN_IF_ERROR(write_sysctl("ipv4/conf/all/rp_filter", "0"));
  R2CCL_RETURN_IF_ERROR(write_sysctl("ipv4/conf/default/rp_filter", "0"));
  if (!settings.ipv6) {
    // A kernel without IPv6 has no such file and needs no switch.
    (void)write_sysctl("ipv6/conf/all/disable_ipv6", "1");
    return Status::ok_status();
  }
  for (const char* scope : {"all", "default"}) {
    std::string base = std::string("ipv6/conf/") + scope;
    R2CCL_RETURN_IF_ERROR(write_sysctl(base + "/disable_ipv6", "0"));
    R2CCL_RETURN_IF_ERROR(write_sysctl(base + "/accept_dad", "0"));
    R2CCL_RETURN_IF_ERROR(write_sysctl(base + "/accept_ra", "0"));
  }
  return Status::ok_status();
}

Status become_host(const LabHostSettings& settings) {
  R2CCL_RETURN_IF_ERROR(join(settings.netns_path, CLONE_NEWNET));
  if (unshare(CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWIPC) != 0) {
    return system_error("cannot make namespaces", errno);
  }
  if (sethostname(settings.host_name.data(), settings.host_name.size()) != 0) {
    return system_error("sethostname", errno);
  }
  R2CCL_RETURN_IF_ERROR(make_mounts(settings));
  return tune_network(settings);
}

// Runs the holder, which keeps nothing of the process that made it: no terminal, directory or
// descriptor.
[[noreturn]] void hold(const LabHostSettings& settings, Fd report) {
  setsid();
  signal(SIGHUP, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // `down` sends SIGTERM
  Status status = become_host(settings);
  if (!status.ok()) {
    const std::string& text = status.message();
    [[maybe_unused]] ssize_t ignored = write(report.get(), text.data(), text.size());
    _exit(1);
  }
  [[maybe_unused]] int ignored_dir = chdir("/");
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  if (null > 2) close(null);
  // The exec closes `report`, which tells the parent that the host is ready.
  std::string title = "r2ccl-lab:" + settings.netns_path.substr(settings.netns_path.rfind('/') + 1);
  close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  execlp("sleep", title.c_str(), "infinity", nullptr);
  const char text[] = "the program 'sleep' is missing: install the package coreutils";
  [[maybe_unused]] ssize_t ignored = write(report.get(), text, sizeof text - 1);
  _exit(1);
}

// Also tells directories apart.
struct NamespaceId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const NamespaceId&, const NamespaceId&) = default;
};

std::optional<NamespaceId> namespace_id(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return NamespaceId{info.st_dev, info.st_ino};
}

std::string proc_file(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// Returns whether this process is in a chroot. A process that enters a mount namespace leaves its
// chroot, so it would find none of the files named here.
bool in_chroot() {
  const auto before = namespace_id("/");
  return join("/proc/self/ns/mnt", CLONE_NEWNS).ok() && namespace_id("/") != before;
}

}  // namespace

Status may_make_namespaces() {
  enum { kMayMake, kMayNot, kChroot };
  pid_t pid = fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid == 0) {
    const bool made = unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) == 0;
    _exit(!made ? kMayNot : in_chroot() ? kChroot : kMayMake);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return Status::ok_status();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kChroot) {
    return {Code::system,
            "this is a chroot, which a process leaves when it enters a host of the lab: run this "
            "command outside of it, or in a container"};
  }
  return {Code::system,
          geteuid() == 0
              ? "this root user may not make network namespaces: the container lacks the "
                "capabilities SYS_ADMIN and NET_ADMIN (docker run --privileged has them)"
              : "making network namespaces needs root: run this command with sudo"};
}

Result<pid_t> start_lab_host(const LabHostSettings& settings) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe", errno);
  Fd from_child(ends[0]), to_parent(ends[1]);
  pid_t pid = fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid == 0) hold(settings, std::move(to_parent));
  to_parent.reset();
  std::string text;
  char buffer[512];
  ssize_t n = 0;
  while ((n = read(from_child.get(), buffer, sizeof buffer)) != 0) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  if (text.empty()) return pid;
  waitpid(pid, nullptr, 0);
  return Status(Code::system, settings.host_name + ": " + text);
}

Status enter_lab_host(pid_t holder) {
  char cwd[PATH_MAX] = "/";
  [[maybe_unused]] char* known = getcwd(cwd, sizeof cwd);
  // One pidfd names all namespaces at once, and never refers to another process later.
  Fd process(static_cast<int>(syscall(SYS_pidfd_open, holder, 0)));
  constexpr int kAll = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS;
  if (!process.valid() || setns(process.get(), kAll) != 0) {
    return system_error("cannot enter the host", errno);
  }
  if (chdir(cwd) != 0) return system_error(cwd, errno);
  return Status::ok_status();
}

Status write_sysctl(const std::string& name, const std::string& value) {
  std::string path = "/proc/sys/net/" + name;
  Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return system_error(path, errno);
  ssize_t n = write(fd.get(), value.data(), value.size());
  if (n != static_cast<ssize_t>(value.size())) {
    return system_error("cannot set " + path + " to " + value, errno);
  }
  return Status::ok_status();
}

Status silence_fabric(const std::string& netns_path) {
  pid_t pid = fork();
  if (pid < 0) return system_error("fork", errno);
  if (pid == 0) {
    bool entered = join(netns_path, CLONE_NEWNET).ok();
    if (entered) (void)write_sysctl("ipv6/conf/default/disable_ipv6", "1");
    if (entered) (void)write_sysctl("ipv6/conf/all/disable_ipv6", "1");
    _exit(entered ? 0 : 1);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return Status::ok_status();
  return {Code::system, "cannot enter the fabric's namespace " + netns_path};
}

Status allow_congestion(const std::string& name) {
  auto words = [](const char* file) {
    std::ifstream in(std::string("/proc/sys/net/ipv4/") + file);
    std::string text;
    std::getline(in, text);
    return text;
  };
  auto has = [&](const std::string& text) {
    return (" " + text + " ").find(" " + name + " ") != std::string::npos;
  };
  std::string allowed = words("tcp_allowed_congestion_control");
  if (has(allowed)) return Status::ok_status();
  std::string available = words("tcp_available_congestion_control");
  if (!has(available)) {
    return {Code::invalid_argument,
            "TCP congestion control '" + name + "': this kernel offers " + available};
  }
  // Requires exactly one blank between names: the kernel takes an empty word for the end of the
  // list.
  return write_sysctl("ipv4/tcp_allowed_congestion_control", allowed + " " + name);
}

bool is_in_namespace(pid_t pid, const std::string& netns_path) {
  auto wanted = namespace_id(netns_path);
  return wanted && namespace_id(proc_file(pid, "ns/net")) == wanted;
}

std::vector<pid_t> processes_in(const std::string& netns_path) {
  std::vector<pid_t> found;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return found;
  while (dirent* entry = readdir(proc)) {
    std::optional<int> pid = parse_int(entry->d_name);
    if (pid && is_in_namespace(*pid, netns_path)) found.push_back(*pid);
  }
  closedir(proc);
  return found;
}

}  // namespace r2ccl::tools
