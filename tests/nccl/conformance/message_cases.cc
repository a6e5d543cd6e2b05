// isend, irecv, iflush and test.
#include <algorithm>
#include <array>
#include <random>

#include "base/limits.h"
#include "conformance/case.h"
#include "conformance/transfers.h"

namespace conformance {
namespace {

using namespace r2ccl::nccl;

constexpr size_t kMessageMax = r2ccl::limits::kMessageBytesMax;

void carries_sizes(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  trade(*plugin, ends, {0, 1, 7, 4096, 65'536, 1'000'003, 0}, 1);
  trade(*plugin, ends, {0, 1, 7, 4096, 65'536, 1'000'003, 0}, 2, 0);
  trade(*plugin, ends, {kMessageMax}, 3, 0);
  trade(*plugin, ends, {5, 0, 1000}, 4, 1 << 20);
  void* request = kOptional;
  const Memory memory(64);
  succeed(plugin->flush(ends.receive, memory.data(), 64, &request), "iflush");
  if (request != nullptr) finish(*plugin, request);
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// As many as NCCL may have in flight each way, and one more is told to come again.
void carries_32_at_once(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  std::mt19937 random(side.first() ? 1 : 2);
  for (unsigned round = 0; round < 12; ++round) {
    std::vector<std::unique_ptr<Memory>> targets;
    std::vector<void*> receives, sends;
    std::vector<size_t> sizes(kRequestsMax);
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = (i * 7919 * (round + 1)) % 90'000;
    std::vector<std::unique_ptr<Memory>> sources;
    for (size_t i = 0; i < sizes.size(); ++i) {
      targets.push_back(std::make_unique<Memory>(90'000));
      sources.push_back(std::make_unique<Memory>(sizes[i]));
      sources[i]->fill(round * 100 + static_cast<unsigned>(i));
      receives.push_back(post_receive(*plugin, ends.receive, *targets[i]));
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      sends.push_back(post_send(*plugin, ends.send, *sources[i], sizes[i]));
    }
    // The ends of requests are seen in any order.
    std::vector<size_t> order(2 * sizes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    if (round == 0) std::sort(order.rbegin(), order.rend());
    for (const size_t i : order) {
      const size_t at = i % sizes.size();
      CONFORMANCE_CHECK(finish(*plugin, i < sizes.size() ? sends[at] : receives[at]) == sizes[at]);
      if (i < sizes.size()) {
        sources[at]->hide();
      } else {
        targets[at]->seal();
      }
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      CONFORMANCE_CHECK(targets[i]->has(round * 100 + static_cast<unsigned>(i), sizes[i]));
    }
  }
  std::vector<void*> receives;
  const Memory target(10);
  for (size_t i = 0; i < kRequestsMax; ++i) {
    receives.push_back(post_receive(*plugin, ends.receive, target));
  }
  void* request = &request;
  void* data = target.data();
  const size_t size = target.size();
  int tag = 0;
  succeed(plugin->receive(ends.receive, 1, &data, &size, &tag, &request), "irecv of one too many");
  CONFORMANCE_CHECK(request == nullptr);
  for (size_t i = 0; i < kRequestsMax; ++i)
    finish(*plugin, post_send(*plugin, ends.send, target, 10));
  for (void* each : receives) finish(*plugin, each);
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// NCCL may not want to know the size, nor that a receive has ended.
void takes_null_sizes_and_hints(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  const auto finish_without_size = [&](void* request) {
    until("test without sizes", [&] {
      int done = 0;
      succeed(plugin->test(request, &done, nullptr), "test");
      return done != 0;
    });
  };
  Memory source(5000);
  source.fill(1);
  for (int round = 0; round < 100; ++round) {
    const Memory target(6000);
    void* receive = post_receive(*plugin, ends.receive, target, 0,
                                 plugin->has_hint() && round % 2 == 0 ? kOptional : nullptr);
    finish_without_size(post_send(*plugin, ends.send, source, 5000));
    CONFORMANCE_CHECK(receive != kOptional);
    finish_without_size(receive);
    CONFORMANCE_CHECK(target.has(1, 5000));
  }
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// A NIC is silent for a while, or slow: chunks are sent twice, and late copies come
// after the end of a receive.
void changes_no_byte_after_the_end(Side& side, const Settings& settings) {
  const Faults faults(side);
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  std::vector<std::unique_ptr<Memory>> ended;
  trade(*plugin, ends, {1'000'000}, 0);
  for (unsigned round = 0; round < 60; ++round) {
    if (round % 20 == 4) faults.set(round / 20 + 1, "hole");
    if (round % 20 == 14) faults.set(round / 20 + 1, round < 40 ? "" : "delay 20");
    Memory source(400'000);
    source.fill(round);
    ended.push_back(std::make_unique<Memory>(400'000));
    void* receive = post_receive(*plugin, ends.receive, *ended.back());
    void* send = post_send(*plugin, ends.send, source, source.size());
    CONFORMANCE_CHECK(finish(*plugin, receive) == source.size());
    ended.back()->seal();  // a late copy would end this process
    finish(*plugin, send);
    source.hide();
  }
  faults.set(1, "");
  trade(*plugin, ends, {1'000'000}, 0);
  for (unsigned round = 0; round < ended.size(); ++round) {
    CONFORMANCE_CHECK(ended[round]->has(round, 400'000));
  }
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

void refuses_bad_requests(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  const Memory memory(100);
  void* request = nullptr;
  CONFORMANCE_CHECK(plugin->send(ends.send, memory.data(), kMessageMax + 1, 0, &request) ==
                    kInvalidArgument);
  CONFORMANCE_CHECK(request == nullptr);
  expect_warning("16777217 bytes");
  std::array<void*, 9> data{};
  std::array<size_t, 9> sizes{};
  std::array<int, 9> tags{};
  data.fill(memory.data());
  for (const int count : {0, 9}) {
    CONFORMANCE_CHECK(plugin->receive(ends.receive, count, data.data(), sizes.data(), tags.data(),
                                      &request) == kInvalidArgument);
    CONFORMANCE_CHECK(request == nullptr);
    expect_warning("irecv");
  }
  void* registered = nullptr;
  succeed(plugin->register_memory(ends.send, memory.data(), 100, kPointerHost, &registered),
          "regMr");
  succeed(plugin->deregister_memory(ends.send, registered), "deregMr");
  constexpr int kPointerCuda = 2;
  CONFORMANCE_CHECK(plugin->register_memory(ends.send, memory.data(), 100, kPointerCuda,
                                            &registered) != kSuccess);
  expect_warning("regMr");
  trade(*plugin, ends, {1000}, 1);
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// NCCL never does it; the other connections of the link go on.
void refuses_a_message_larger_than_its_receive(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends other = connect(side, *plugin);
  for (const size_t size : {size_t{1000}, size_t{3'000'000}}) {
    const Ends ends = connect(side, *plugin);
    const Memory source(size), target(10);
    void* receive = post_receive(*plugin, ends.receive, target);
    (void)post_send(*plugin, ends.send, source, size);
    CONFORMANCE_CHECK(failure_of(*plugin, receive) == kInvalidUsage);
    expect_warning("larger");
    trade(*plugin, other, {5000}, 1);
    side.meet();
    close(*plugin, ends);
  }
  trade(*plugin, other, {5000}, 2);
  close(*plugin, other);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

}  // namespace

std::vector<Case> message_cases() {
  return {
      {"carries_sizes", carries_sizes, {}, Runs::on_each_table_and_transport},
      {"carries_32_at_once", carries_32_at_once, {}, Runs::on_each_table_and_transport},
      {"takes_null_sizes_and_hints",
       takes_null_sizes_and_hints,
       {},
       Runs::on_each_table_and_transport},
      {"changes_no_byte_after_the_end", changes_no_byte_after_the_end},
      {"refuses_bad_requests", refuses_bad_requests},
      {"refuses_a_message_larger_than_its_receive",
       refuses_a_message_larger_than_its_receive,
       {},
       Runs::on_core},
  };
}

}  // namespace conformance
