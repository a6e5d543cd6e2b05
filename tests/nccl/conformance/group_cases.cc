// irecv of several messages, and tags.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "conformance/case.h"
#include "conformance/transfers.h"

namespace conformance {
namespace {

using namespace r2ccl::nccl;

using Buffers = std::vector<std::unique_ptr<Memory>>;

Buffers make_buffers(const std::vector<size_t>& sizes) {
  Buffers buffers;
  for (const size_t size : sizes) buffers.push_back(std::make_unique<Memory>(size));
  return buffers;
}

void* post_group(Plugin& plugin, void* comm, const Buffers& buffers, std::vector<int> tags) {
  std::vector<void*> data;
  std::vector<size_t> sizes;
  for (const auto& buffer : buffers) {
    data.push_back(buffer->data());
    sizes.push_back(buffer->size());
  }
  void* request = nullptr;
  until("irecv of a group", [&] {
    succeed(plugin.receive(comm, static_cast<int>(tags.size()), data.data(), sizes.data(),
                           tags.data(), &request),
            "irecv of a group");
    return request != nullptr;
  });
  return request;
}

std::vector<int> finish_group(Plugin& plugin, void* request, size_t count) {
  std::vector<int> sizes(count, -1);
  until("test of a group", [&] {
    int done = 0;
    succeed(plugin.test(request, &done, sizes.data()), "test");
    return done != 0;
  });
  return sizes;
}

unsigned seed_of(unsigned round, int tag) {
  return round * 1000 + static_cast<unsigned>(tag) % 997;
}

// Sends a message of each tag in a random order, while as many groups are in flight as may be, and
// checks each byte.
void trade_groups(Plugin& plugin, const Ends& ends, const std::vector<int>& tags, size_t largest,
                  unsigned rounds, unsigned seed) {
  std::mt19937 random(seed);
  const auto size_of = [&](unsigned round, size_t i) { return (round * 977 + i * 7919) % largest; };
  std::vector<Buffers> targets;
  std::vector<void*> receives;
  Buffers sources;
  std::vector<void*> sends;
  std::vector<std::pair<unsigned, size_t>> order;
  for (unsigned round = 0; round < rounds; ++round) {
    targets.push_back(make_buffers(std::vector<size_t>(tags.size(), largest + round % 3)));
    receives.push_back(post_group(plugin, ends.receive, targets.back(), tags));
    for (size_t i = 0; i < tags.size(); ++i) order.emplace_back(round, i);
  }
  // The order within a tag stays.
  std::shuffle(order.begin(), order.end(), random);
  std::vector<unsigned> next(tags.size());
  for (const auto& [any, i] : order) {
    const unsigned round = next[i]++;
    sources.push_back(std::make_unique<Memory>(size_of(round, i)));
    sources.back()->fill(seed_of(round, tags[i]));
    sends.push_back(post_send(plugin, ends.send, *sources.back(), size_of(round, i), tags[i]));
  }
  for (unsigned round = 0; round < rounds; ++round) {
    const auto sizes = finish_group(plugin, receives[round], tags.size());
    for (size_t i = 0; i < tags.size(); ++i) {
      targets[round][i]->seal();
      CONFORMANCE_CHECK(static_cast<size_t>(sizes[i]) == size_of(round, i));
      CONFORMANCE_CHECK(targets[round][i]->has(seed_of(round, tags[i]), size_of(round, i)));
    }
  }
  for (void* send : sends) finish(plugin, send);
}

constexpr int kLowest = -2'147'483'647 - 1;

void receives_groups(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  const Ends other = connect(side, *plugin);
  trade_groups(*plugin, ends, {0, 1, 2, 3, 4, 5, 6, 7}, 50'000, 8, 1);
  trade_groups(*plugin, ends, {7, 3}, 300'000, 16, 2);
  trade_groups(*plugin, ends, {70'000, -1, 2'147'483'647, kLowest, 5}, 1000, 32, 3);
  trade_groups(*plugin, other, {5}, 1'000'000, 4, 4);
  trade_groups(*plugin, other, {1, 2, 3, 4, 5, 6, 7, 8}, 2'000'000, 1, 5);
  trade(*plugin, other, {0, 1000}, 1);
  close(*plugin, ends);
  close(*plugin, other);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// A tag whose message has no receive yet leaves the others their way, however many messages wait.
void lets_no_tag_block_another(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  constexpr size_t kWaiting = 31;
  Buffers small, large;
  std::vector<void*> sends;
  for (unsigned i = 0; i < kWaiting; ++i) {
    small.push_back(std::make_unique<Memory>(3000));
    large.push_back(std::make_unique<Memory>(500'000));
    small.back()->fill(i);
    large.back()->fill(i + 100);
    sends.push_back(post_send(*plugin, ends.send, *small.back(), 3000, 1));
    sends.push_back(post_send(*plugin, ends.send, *large.back(), 500'000, 2));
  }
  side.meet();
  for (int tag = 3; tag < 6; ++tag) {
    const auto buffers = make_buffers({200'000, 10});
    void* receive = post_group(*plugin, ends.receive, buffers, {tag, tag + 10});
    Memory source(200'000);
    source.fill(9);
    void* tenth = post_send(*plugin, ends.send, source, 10, tag + 10);
    void* whole = post_send(*plugin, ends.send, source, source.size(), tag);
    CONFORMANCE_CHECK((finish_group(*plugin, receive, 2) == std::vector<int>{200'000, 10}));
    CONFORMANCE_CHECK(buffers[0]->has(9, 200'000));
    finish(*plugin, whole);
    finish(*plugin, tenth);
  }
  for (unsigned i = 0; i < kWaiting; ++i) {
    const auto buffers = make_buffers({500'000, 3000});
    finish_group(*plugin, post_group(*plugin, ends.receive, buffers, {2, 1}), 2);
    CONFORMANCE_CHECK(buffers[0]->has(i + 100, 500'000) && buffers[1]->has(i, 3000));
  }
  for (void* send : sends) finish(*plugin, send);
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// Far more tags of several connections are in use than a link may have contexts that only its peer
// has opened, and the receives come late.
void takes_many_tags(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  std::vector<Ends> all;
  for (int i = 0; i < 5; ++i) all.push_back(connect(side, *plugin));
  constexpr int kTags = 40;
  for (int round = 0; round < 2; ++round) {
    Memory source(2000);
    source.fill(3);
    std::vector<void*> sends, receives;
    for (const Ends& ends : all) {
      for (int tag = 0; tag < kTags; ++tag) {
        sends.push_back(post_send(*plugin, ends.send, source, 2000, tag * 7));
      }
    }
    if (round == 0) side.meet();
    std::vector<Buffers> targets;
    for (const Ends& ends : all) {
      for (int tag = kTags; tag > 0; tag -= 2) {
        targets.push_back(make_buffers({2000, 2500}));
        receives.push_back(
            post_group(*plugin, ends.receive, targets.back(), {(tag - 1) * 7, (tag - 2) * 7}));
      }
    }
    for (size_t i = 0; i < receives.size(); ++i) {
      finish_group(*plugin, receives[i], 2);
      for (const auto& target : targets[i]) CONFORMANCE_CHECK(target->has(3, 2000));
    }
    for (void* send : sends) finish(*plugin, send);
  }
  for (const Ends& ends : all) close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

// Either end is closed while groups are half there, and while the other one begins new tags.
void closes_groups_in_flight(Side& side, const Settings& settings) {
  const auto plugin = begin(settings);
  const Ends other = connect(side, *plugin);
  for (unsigned round = 0; round < 24; ++round) {
    const Ends ends = connect(side, *plugin);
    std::vector<Buffers> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(make_buffers({400'000, 100, 400'000, 0}));
      (void)post_group(*plugin, ends.receive, all.back(), {4, 3, 2, 1});
      all.push_back(make_buffers({400'000, 50}));
      (void)post_send(*plugin, ends.send, *all.back()[0], 400'000, 4);
      (void)post_send(*plugin, ends.send, *all.back()[1], 50, 3);
    }
    if (round % 3 == 0) side.meet();
    const auto send_with_new_tags = [&] {
      for (int tag = 100; tag < 110; ++tag) {
        (void)post_send(*plugin, ends.send, *all[1][0], round % 2 == 0 ? 10 : 400'000, tag);
      }
    };
    if (round % 4 == 0) send_with_new_tags();
    succeed(plugin->close_receive(ends.receive), "closeRecv");
    if (round % 6 == 3) side.meet();
    if (round % 4 != 0) send_with_new_tags();
    succeed(plugin->close_send(ends.send), "closeSend");
    all.clear();
    trade_groups(*plugin, other, {1, 2, 3}, 10'000, 2, round);
  }
  close(*plugin, other);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

void receives_groups_through_faults(Side& side, const Settings& settings) {
  Faults faults(side);
  const auto plugin = begin(settings);
  const Ends ends = connect(side, *plugin);
  trade_groups(*plugin, ends, {1, 2}, 500'000, 1, 1);
  for (unsigned round = 0; round < 12; ++round) {
    if (round % 4 == 1) faults.set(round / 4 + 1, "hole");
    if (round % 4 == 3) faults.set(round / 4 + 1, round < 8 ? "" : "delay 20");
    trade_groups(*plugin, ends, {1, 2, 3, 4, 5, 6, 7, 8}, 60'000, 4, round);
  }
  close(*plugin, ends);
  succeed(plugin->finalize(), "finalize");
  expect_no_warning();
}

}  // namespace

std::vector<Case> group_cases() {
  return {{"receives_groups", receives_groups, {}, Runs::on_each_table_and_transport},
          {"lets_no_tag_block_another", lets_no_tag_block_another, {}, Runs::on_core},
          {"takes_many_tags", takes_many_tags, {}, Runs::on_core},
          {"closes_groups_in_flight", closes_groups_in_flight, {}, Runs::on_core},
          {"receives_groups_through_faults", receives_groups_through_faults, {}, Runs::on_core}};
}

}  // namespace conformance
