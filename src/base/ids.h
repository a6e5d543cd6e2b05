// Strong ids: small integers that the compiler does not let a caller mix up.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace r2ccl {

template <typename Tag, typename T>
class StrongId {
 public:
  using Value = T;
  constexpr StrongId() = default;
  constexpr explicit StrongId(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  T value_{};
};

// A process of the job, 0 to p - 1.
using Rank = StrongId<struct RankTag, int32_t>;
inline constexpr Rank kNoRank{-1};
// A NIC of one rank: an index into the NIC table that this rank advertised at start.
using NicId = StrongId<struct NicTag, uint16_t>;
// No data NIC: the path uses the loopback interface, or has only a control stream.
inline constexpr NicId kNoNic{UINT16_MAX};
// A path of one link. Both ends compute the same value from the two NIC indices.
using PathId = StrongId<struct PathTag, uint16_t>;
// A counter of one path's connections; 0 means never connected.
using Incarnation = StrongId<struct IncarnationTag, uint32_t>;
// A communicator within its job; 0 is the first one.
using ContextId = StrongId<struct ContextTag, uint64_t>;
// One ordered stream of messages from one rank to another, for one communicator and traffic class.
using ChannelId = StrongId<struct ChannelTag, uint64_t>;
// Each context has so many channels, of consecutive numbers from 1 on.
inline constexpr uint64_t kChannelsOfContext = 4;
inline constexpr ContextId kContextMax{UINT64_MAX / kChannelsOfContext - 1};

constexpr ChannelId channel_of(ContextId context, uint64_t place) {
  return ChannelId(kChannelsOfContext * context.value() + 1 + place);
}
constexpr ContextId context_of(ChannelId channel) {
  return ContextId((channel.value() - 1) / kChannelsOfContext);
}
// Dense per (channel, directed pair), starting at 0, never reused.
using MessageNo = StrongId<struct MessageTag, uint64_t>;

constexpr MessageNo next(MessageNo number) {
  return MessageNo(number.value() + 1);
}

}  // namespace r2ccl

template <typename Tag, typename T>
struct std::hash<r2ccl::StrongId<Tag, T>> {
  size_t operator()(r2ccl::StrongId<Tag, T> id) const noexcept {
    return std::hash<T>()(id.value());
  }
};
