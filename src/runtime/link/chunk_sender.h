// Gives the chunks of one link to its paths: new chunks, retransmissions, hedges and probes.
// Driving thread only.
//
// A hedge is a second copy of a chunk on another path (Dean and Barroso, "The Tail at Scale", CACM
// 2013; TCP's tail loss probe, RFC 8985). The sender hedges the chunks of a suspect path and those
// of a path on probation. A budget bounds the bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "protocol/path/path_scheduler.h"
#include "runtime/link/channels.h"
#include "runtime/link/link_host.h"
#include "runtime/link/path.h"

namespace r2ccl {

class ChunkSender {
 public:
  // Returns the state, as FrameWriter wants it, that the next data frame of the path carries;
  // empty: none.
  using TakeState = std::function<std::span<const std::byte>(const Path& path, TimeNs now)>;

  ChunkSender(LinkHost& host, LinkEnd end, const LinkSettings& settings, ChannelSet& channels,
              PathScheduler& scheduler, std::vector<Path*> paths, TakeState take_state)
      : host_(host),
        end_(end),
        settings_(settings),
        channels_(channels),
        load_(host.busy_links(), uses_memory(paths)),
        scheduler_(scheduler),
        paths_(std::move(paths)),
        take_state_(std::move(take_state)) {}

  // Gives chunks to the paths that take them now. Returns whether it ended before them, because it
  // has written as much as one pass may.
  bool dispatch(TimeNs now);
  // Must follow each post of a send.
  void note_load() {
    load_.set_sends(channels_.sends());
    if (load_.receives()) load_.set_receives(channels_.receives());
  }
  // Must follow each post of a large receive.
  void note_receive() { load_.set_receives(true); }
  // Sends a full-size frame without content, which shows that the path carries such frames.
  void send_proof(Path& path, TimeNs now);

  // Hedges the chunks of a path that is suspect.
  void on_suspect(Path& path);
  // Requires that the path is about to fail, and was not suspect before.
  void on_failing(Path& path) { note_stalled(path); }
  // Retransmits the chunks of a path that failed with these transmissions outstanding, oldest
  // first. Returns the number of bytes that must be retransmitted.
  uint64_t on_failed(const Fifo<Transmission>& lost);
  // The path reports this transmission as received, in the peer's state `counted`. Requires that
  // the channels of the same frame have been applied.
  void on_delivered(const Path& path, const Transmission& transmission, uint64_t counted);
  // Requires that a control frame with the peer's whole state was applied up to `version`. Calls
  // `contradicts` for each chunk that a path counts as received and the peer does not list.
  using Contradicts = std::function<void(Path& path, Incarnation incarnation, const std::string&)>;
  void settle_unlisted(uint64_t version, const Contradicts& contradicts);
  // Measures the stalls that have ended.
  void settle_stalled(TimeNs now);
  void cancel(ChannelId channel);
  // Returns whether a copy of a chunk of the channel is outstanding, or is to be sent.
  bool refers_to(ChannelId channel) const;

  bool retransmits() const { return !queue_.empty(); }
  uint64_t hedged_bytes() const { return hedged_bytes_; }
  uint64_t retransmitted_bytes() const { return retransmitted_bytes_; }

 private:
  // A chunk to retransmit: its copies are lost, or (hedge) late.
  struct Retransmission {
    ChannelId channel;
    ChunkRef chunk;
    const PathEnd* avoid = nullptr;  // a hedge takes another path
    bool hedge = false;
  };
  // A chunk that was outstanding on a path when that path became suspect or failed.
  struct StalledChunk {
    Path* path = nullptr;
    ChannelId channel;
    ChunkRef chunk;
    TimeNs sent_at = 0;
  };
  // A chunk that its path counts as received, but that is not acknowledged.
  struct Unlisted {
    Path* path = nullptr;
    Incarnation incarnation;
    ChannelId channel;
    ChunkRef chunk;
    uint64_t counted = 0;  // version of the peer's state that counted it
  };

  bool dispatch_fresh(std::span<const PathEnd* const> awaited, TimeNs now);
  std::vector<const PathEnd*> dispatch_retransmissions(TimeNs now);
  bool is_pointless(const Retransmission& next) const;
  void probe_slow_paths(TimeNs now);
  bool may_hedge(uint64_t bytes) const;
  void note_stalled(Path& path);
  void retransmit_unlisted(const Unlisted& lost, const Contradicts& contradicts);
  void transmit(PathEnd& path, Channel& from, ChunkRef chunk, TimeNs now);
  static bool uses_memory(const std::vector<Path*>& paths);
  bool leaves_in_place(const Path& path) const;
  void send_probe(Path& path, uint64_t bytes, TimeNs now);
  void send_frame(Path& path, DataHeader header, std::span<const std::byte> payload,
                  Transmission transmission, TimeNs now);
  void learn_price(TimeNs write_time);

  LinkHost& host_;
  const LinkEnd end_;
  const LinkSettings& settings_;
  ChannelSet& channels_;
  BusyLinks::Part load_;
  PathScheduler& scheduler_;
  const std::vector<Path*> paths_;
  const TakeState take_state_;
  std::deque<Retransmission> queue_;
  std::vector<StalledChunk> stalled_;
  std::vector<Unlisted> unlisted_;
  uint64_t hedged_bytes_ = 0;
  uint64_t retransmitted_bytes_ = 0;
  uint64_t payload_bytes_ = 0;
  uint64_t payload_probed_ = 0;  // payload_bytes_ when a slow path last got a probe
  TimeNs write_time_ = 0;        // smoothed, of a small frame; 0: no frame was written yet
};

}  // namespace r2ccl
