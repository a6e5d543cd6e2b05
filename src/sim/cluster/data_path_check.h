// Checks that a run obeys the rules of the data path: the sender retains each chunk until its
// acknowledgement, the receiver accepts each chunk once, neither end touches a buffer after its
// completion, and both stay within the pools. The check stands outside the code under test, at
// three places: between the clients and their links (CheckedPort), in the links (LinkWitness), and
// where kernels touch the memory of processes (IoWatch).
//
// A violation is a sentence. The first violation matters most, because others may follow from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/link/link.h"
#include "runtime/link/link_witness.h"
#include "sim/fabric/network.h"

namespace r2ccl::sim {

class DataPathCheck final : public LinkWitness, public IoWatch {
 public:
  explicit DataPathCheck(const Clock& clock) : clock_(clock) {}

  // Counts the cases of the protocol that the run has covered.
  struct Seen {
    uint64_t chunks = 0;      // accepted chunks
    uint64_t resent = 0;      // further copies: retransmits and hedges
    uint64_t duplicates = 0;  // whole copies that arrived after the accepted one
    uint64_t late = 0;        // duplicates that arrived after the receiver had the whole message
    uint64_t early = 0;       // chunks that arrived before the receiver posted a receive
    uint64_t early_bytes_max = 0;  // the most bytes of early chunks of one channel at one time
  };
  const Seen& seen() const { return seen_; }
  const std::vector<std::string>& violations() const { return violations_; }
  void violated(const std::string& what);
  // From now on ranks may make calls that do not match.
  void expect_mismatch() { mismatch_expected_ = true; }
  bool mismatch_expected() const { return mismatch_expected_; }

  // --- from CheckedPort: `self` posts to, or receives from, `peer` ---
  // Messages are announced.
  void on_messages(LinkEnd at) { used_.insert(std::minmax(at.self, at.peer)); }
  // `standing`: the receive is a standing one.
  void on_post_send(LinkEnd at, ChannelId channel, MessageNo number,
                    std::span<const std::byte> bytes, bool standing);
  void on_sent(LinkEnd at, ChannelId channel, MessageNo number);
  void on_post_receive(LinkEnd at, ChannelId channel, MessageNo number, std::span<std::byte> bytes,
                       bool standing);
  void on_received(LinkEnd at, ChannelId channel, MessageNo number);
  void on_cancel(LinkEnd at, ChannelId channel);
  // Forgets this memory. Its owner calls this before it frees the memory.
  void forget(std::span<const std::byte> bytes);

  // Checks that no link has a data connection that neither end has messages for.
  void check_unused(Rank self, const Link& link);

  // --- from the engines ---
  // LinkWitness
  void on_relayed(std::span<const std::byte> memory) override { forget(memory); }
  void on_transmit(LinkEnd at, const Path& path, const DataHeader& header,
                   std::span<const std::byte> payload) override;
  void on_report(LinkEnd at, const Path& path, const PathReport& report) override;
  void on_place(LinkEnd at, const Path& path, const DataHeader& header,
                const ReceiveLedger::Place& place) override;
  void on_arrive(LinkEnd at, const Path& path, const DataHeader& header, bool discarded,
                 bool fresh) override;
  // IoWatch
  void on_read(std::span<const iovec> slices, size_t bytes) override;
  void on_write(std::span<const iovec> slices, size_t bytes) override;

 private:
  // Identifies a message by its two ends, its channel and its number.
  struct Name {
    Rank from;
    Rank to;
    ChannelId channel;
    MessageNo number;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  // The bytes [begin, end) in the memory of the process.
  struct Range {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };
  struct Message {
    bool standing = false;
    // The sender's side.
    bool sending = false;  // posted, and its bytes may still be read
    Range source;
    std::vector<std::byte> content;  // as the sender posted it
    std::set<uint64_t> transmitted;  // offsets
    // The receiver's side.
    bool posted = false;
    bool received = false;
    Range target;
    uint32_t chunk_bytes = 0;
    std::set<uint64_t> accepted;  // offsets
    uint64_t accepted_bytes = 0;
    uint64_t early_bytes = 0;  // held elsewhere until the receiver posts a receive
  };
  using Direction = std::tuple<Rank, Rank, ChannelId>;  // sender, receiver, channel
  using Live = std::multimap<const std::byte*, Name>;   // the key is the end of the range

  Message& message(const Name& name) { return messages_[name]; }
  static std::string describe(const Name& name);
  void violated(const Name& name, const std::string& what);
  void retire_if_over(const Name& name);
  bool cancelled(const Name& name) const {
    return cancelled_.contains({name.from, name.to, name.channel});
  }
  // Returns whether the receiver may refuse its chunks, because an end has cancelled the channel or
  // the calls do not match.
  bool refused(const Name& name) const { return mismatch_expected_ || cancelled(name); }
  void check_permission(const Name& name, const Message& one, const DataHeader& header);
  void check_landed(const Name& name, const Message& one, const DataHeader& header);
  void hold_early(const Name& name, Message& one, const DataHeader& header);
  void add_live(Live& live, const Range& range, const Name& name);
  static void remove_live(Live& live, const Range& range, const Name& name);
  template <typename Fits>
  bool inside(const Live& live, const Range& touched, const Fits& fits) const;
  bool known(const Range& touched) const;
  void remember(const Range& range);
  void forget_own(const Message& one, const Range& range);
  static bool may_land(const Message& open, const Range& touched);

  static constexpr uint64_t kRetiredBytesMax = 16 * 1024 * 1024;

  const Clock& clock_;
  std::map<Name, Message> messages_;
  std::map<Direction, uint64_t> sends_;  // the number of posted sends
  std::map<Direction, uint64_t> receives_;
  std::map<Direction, uint64_t> early_;  // bytes of early chunks
  std::map<Direction, uint64_t> eager_sent_;
  std::map<Direction, uint64_t> eager_returned_;  // bytes that the receiver gave back
  std::set<std::pair<Rank, Rank>> used_;          // links with messages, the lower rank first
  std::set<Direction> cancelled_;                 // an end has cancelled these
  // The receiving end is part of the key. The incarnation is too, because the sender may still use
  // an old connection.
  Live sources_;
  Live targets_;
  ptrdiff_t longest_ = 0;  // the length of the longest range so far
  // All memory that was ever posted and is not forgotten: the end of each range, and its begin.
  std::map<const std::byte*, const std::byte*> known_;
  std::deque<Name> retired_;
  uint64_t retired_bytes_ = 0;
  Seen seen_;
  std::vector<std::string> violations_;
  bool mismatch_expected_ = false;
};

}  // namespace r2ccl::sim
