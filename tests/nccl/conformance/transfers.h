// The parts of which cases are made: connections between the two processes, buffers, and messages.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "conformance/case.h"
#include "conformance/plugin.h"

namespace conformance {

using Handle = std::array<std::byte, r2ccl::nccl::kHandleBytes>;

// Memory of its own pages, before and behind which none is mapped.
class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  void fill(unsigned seed);
  // Returns whether the first bytes are those of fill(seed), and the others are untouched.
  bool has(unsigned seed, size_t bytes) const;
  // From here on a write ends the process; after hide() a read does, too.
  void seal() const;
  void hide() const;

 private:
  size_t pages_ = 0;  // bytes of whole pages, without the two at the ends
  size_t size_ = 0;
  std::byte* mapped_ = nullptr;
  std::byte* data_ = nullptr;
};

// Calls `holds` again and again until it does. Fails after a time that no idle machine is needed
// for.
template <typename Holds>
void until(const char* what, Holds&& holds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(40);
  while (!holds()) {
    if (Clock::now() > deadline) throw Failure(std::string("it takes too long: ") + what);
  }
}

// Loads the plugin and begins, as NCCL does.
std::unique_ptr<Plugin> begin(const Settings& settings);

// Both ends at this process: it sends to the other one, and receives from it.
struct Ends {
  void* send = nullptr;
  void* receive = nullptr;
};
Ends connect(Side& side, Plugin& plugin);
// Connects the process to itself, or to another plugin in it.
Ends connect_here(Plugin& from, Plugin& to);
void close(Plugin& plugin, const Ends& ends);

// Posts, again while the plugin is busy.
void* post_send(Plugin& plugin, void* comm, const Memory& memory, size_t bytes, int tag = 0);
void* post_receive(Plugin& plugin, void* comm, const Memory& memory, int tag = 0,
                   void* hint = nullptr);
// Waits for a request, and returns the size of its message.
size_t finish(Plugin& plugin, void* request);
// Tests until the request fails. Returns the error.
Outcome failure_of(Plugin& plugin, void* request);

// Sends one message of each size and receives as many, at most 32, and checks every byte. Receives
// have `spare` bytes more than their messages. Both processes call it with the same sizes.
void trade(Plugin& plugin, const Ends& ends, const std::vector<size_t>& sizes, unsigned seed,
           size_t spare = 64);

// Faults of one's own three NICs, which are addresses of the loopback; the two processes stand for
// two hosts. It must be there before begin().
class Faults {
 public:
  explicit Faults(const Side& side);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  // `words`: as docs/lab.md has them; empty: no NIC has a fault. `nic`: from 1 on.
  void set(unsigned nic, const std::string& words) const;

 private:
  const std::string file_;
  const std::string host_;
};

// Checks that there are such lines of level WARN, or that there is none.
void expect_warning(const std::string& part);
void expect_no_warning();

// Descriptors of this process that are sockets, or all of them.
size_t count_sockets();
size_t count_descriptors();

}  // namespace conformance
