// The NICs of each host, in one list for all its ranks: each of them may use other ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/bootstrap/rank_info.h"
#include "runtime/peers/host_map.h"

namespace r2ccl {

class HostNics {
 public:
  // `ranks`: by rank, those of `map`. NICs of one name are one NIC of the host.
  HostNics(const HostMap& map, std::span<const RankInfo* const> ranks);

  size_t hosts() const { return names_.size(); }
  // The host's NICs, in the order in which its ranks name them first.
  const std::vector<std::string>& names(size_t host) const { return names_[host]; }
  // Returns the rail of each of these NICs: those of a host have different ones.
  const std::vector<uint16_t>& rails(size_t host) const { return rails_[host]; }
  std::span<const std::vector<uint16_t>> all_rails() const { return rails_; }
  // Returns the rail of a rank's own NIC; nothing: no rank has such a NIC.
  std::optional<uint16_t> rail_of(Rank rank, NicId nic) const;
  // Returns the rail of the host's NIC of this name; nothing: it has none.
  std::optional<uint16_t> rail_of(size_t host, const std::string& name) const;
  // Returns living ranks of the host that together use all its NICs, as far as ranks of it live: of
  // the ranks that use a NIC, the lowest. `ended`: by rank.
  std::vector<Rank> users_of_all(size_t host, const std::vector<bool>& ended) const;
  // Returns whether the rank uses the NIC of its host that is on this rail.
  bool uses(Rank rank, uint16_t rail) const;

 private:
  std::vector<std::vector<Rank>> ranks_;           // by host
  std::vector<std::vector<std::string>> names_;    // by host
  std::vector<std::vector<uint16_t>> rails_;       // by host, as names_
  std::vector<std::vector<uint16_t>> rank_rails_;  // by rank and NIC
};

}  // namespace r2ccl
