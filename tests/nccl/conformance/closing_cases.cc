// closeSend, closeRecv and closeListen, also while messages are under way.
#include <poll.h>

#include "conformance/case.h"
#include "conformance/transfers.h"

namespace conformance {
namespace {

using namespace r2ccl::nccl;

constexpr size_t kBytes = 1 << 20;

// 32 messages each way are posted. Then NCCL takes back the registrations, closes everything and
// frees the memory, while the other process still posts or has closed first.
void closes_in_flight(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends other = connect(side, *plugin);
  for (unsigned round = 0; round < 6; ++round) {
    Handle handle{};
    void* listener = nullptr;
    succeed(plugin->listen(0, handle.data(), &listener), "listen");
    const Ends ends = connect(side, *plugin);
    std::vector<std::unique_ptr<Memory>> all;
    const auto post = [&](bool sends) {
      for (size_t i = 0; i < kRequestsMax; ++i) {
        all.push_back(std::make_unique<Memory>(kBytes));
        if (sends) (void)post_send(*plugin, ends.send, *all.back(), kBytes);
        if (!sends) (void)post_receive(*plugin, ends.receive, *all.back());
      }
    };
    // In some rounds only one end has posted.
    if (round != 2) post(true);
    if (round != 1) post(false);
    if (round % 2 == 0) side.meet();
    if (round == 4 && side.first()) poll(nullptr, 0, 20);
    for (const auto& memory : all) {
      succeed(plugin->deregister_memory(ends.send, memory->data()), "deregMr");
    }
    succeed(plugin->close_send(ends.send), "closeSend");
    succeed(plugin->close_receive(ends.receive), "closeRecv");
    succeed(plugin->close_listener(listener), "closeListen");
    all.clear();
    trade(*plugin, other, {100'000}, round);
  }
  close(*plugin, other);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// Neither end waits for the other one, and what was sent arrives.
void closes_one_end_after_the_other(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  for (int round = 0; round < 4; ++round) {
    const Ends ends = connect(side, *plugin);
    const Memory target(20'000);
    Memory source(20'000);
    source.fill(7);
    if (round < 2) {
      finish(*plugin, post_send(*plugin, ends.send, source, source.size()));
      succeed(plugin->close_send(ends.send), "closeSend");
      source.hide();
      if (round == 0) side.meet();
      void* receive = post_receive(*plugin, ends.receive, target);
      CONFORMANCE_CHECK(finish(*plugin, receive) == target.size());
      CONFORMANCE_CHECK(target.has(7, target.size()));
      succeed(plugin->close_receive(ends.receive), "closeRecv");
    } else {
      (void)post_receive(*plugin, ends.receive, target);
      succeed(plugin->close_receive(ends.receive), "closeRecv");
      if (round == 2) side.meet();
      // Whether the message arrives, is not said; that the process goes on, is.
      (void)post_send(*plugin, ends.send, source, source.size());
      succeed(plugin->close_send(ends.send), "closeSend");
    }
    side.meet();
  }
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// NCCL gives up connections that are half made.
void closes_what_was_never_accepted(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  for (unsigned round = 0; round < 4; ++round) {
    Handle own{};
    void* listener = nullptr;
    succeed(plugin->listen(0, own.data(), &listener), "listen");
    const auto theirs = side.exchange(own);
    Handle handle{};
    std::copy(theirs.begin(), theirs.end(), handle.begin());
    void* comm = nullptr;
    Outcome outcome = kSuccess;
    for (unsigned i = 0; i < 1 + round * 30 && comm == nullptr && outcome == kSuccess; ++i) {
      outcome = plugin->connect(0, handle.data(), &comm);
    }
    if (round % 2 == 0) side.meet();
    succeed(plugin->close_listener(listener), "closeListen");
    side.meet();
    until("connect or an error", [&] {
      if (comm == nullptr && outcome == kSuccess) {
        outcome = plugin->connect(0, handle.data(), &comm);
      }
      return comm != nullptr || outcome != kSuccess;
    });
    CONFORMANCE_CHECK(outcome == kSuccess || outcome == kRemoteError);
    if (comm != nullptr) succeed(plugin->close_send(comm), "closeSend");
    side.meet();
    (void)take_warnings();
    const Ends ends = connect(side, *plugin);
    trade(*plugin, ends, {1000}, round);
    close(*plugin, ends);
  }
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// The message has no receive before the process that sent it has closed everything and ended.
void delivers_before_the_end(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  Memory source(20'000);
  source.fill(1);
  if (side.first()) {
    finish(*plugin, post_send(*plugin, ends.send, source, source.size()));
    close(*plugin, ends);
    succeed(plugin->finalize(), "finalize");
    return;
  }
  side.expect_end();
  const Memory target(20'000);
  CONFORMANCE_CHECK(finish(*plugin, post_receive(*plugin, ends.receive, target)) == target.size());
  CONFORMANCE_CHECK(target.has(1, target.size()));
  expect_no_warning();
  CONFORMANCE_CHECK(failure_of(*plugin, post_receive(*plugin, ends.receive, target)) ==
                    kRemoteError);
  expect_warning("has closed all connections");
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
}

// The last word of a process that ends is that it has closed everything.
void ends_with_connections_open(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  static Ends ends;  // nobody frees them
  ends = connect(side, *plugin);
  trade(*plugin, ends, {1000}, 1);
  side.meet();
}

}  // namespace

std::vector<Case> closing_cases() {
  return {{"closes_in_flight", closes_in_flight, {}, Runs::on_core},
          {"closes_one_end_after_the_other", closes_one_end_after_the_other, {}, Runs::on_core},
          {"closes_what_was_never_accepted", closes_what_was_never_accepted, {}, Runs::on_core},
          {"delivers_before_the_end", delivers_before_the_end, {}, Runs::on_core},
          {"ends_with_connections_open", ends_with_connections_open, {}, Runs::on_core}};
}

}  // namespace conformance
