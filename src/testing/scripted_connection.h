// For tests: a connection that moves its bytes in the portions that the test sets.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace r2ccl {

class ScriptedConnection final : public Connection {
 public:
  using Bytes = std::vector<std::byte>;

  explicit ScriptedConnection(int poll_id = 0) : poll_id_(poll_id) {}

  // Adds a portion to the peer's bytes. Only one portion is readable at a time, the next one after
  // a read was blocked.
  void deliver(std::span<const std::byte> bytes) {
    incoming_.emplace_back(bytes.begin(), bytes.end());
  }
  // Sets the result of read() after all portions.
  void end_reads(IoResult end) { read_end_ = end; }
  // Sets the number of bytes that each of the next writes takes; 0: blocked. Later writes take all
  // bytes.
  void limit_writes(std::deque<size_t> limits) { write_limits_ = std::move(limits); }
  void fail_writes(int error) { write_error_ = error; }  // 0: stops failing
  // Refuses reads while the connection lives; 0: stops refusing.
  void refuse_reads(int error) { read_refusal_ = error; }
  void let_stay() { stays_ = true; }  // sends_in_place() is true
  void count_packets(const PacketCounts& packets) { packets_ = packets; }  // the kernel's
  // Lets the next calls of skip() drop so many bytes.
  void let_skip(size_t bytes) { skippable_ = bytes; }

  // Counts the bytes that reads put into this memory.
  void watch(std::span<const std::byte> memory) { watched_ = memory; }
  size_t watched_bytes() const { return watched_bytes_; }

  const Bytes& written() const { return written_; }
  Bytes take_written() { return std::exchange(written_, {}); }
  size_t reads() const { return reads_; }
  size_t sends() const { return sends_; }  // by send() and not by write()

  ConnectState connect_state() override { return ConnectState::established; }
  int connect_error() const override { return 0; }
  // Counts written bytes as unacknowledged from now on, up to acknowledge().
  void hold_acknowledgements() { acknowledges_ = false; }
  void acknowledge(uint64_t bytes) { unacknowledged_ -= std::min(bytes, unacknowledged_); }

  ConnectionInfo info() const override {
    ConnectionInfo info;
    info.unacknowledged_bytes = unacknowledged_;
    info.packets = packets_;
    return info;
  }
  Endpoint remote() const override { return {}; }
  int poll_id() const override { return poll_id_; }

  IoResult read(std::span<const iovec> slices) override {
    ++reads_;
    if (read_refusal_ != 0) return {IoKind::refused, 0, read_refusal_};
    if (incoming_.empty()) return read_end_;
    if (incoming_.front().empty()) {
      incoming_.pop_front();
      return {IoKind::blocked, 0, 0};
    }
    Bytes& portion = incoming_.front();
    size_t moved = 0;
    for (const iovec& slice : slices) {
      const size_t part = std::min(slice.iov_len, portion.size() - moved);
      std::copy_n(portion.begin() + static_cast<ptrdiff_t>(moved), part,
                  static_cast<std::byte*>(slice.iov_base));
      const auto* const to = static_cast<const std::byte*>(slice.iov_base);
      if (to >= watched_.data() && to < watched_.data() + watched_.size()) watched_bytes_ += part;
      moved += part;
    }
    portion.erase(portion.begin(), portion.begin() + static_cast<ptrdiff_t>(moved));
    return {IoKind::progressed, moved, 0};
  }

  IoResult send(std::span<const iovec> slices) override {
    ++sends_;
    return write(slices);
  }
  bool sends_in_place(size_t) const override { return stays_; }
  size_t skip(size_t most) override {
    const size_t bytes = std::min(most, skippable_);
    skippable_ -= bytes;
    return bytes;
  }

  IoResult write(std::span<const iovec> slices) override {
    if (is_refusal(write_error_)) return {IoKind::refused, 0, write_error_};
    if (write_error_ != 0) return {IoKind::failed, 0, write_error_};
    size_t limit = SIZE_MAX;
    if (!write_limits_.empty()) {
      limit = write_limits_.front();
      write_limits_.pop_front();
    }
    size_t moved = 0;
    for (const iovec& slice : slices) {
      const size_t part = std::min(slice.iov_len, limit - moved);
      const auto* from = static_cast<const std::byte*>(slice.iov_base);
      written_.insert(written_.end(), from, from + part);
      moved += part;
    }
    unacknowledged_ += acknowledges_ ? 0 : moved;
    return moved == 0 ? IoResult{IoKind::blocked, 0, 0} : IoResult{IoKind::progressed, moved, 0};
  }

 private:
  const int poll_id_;
  std::deque<Bytes> incoming_;
  IoResult read_end_{IoKind::blocked, 0, 0};
  std::deque<size_t> write_limits_;
  int write_error_ = 0;
  int read_refusal_ = 0;
  Bytes written_;
  uint64_t unacknowledged_ = 0;
  bool acknowledges_ = true;
  size_t reads_ = 0;
  size_t sends_ = 0;
  bool stays_ = false;
  PacketCounts packets_;
  size_t skippable_ = 0;
  std::span<const std::byte> watched_;
  size_t watched_bytes_ = 0;
};

}  // namespace r2ccl
