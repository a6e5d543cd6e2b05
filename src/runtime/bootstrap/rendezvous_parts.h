// Helpers that the tests of the rendezvous share.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "runtime/bootstrap/rank_card.h"
#include "transport/endpoint.h"

namespace r2ccl {

inline Endpoint loopback(uint16_t port = 0) {
  Endpoint endpoint;
  endpoint.address.family = AddressFamily::ipv4;
  endpoint.address.bytes = {127, 0, 0, 1};
  endpoint.port = port;
  return endpoint;
}

inline RankCard card_of(int32_t rank) {
  RankCard card;
  card.rank = Rank(rank);
  card.host_name = "node" + std::to_string(rank);
  card.pid = static_cast<uint32_t>(1000 + rank);
  return card;
}

inline bool mentions(const Status& status, const std::string& words) {
  return status.message().find(words) != std::string::npos;
}

}  // namespace r2ccl
