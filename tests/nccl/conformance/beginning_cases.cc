// init, devices, properties and finalize, in the orders in which NCCL calls them, and a plugin that
// cannot begin.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <set>

#include "conformance/case.h"
#include "conformance/transfers.h"

namespace conformance {
namespace {

using namespace r2ccl::nccl;

void has_properties(Side&, const Settings& settings) {
  const auto plugin = begin(settings);
  int count = 0;
  succeed(plugin->devices(&count), "devices");
  std::set<std::string> names;
  for (int device = 0; device < count; ++device) {
    Properties properties;
    succeed(plugin->properties(device, &properties), "getProperties");
    names.insert(properties.name);
    CONFORMANCE_CHECK((properties.pointers & kPointerHost) != 0);
    CONFORMANCE_CHECK(properties.speed > 0 && properties.comms_max > 0);
    CONFORMANCE_CHECK(properties.receives_max >= 1 && properties.receives_max <= 8);
    CONFORMANCE_CHECK(properties.device_type == 0);
    const bool says_size = settings.version >= 9;
    CONFORMANCE_CHECK(says_size == (properties.message_max > 0));
    CONFORMANCE_CHECK(properties.message_max <= size_t{1} << 40);
  }
  CONFORMANCE_CHECK(names.size() == static_cast<size_t>(count));
  expect_no_warning();
  for (const int device : {-1, count}) {
    Properties properties;
    CONFORMANCE_CHECK(plugin->properties(device, &properties) == kInvalidArgument);
    expect_warning("device");
    std::array<std::byte, kHandleBytes> handle{};
    void* made = nullptr;
    CONFORMANCE_CHECK(plugin->listen(device, handle.data(), &made) == kInvalidArgument);
    expect_warning("device");
    CONFORMANCE_CHECK(plugin->connect(device, handle.data(), &made) == kInvalidArgument);
    expect_warning("device");
  }
  succeed(plugin->finalize(), "finalize");
}

// NCCL begins once for each communicator from version 11 on, and may end what it has not begun.
void ends_in_any_order(Side& side, const Settings& settings) {
  const auto plugin = load_plugin(settings.plugin, settings.version);
  succeed(plugin->finalize(), "finalize before init");
  succeed(plugin->init(), "init");
  succeed(plugin->init(), "a second init");
  const Ends ends = connect(side, *plugin);
  succeed(plugin->finalize(), "finalize");
  trade(*plugin, ends, {1000, 100'000}, 1);
  for (int i = 0; i < 3; ++i) succeed(plugin->finalize(), "finalize");  // more often than begun
  trade(*plugin, ends, {1000}, 2);
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  side.meet();
  succeed(plugin->init(), "init after finalize");
  const Ends again = connect(side, *plugin);
  trade(*plugin, again, {1000}, 3);
  close(*plugin, again);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// After that each call of NCCL's is an error, and no crash.
void fails_without_devices(Side&, const Settings& settings) {
  const auto plugin = load_plugin(settings.plugin, settings.version);
  int count = 0;
  CONFORMANCE_CHECK(plugin->devices(&count) != kSuccess);
  for (int i = 0; i < 2; ++i) {
    CONFORMANCE_CHECK(plugin->init() != kSuccess);
    expect_warning("matches no interface");
    CONFORMANCE_CHECK(plugin->devices(&count) != kSuccess);
    expect_warning("devices");
    Properties properties;
    CONFORMANCE_CHECK(plugin->properties(0, &properties) != kSuccess);
    Handle handle{};
    void* comm = nullptr;
    CONFORMANCE_CHECK(plugin->listen(0, handle.data(), &comm) != kSuccess);
    CONFORMANCE_CHECK(plugin->connect(0, handle.data(), &comm) != kSuccess);
    succeed(plugin->finalize(), "finalize after a failed init");
  }
}

void fails_with_a_bad_setting(Side&, const Settings& settings) {
  const auto plugin = load_plugin(settings.plugin, settings.version);
  CONFORMANCE_CHECK(plugin->init() != kSuccess);
  expect_warning("R2CCL_CUTOFF_S");
  succeed(plugin->finalize(), "finalize after a failed init");
  setenv("R2CCL_CUTOFF_S", "300", 1);
  succeed(plugin->init(), "init with the setting mended");
  close(*plugin, connect_here(*plugin, *plugin));
  succeed(plugin->finalize(), "finalize");
}

// NCCL finds the library by its path or by its name; a second copy of the file is another plugin.
void loads_twice(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const auto again = load_plugin(settings.plugin, settings.version);
  const auto named =
      load_plugin(std::filesystem::path(settings.plugin).filename().string(), settings.version);
  for (Plugin* each : {again.get(), named.get()}) {
    succeed(each->init(), "init");
    const Ends ends = connect_here(*each, *plugin);
    succeed(plugin->close_send(ends.send), "closeSend of a connection of the same library");
    succeed(each->close_receive(ends.receive), "closeRecv of a connection of the same library");
  }
  const std::string copy =
      std::filesystem::temp_directory_path() / ("r2ccl-copy-" + std::to_string(getpid()) + ".so");
  std::filesystem::copy_file(settings.plugin, copy);
  Settings other = settings;
  other.plugin = copy;
  const auto copied = begin(other);
  std::filesystem::remove(copy);
  const Ends there = connect_here(*plugin, *copied);
  const Ends back = connect_here(*copied, *plugin);
  const Memory source(70'000), target(70'000);
  void* receive = post_receive(*copied, there.receive, target);
  finish(*plugin, post_send(*plugin, there.send, source, source.size()));
  CONFORMANCE_CHECK(finish(*copied, receive) == source.size());
  succeed(plugin->close_send(there.send), "closeSend");
  succeed(copied->close_receive(there.receive), "closeRecv");
  succeed(copied->close_send(back.send), "closeSend");
  succeed(plugin->close_receive(back.receive), "closeRecv");
  const Ends ends = connect(side, *copied);
  trade(*copied, ends, {1000}, 1);
  close(*copied, ends);
  for (Plugin* each : {plugin.get(), again.get(), named.get(), copied.get()}) {
    succeed(each->finalize(), "finalize");
  }
  expect_no_warning();
}

// A socket must not get their numbers, for the process prints into these.
void leaves_closed_standard_streams(Side& side, const Settings& settings) {
  constexpr int kStreams = 3;
  const int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
  for (int fd = 0; fd < kStreams; ++fd) ::close(fd);
  try {
    const auto plugin = begin(settings);
    const Ends ends = connect(side, *plugin);
    trade(*plugin, ends, {100, 1'000'000}, 1);
    for (int fd = 0; fd < kStreams; ++fd) CONFORMANCE_CHECK(fcntl(fd, F_GETFD) == -1);
    close(*plugin, ends);
    succeed(plugin->finalize(), "finalize");
    expect_no_warning();
  } catch (...) {
    dup2(kept, STDERR_FILENO);
    throw;
  }
  dup2(kept, STDERR_FILENO);
}

// Begins, connects to itself and sends, with so many descriptors more than are open.
void try_with_descriptors(const Settings& settings, size_t spare) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t before = limit.rlim_cur;
  const auto plugin = load_plugin(settings.plugin, settings.version);
  const auto set_limit = [&](rlim_t value) {
    limit.rlim_cur = value;
    CONFORMANCE_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  };
  set_limit(count_descriptors() + spare);
  if (plugin->init() != kSuccess) {
    expect_warning("init");
    set_limit(before);
    succeed(plugin->init(), "init with descriptors again");
  }
  set_limit(before);  // to count takes one, too
  set_limit(count_descriptors() + spare);
  Handle handle{};
  void* listener = nullptr;
  succeed(plugin->listen(0, handle.data(), &listener), "listen");
  Ends ends;
  Outcome outcome = kSuccess;
  until("connect or an error", [&] {
    if (ends.send == nullptr) outcome = plugin->connect(0, handle.data(), &ends.send);
    if (ends.receive == nullptr) succeed(plugin->accept(listener, &ends.receive), "accept");
    return outcome != kSuccess || (ends.send != nullptr && ends.receive != nullptr);
  });
  if (outcome != kSuccess) expect_warning("connect");
  set_limit(before);
  if (outcome == kSuccess) {
    trade(*plugin, ends, {1000, 100'000}, 1);
    close(*plugin, ends);
  }
  succeed(plugin->close_listener(listener), "closeListen");
  const Ends later = connect_here(*plugin, *plugin);
  trade(*plugin, later, {1000}, 2);
  close(*plugin, later);
  succeed(plugin->finalize(), "finalize");
}

// Each number in a process of its own, since the plugin begins once.
void bears_few_descriptors(Side& side, const Settings& settings) {
  for (size_t spare = side.first() ? 0 : 2; spare < 28; spare += 4) {
    const pid_t process = fork();
    if (process == 0) {
      try {
        try_with_descriptors(settings, spare);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "with %zu descriptors: %s\n", spare, error.what());
        std::exit(1);
      }
      std::exit(0);
    }
    int status = 0;
    CONFORMANCE_CHECK(waitpid(process, &status, 0) == process);
    CONFORMANCE_CHECK(status == 0);
  }
}

}  // namespace

std::vector<Case> beginning_cases() {
  return {{"has_properties", has_properties},
          {"ends_in_any_order", ends_in_any_order},
          {"fails_without_devices", fails_without_devices, {{"R2CCL_SOCKET_IFNAME", "=none"}}},
          {"fails_with_a_bad_setting", fails_with_a_bad_setting, {{"R2CCL_CUTOFF_S", "soon"}}},
          {"loads_twice", loads_twice},
          {"leaves_closed_standard_streams", leaves_closed_standard_streams, {}, Runs::on_core},
          {"bears_few_descriptors",
           bears_few_descriptors,
           {{"R2CCL_INIT_TIMEOUT_S", "1"}},
           Runs::on_core}};
}

}  // namespace conformance
