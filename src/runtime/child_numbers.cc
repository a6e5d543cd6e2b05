#include "runtime/child_numbers.h"

#include <algorithm>
#include <vector>

#include "protocol/wire/byte_io.h"

namespace r2ccl {
namespace {

// The first communicator of a job, and its measurement, have lower numbers.
constexpr uint64_t kLowest = 1 << 16;

ContextId number_of(std::span<const std::byte> input) {
  const crypto::Hash hash = crypto::hash("r2ccl communicator id", input);
  return ContextId(std::max(ByteReader(hash).get<uint64_t>() % kContextMax.value(), kLowest));
}

}  // namespace

ContextId ChildNumbers::hash_of(std::span<const std::byte> input) const {
  std::vector<std::byte> all;
  ByteWriter out(all);
  out.put(parent_);
  out.put_bytes(input);
  return number_of(all);
}

ContextId ChildNumbers::of_meeting(std::span<const std::byte> run) {
  return number_of(run);
}

ContextId ChildNumbers::of_split(int64_t color) {
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.put(uint8_t{0});
  out.put(splits_++);
  out.put(static_cast<uint64_t>(color));
  return hash_of(input);
}

ContextId ChildNumbers::of_shrink(std::span<const Rank> excluded, uint32_t ordinal) const {
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.put(uint8_t{2});
  out.put(ordinal);
  for (const Rank rank : excluded) out.put(static_cast<uint32_t>(rank.value()));
  return hash_of(input);
}

ContextId ChildNumbers::of_group(std::span<const Rank> ranks, std::string_view name) {
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.put(uint8_t{1});
  out.put(static_cast<uint64_t>(ranks.size()));
  for (const Rank rank : ranks) out.put(static_cast<uint32_t>(rank.value()));
  out.put_bytes(std::as_bytes(std::span(name)));
  const std::lock_guard lock(mutex_);
  out.put(groups_[crypto::hash("r2ccl group", input)]++);
  return hash_of(input);
}

}  // namespace r2ccl
