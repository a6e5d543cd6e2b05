// Helpers that the tests of the rendezvous share.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "runtime/bootstrap/rank_info.h"
#include "transport/endpoint.h"

namespace r2ccl {

inline Endpoint loopback(uint16_t port = 0) {
  Endpoint endpoint;
  endpoint.address.family = AddressFamily::ipv4;
  endpoint.address.bytes = {127, 0, 0, 1};
  endpoint.port = port;
  return endpoint;
}

inline RankInfo info_of(int32_t rank) {
  RankInfo info;
  info.rank = Rank(rank);
  info.host_name = "node" + std::to_string(rank);
  info.pid = static_cast<uint32_t>(1000 + rank);
  return info;
}

inline bool mentions(const Status& status, const std::string& words) {
  return status.message().find(words) != std::string::npos;
}

}  // namespace r2ccl
