#include "runtime/peers/host_map.h"

#include <map>

namespace r2ccl {

HostMap::HostMap(std::span<const uint32_t> host_of) {
  std::map<uint32_t, uint32_t> number_of;
  host_of_.reserve(host_of.size());
  for (const uint32_t host : host_of) {
    const auto next = static_cast<uint32_t>(number_of.size());
    host_of_.push_back(number_of.try_emplace(host, next).first->second);
  }
  first_.resize(number_of.size() + 1);
  for (const uint32_t host : host_of_) ++first_[host + 1];
  for (size_t host = 0; host < hosts(); ++host) first_[host + 1] += first_[host];
  by_host_.resize(host_of_.size());
  std::vector<uint32_t> next = first_;
  for (size_t rank = 0; rank < host_of_.size(); ++rank) {
    by_host_[next[host_of_[rank]]++] = Rank(static_cast<int32_t>(rank));
  }
}

}  // namespace r2ccl
