// Test support: message ports between the ranks of one process. A seeded scheduler delivers
// receipts and acknowledgements in any order that is possible on a link. It is as hostile as the
// contract in message_port.h permits: it fills a posted receive with rubbish at once, and checks
// that the bytes of a send are unchanged at its delivery and at its acknowledgement.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "runtime/link/message_port.h"

namespace r2ccl {

class FakeNetwork {
 public:
  FakeNetwork(int32_t rank_count, uint64_t seed) : rank_count_(rank_count), random_(seed) {
    for (int32_t from = 0; from < rank_count; ++from) {
      for (int32_t to = 0; to < rank_count; ++to) {
        if (from != to) ports_[{from, to}] = std::make_unique<Port>(*this, Rank(from), Rank(to));
      }
    }
  }

  // Returns the ports for an executor of `self`.
  std::vector<MessagePort*> ports_of(Rank self) {
    std::vector<MessagePort*> ports;
    for (int32_t peer = 0; peer < rank_count_; ++peer) {
      ports.push_back(peer == self.value() ? nullptr : ports_[{self.value(), peer}].get());
    }
    return ports;
  }

  // Delivers one random pending event. Returns false when there is none.
  bool step() {
    if (events_.empty()) return false;
    const size_t chosen = std::uniform_int_distribution<size_t>(0, events_.size() - 1)(random_);
    std::swap(events_[chosen], events_.back());
    const std::function<void()> event = std::move(events_.back());
    events_.pop_back();
    event();
    return true;
  }
  void run() {
    while (step()) {
    }
  }

  uint64_t messages() const { return messages_; }

 private:
  struct Posted {
    std::span<const std::byte> source;
    std::span<std::byte> target;
    std::vector<std::byte> snapshot;  // copy of the source at the time of the post
    uint64_t context = 0;
    bool standing = false;
    bool fits(const Posted& receive) const {
      if (receive.standing) return source.size() <= receive.target.size();
      return context == receive.context && source.size() == receive.target.size();
    }
  };

  // One end of a channel: the messages that its owner has posted to one peer.
  struct End {
    MessageClient* client = nullptr;
    bool cancelled = false;
    std::deque<Posted> sends;
    std::deque<Posted> receives;
    size_t matched_sends = 0;  // sends of this end matched with receives of the peer
    size_t acknowledged = 0;   // number of sends
  };

  class Port final : public MessagePort {
   public:
    Port(FakeNetwork& network, Rank self, Rank peer)
        : network_(network), self_(self), peer_(peer) {}

    void open_channel(ChannelId channel, MessageClient& client, Rank) override {
      end(channel).client = &client;
    }
    MessageNo post_send(ChannelId channel, std::span<const std::byte> bytes,
                        uint64_t context) override {
      End& mine = end(channel);
      EXPECT_FALSE(mine.cancelled);
      EXPECT_LT(mine.sends.size() - mine.acknowledged, limits::kMessagesPostedMax);
      mine.sends.push_back({bytes, {}, {bytes.begin(), bytes.end()}, context});
      network_.match(channel, self_, peer_);
      return MessageNo(mine.sends.size() - 1);
    }
    MessageNo post_receive(ChannelId channel, std::span<std::byte> bytes,
                           uint64_t context) override {
      return post(channel, {{}, bytes, {}, context});
    }
    MessageNo post_standing_receive(ChannelId channel, std::span<std::byte> bytes) override {
      return post(channel, {{}, bytes, {}, kNoContext, true});
    }
    void release_send_buffers(ChannelId) override {}
    void cancel_channel(ChannelId channel) override { end(channel).cancelled = true; }

    End& end(ChannelId channel) { return ends_[channel]; }

   private:
    MessageNo post(ChannelId channel, const Posted& receive) {
      End& mine = end(channel);
      EXPECT_FALSE(mine.cancelled);
      std::fill(receive.target.begin(), receive.target.end(), std::byte{0xEE});
      mine.receives.push_back(receive);
      network_.match(channel, peer_, self_);
      return MessageNo(mine.receives.size() - 1);
    }

    FakeNetwork& network_;
    const Rank self_;
    const Rank peer_;
    std::map<ChannelId, End> ends_;
  };

  End& end(ChannelId channel, Rank self, Rank peer) {
    return ports_[{self.value(), peer.value()}]->end(channel);
  }

  void match(ChannelId channel, Rank from, Rank to) {
    End& sender = end(channel, from, to);
    const End& receiver = end(channel, to, from);
    while (sender.matched_sends < sender.sends.size() &&
           sender.matched_sends < receiver.receives.size()) {
      const size_t number = sender.matched_sends++;
      events_.push_back([=, this] { deliver(channel, from, to, number); });
    }
  }

  void deliver(ChannelId channel, Rank from, Rank to, size_t number) {
    End& sender = end(channel, from, to);
    End& receiver = end(channel, to, from);
    if (sender.cancelled || receiver.cancelled) return;
    const Posted& send = sender.sends[number];
    const Posted& receive = receiver.receives[number];
    if (!send.fits(receive)) {
      receiver.client->on_mismatch(from, channel, Status(Code::invalid_usage, "calls differ"));
      return;
    }
    ++messages_;
    expect_unchanged(send);
    std::copy(send.source.begin(), send.source.end(), receive.target.begin());
    const size_t bytes = send.source.size();
    events_.push_back([=, this] {
      End& at = end(channel, to, from);
      if (!at.cancelled) at.client->on_received(from, channel, MessageNo(number), bytes);
    });
    events_.push_back([=, this] {
      End& at = end(channel, from, to);
      if (at.cancelled) return;
      expect_unchanged(at.sends[number]);
      ++at.acknowledged;
      at.client->on_sent(to, channel, MessageNo(number));
    });
  }

  static void expect_unchanged(const Posted& send) {
    EXPECT_TRUE(std::equal(send.source.begin(), send.source.end(), send.snapshot.begin()))
        << "the source of a send changed before its acknowledgement";
  }

  const int32_t rank_count_;
  std::mt19937_64 random_;
  std::map<std::pair<int32_t, int32_t>, std::unique_ptr<Port>> ports_;  // by (own rank, peer)
  std::vector<std::function<void()>> events_;
  uint64_t messages_ = 0;
};

}  // namespace r2ccl
