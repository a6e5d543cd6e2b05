// Holds a run to the rules of the data path: retain, accept once, touch nothing after completion,
// stay within the pools. It stands outside the code under test, at three places: between the
// clients and their links (CheckedPort), in the links (LinkWitness), and where kernels touch the
// memory of processes (IoWatch).
//
// A violation is a sentence; the first of them is what matters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "runtime/link/link_witness.h"
#include "sim/fabric/network.h"

namespace r2ccl::sim {

class DataPathCheck final : public LinkWitness, public IoWatch {
 public:
  explicit DataPathCheck(const Clock& clock) : clock_(clock) {}

  // What of the protocol's life the run has shown.
  struct Seen {
    uint64_t chunks = 0;           // accepted
    uint64_t resent = 0;           // copies beyond the first: replays and mirrors
    uint64_t duplicates = 0;       // copies that arrived whole after another was accepted
    uint64_t late = 0;             // of these, after the message was complete at the receiver
    uint64_t early = 0;            // placed before a receive was posted
    uint64_t early_bytes_max = 0;  // held at once for one channel
  };
  const Seen& seen() const { return seen_; }
  const std::vector<std::string>& violations() const { return violations_; }
  void violated(const std::string& what);
  // From now on ranks may make calls that do not match.
  void expect_mismatch() { mismatch_expected_ = true; }
  bool mismatch_expected() const { return mismatch_expected_; }

  // --- from CheckedPort: `self` posts to, or receives from, `peer` ---
  void on_post_send(LinkEnd at, ChannelId channel, MessageNo number,
                    std::span<const std::byte> bytes);
  void on_sent(LinkEnd at, ChannelId channel, MessageNo number);
  void on_post_receive(LinkEnd at, ChannelId channel, MessageNo number, std::span<std::byte> bytes);
  void on_received(LinkEnd at, ChannelId channel, MessageNo number);
  void on_cancel(LinkEnd at, ChannelId channel);
  // The memory has no meaning any more: its owner frees it.
  void forget(std::span<const std::byte> bytes);

  // --- from the engines ---
  // A path of this end changed its phase: for a while it may send beyond the pace.
  void on_path_event(LinkEnd at) { trouble_[at] = clock_.now(); }

  // LinkWitness
  void on_transmit(LinkEnd at, const Path& path, const DataHeader& header,
                   std::span<const std::byte> payload) override;
  void on_grant(LinkEnd at, const Path& path, uint64_t pace_total) override;
  void on_report(LinkEnd at, const Path& path, const PathReport& report) override;
  void on_place(LinkEnd at, const Path& path, const DataHeader& header,
                const ReceiveLedger::Place& place) override;
  void on_arrive(LinkEnd at, const Path& path, const DataHeader& header, bool discarded,
                 bool fresh) override;
  // IoWatch
  void on_read(std::span<const iovec> slices, size_t bytes) override;
  void on_write(std::span<const iovec> slices, size_t bytes) override;

 private:
  // A message by its sender.
  struct Name {
    Rank from;
    Rank to;
    ChannelId channel;
    MessageNo number;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  // Bytes [begin, end) of the process.
  struct Range {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };
  struct Message {
    // The sender's side.
    bool sending = false;  // posted, and its bytes may still be read
    Range source;
    std::vector<std::byte> content;  // as it was posted
    std::set<uint64_t> transmitted;  // offsets
    // The receiver's side.
    bool posted = false;
    bool received = false;
    Range target;
    uint32_t chunk_bytes = 0;
    std::set<uint64_t> accepted;  // offsets
    uint64_t accepted_bytes = 0;
    uint64_t early_bytes = 0;  // of these, held elsewhere until the receive is posted
  };
  using Direction = std::tuple<Rank, Rank, ChannelId>;  // from, to
  using Live = std::multimap<const std::byte*, Name>;   // by the end of the range

  Message& message(const Name& name) { return messages_[name]; }
  static std::string describe(const Name& name);
  void violated(const Name& name, const std::string& what);
  void retire_if_over(const Name& name);
  bool cancelled(const Name& name) const {
    return cancelled_.contains({name.from, name.to, name.channel});
  }
  // The receiver need not take its chunks: an end is cancelled, or its call does not match.
  bool refused(const Name& name) const { return mismatch_expected_ || cancelled(name); }
  void check_pace(const Name& name, LinkEnd at, const Path& path, uint64_t frame_bytes);
  void check_permission(const Name& name, const Message& one, const DataHeader& header);
  void check_landed(const Name& name, const Message& one, const DataHeader& header);
  void hold_early(const Name& name, Message& one, const DataHeader& header);
  void add_live(Live& live, const Range& range, const Name& name);
  static void remove_live(Live& live, const Range& range, const Name& name);
  template <typename Fits>
  bool inside(const Live& live, const Range& touched, const Fits& fits) const;
  bool known(const Range& touched) const;
  void remember(const Range& range);
  static bool may_land(const Message& open, const Range& touched);

  static constexpr uint64_t kRetiredBytesMax = 16 * 1024 * 1024;

  const Clock& clock_;
  std::map<Name, Message> messages_;
  std::map<Direction, uint64_t> sends_;  // posted so far
  std::map<Direction, uint64_t> receives_;
  std::map<Direction, uint64_t> early_;  // bytes held now
  std::map<Direction, uint64_t> eager_sent_;
  std::map<Direction, uint64_t> eager_returned_;  // to the sender, by the receiver
  std::set<Direction> cancelled_;                 // by either end
  // By the receiving end; the sender may still be on an old connection.
  std::map<std::tuple<LinkEnd, PathId, Incarnation>, uint64_t> grants_;
  std::map<LinkEnd, TimeNs> trouble_;  // when it last had some
  Live sources_;
  Live targets_;
  ptrdiff_t longest_ = 0;                               // of all these ranges, ever
  std::map<const std::byte*, const std::byte*> known_;  // what was ever posted: end -> begin
  std::deque<Name> retired_;
  uint64_t retired_bytes_ = 0;
  Seen seen_;
  std::vector<std::string> violations_;
  bool mismatch_expected_ = false;
};

}  // namespace r2ccl::sim
