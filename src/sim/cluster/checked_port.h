// Stands between a client (an executor, or Send and Recv) and a link, and reports to a check which
// client owns which buffer.
#pragma once

#include <map>

#include "runtime/link/message_port.h"
#include "sim/cluster/data_path_check.h"

namespace r2ccl::sim {

class CheckedPort final : public MessagePort, private MessageClient {
 public:
  CheckedPort(MessagePort& link, LinkEnd end, DataPathCheck& check)
      : link_(link), end_(end), check_(check) {}

  void open_channel(ChannelId channel, MessageClient& client, Rank peer) override {
    clients_[channel] = &client;
    link_.open_channel(channel, *this, peer);
  }
  void expect_messages() override {
    check_.on_messages(end_);
    link_.expect_messages();
  }
  MessageNo post_send(ChannelId channel, std::span<const std::byte> bytes,
                      uint64_t context) override {
    const MessageNo number = link_.post_send(channel, bytes, context);
    check_.on_post_send(end_, channel, number, bytes, context == kNoContext);
    return number;
  }
  MessageNo post_receive(ChannelId channel, std::span<std::byte> bytes, uint64_t context) override {
    const MessageNo number = link_.post_receive(channel, bytes, context);
    check_.on_post_receive(end_, channel, number, bytes, false);
    return number;
  }
  MessageNo post_standing_receive(ChannelId channel, std::span<std::byte> bytes) override {
    const MessageNo number = link_.post_standing_receive(channel, bytes);
    check_.on_post_receive(end_, channel, number, bytes, true);
    return number;
  }
  void release_send_buffers(ChannelId channel) override { link_.release_send_buffers(channel); }
  void cancel_channel(ChannelId channel) override {
    link_.cancel_channel(channel);
    check_.on_cancel(end_, channel);
  }

 private:
  void on_sent(Rank peer, ChannelId channel, MessageNo number) override {
    check_.on_sent(end_, channel, number);
    clients_.at(channel)->on_sent(peer, channel, number);
  }
  void on_received(Rank peer, ChannelId channel, MessageNo number, uint64_t bytes) override {
    check_.on_received(end_, channel, number);
    clients_.at(channel)->on_received(peer, channel, number, bytes);
  }
  void on_mismatch(Rank peer, ChannelId channel, const Status& why) override {
    if (!check_.mismatch_expected()) {
      check_.violated("ranks whose calls are the same do not match: " + why.message());
    }
    clients_.at(channel)->on_mismatch(peer, channel, why);
  }

  MessagePort& link_;
  const LinkEnd end_;
  DataPathCheck& check_;
  std::map<ChannelId, MessageClient*> clients_;
};

}  // namespace r2ccl::sim
