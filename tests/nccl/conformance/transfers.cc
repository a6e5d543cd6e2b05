#include "conformance/transfers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace conformance {
namespace {

using r2ccl::nccl::kSuccess;

constexpr size_t kPage = 4096;

// The bytes depend on their place, so that a chunk in a wrong place is found.
uint64_t word(unsigned seed, size_t at) {
  return (at + 1) * 0x9e37'79b9'7f4a'7c15ULL ^ (seed * 0xbf58'476d'1ce4'e5b9ULL);
}

}  // namespace

Memory::Memory(size_t bytes) : pages_((bytes / kPage + 1) * kPage), size_(bytes) {
  void* mapped = mmap(nullptr, pages_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CONFORMANCE_CHECK(mapped != MAP_FAILED);
  mapped_ = static_cast<std::byte*>(mapped);
  CONFORMANCE_CHECK(mprotect(mapped_ + kPage, pages_, PROT_READ | PROT_WRITE) == 0);
  // The end of the buffer is that of its last page.
  data_ = mapped_ + kPage + pages_ - bytes;
}

Memory::~Memory() {
  munmap(mapped_, pages_ + 2 * kPage);
}

void Memory::fill(unsigned seed) {
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= size_; at += sizeof(uint64_t)) {
    const uint64_t bytes = word(seed, at);
    std::memcpy(data_ + at, &bytes, sizeof bytes);
  }
  const uint64_t last = word(seed, at);
  if (at < size_) std::memcpy(data_ + at, &last, size_ - at);
}

bool Memory::has(unsigned seed, size_t bytes) const {
  size_t at = 0;
  for (; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t expected = word(seed, at);
    const size_t count = std::min(sizeof expected, bytes - at);
    if (std::memcmp(data_ + at, &expected, count) != 0) return false;
  }
  for (at = bytes; at < size_; ++at) {
    if (data_[at] != std::byte{0}) return false;
  }
  return true;
}

void Memory::seal() const {
  CONFORMANCE_CHECK(mprotect(mapped_ + kPage, pages_, PROT_READ) == 0);
}

void Memory::hide() const {
  CONFORMANCE_CHECK(mprotect(mapped_ + kPage, pages_, PROT_NONE) == 0);
}

std::unique_ptr<Plugin> begin(const Settings& settings) {
  auto plugin = load_plugin(settings.plugin, settings.version);
  succeed(plugin->init(), "init");
  int count = 0;
  succeed(plugin->devices(&count), "devices");
  CONFORMANCE_CHECK(count > 0);
  return plugin;
}

Ends connect(Side& side, Plugin& plugin) {
  Handle own{};
  void* listener = nullptr;
  succeed(plugin.listen(0, own.data(), &listener), "listen");
  const std::vector<std::byte> theirs = side.exchange(own);
  Handle handle{};
  CONFORMANCE_CHECK(theirs.size() == handle.size());
  std::copy(theirs.begin(), theirs.end(), handle.begin());
  Ends ends;
  until("connect and accept", [&] {
    if (ends.send == nullptr) succeed(plugin.connect(0, handle.data(), &ends.send), "connect");
    if (ends.receive == nullptr) succeed(plugin.accept(listener, &ends.receive), "accept");
    return ends.send != nullptr && ends.receive != nullptr;
  });
  succeed(plugin.close_listener(listener), "closeListen");
  return ends;
}

Ends connect_here(Plugin& from, Plugin& to) {
  Handle handle{};
  void* listener = nullptr;
  succeed(to.listen(0, handle.data(), &listener), "listen");
  Ends ends;
  until("connect and accept", [&] {
    if (ends.send == nullptr) succeed(from.connect(0, handle.data(), &ends.send), "connect");
    if (ends.receive == nullptr) succeed(to.accept(listener, &ends.receive), "accept");
    return ends.send != nullptr && ends.receive != nullptr;
  });
  succeed(to.close_listener(listener), "closeListen");
  return ends;
}

void close(Plugin& plugin, const Ends& ends) {
  succeed(plugin.close_send(ends.send), "closeSend");
  succeed(plugin.close_receive(ends.receive), "closeRecv");
}

void* post_send(Plugin& plugin, void* comm, const Memory& memory, size_t bytes, int tag) {
  void* request = nullptr;
  until("isend", [&] {
    succeed(plugin.send(comm, memory.data(), bytes, tag, &request), "isend");
    return request != nullptr;
  });
  return request;
}

void* post_receive(Plugin& plugin, void* comm, const Memory& memory, int tag, void* hint) {
  void* request = nullptr;
  until("irecv", [&] {
    void* data = memory.data();
    const size_t size = memory.size();
    request = hint;
    succeed(plugin.receive(comm, 1, &data, &size, &tag, &request), "irecv");
    return request != nullptr;
  });
  return request;
}

size_t finish(Plugin& plugin, void* request) {
  int size = -1;
  until("test", [&] {
    int done = 0;
    succeed(plugin.test(request, &done, &size), "test");
    return done != 0;
  });
  return static_cast<size_t>(size);
}

Outcome failure_of(Plugin& plugin, void* request) {
  Outcome outcome = kSuccess;
  until("a failure", [&] {
    int done = 0;
    outcome = plugin.test(request, &done, nullptr);
    CONFORMANCE_CHECK(done == 0);
    return outcome != kSuccess;
  });
  return outcome;
}

void trade(Plugin& plugin, const Ends& ends, const std::vector<size_t>& sizes, unsigned seed,
           size_t spare) {
  std::vector<std::unique_ptr<Memory>> sources, targets;
  std::vector<void*> sends, receives;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sources.push_back(std::make_unique<Memory>(sizes[i]));
    sources.back()->fill(seed + static_cast<unsigned>(i));
    targets.push_back(std::make_unique<Memory>(sizes[i] + spare));
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    receives.push_back(post_receive(plugin, ends.receive, *targets[i]));
    sends.push_back(post_send(plugin, ends.send, *sources[i], sizes[i]));
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    CONFORMANCE_CHECK(finish(plugin, sends[i]) == sizes[i]);
    CONFORMANCE_CHECK(finish(plugin, receives[i]) == sizes[i]);
    CONFORMANCE_CHECK(targets[i]->has(seed + static_cast<unsigned>(i), sizes[i]));
  }
}

Faults::Faults(const Side& side)
    : file_("conformance-faults-" + std::to_string(getpid())), host_(side.first() ? ".1" : ".2") {
  std::string nics;
  for (const char* rail : {"1", "2", "3"}) nics += std::string(",lo@127.0.") + rail + host_;
  setenv("R2CCL_SOCKET_IFNAME", nics.substr(1).c_str(), 1);
  setenv("R2CCL_HOST_ID", side.first() ? "first" : "second", 1);
  setenv("R2CCL_FAULT_FILE", file_.c_str(), 1);
}

Faults::~Faults() {
  std::remove(file_.c_str());
}

void Faults::set(unsigned nic, const std::string& words) const {
  const std::string written = file_ + ".new";
  std::ofstream(written) << "127.0." << nic << host_ << ' ' << words << '\n';
  CONFORMANCE_CHECK(std::rename(written.c_str(), file_.c_str()) == 0);
}

void expect_warning(const std::string& part) {
  std::string all;
  for (const std::string& line : take_warnings()) {
    if (line.find(part) != std::string::npos) return;
    all += "\n  " + line;
  }
  throw Failure("no WARN line has the words: " + part + all);
}

void expect_no_warning() {
  const auto lines = take_warnings();
  if (!lines.empty()) throw Failure("a WARN line: " + lines.front());
}

namespace {

size_t count_targets(const std::string& prefix) {
  size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(each.path(), error).string();
    if (!error && target.starts_with(prefix)) ++count;
  }
  return count;
}

}  // namespace

size_t count_sockets() {
  return count_targets("socket:");
}

size_t count_descriptors() {
  return count_targets("");
}

}  // namespace conformance
