#include "runtime/bootstrap/address_codec.h"

#include <algorithm>

namespace r2ccl {

void put_address(ByteWriter& out, const Address& address) {
  out.put(static_cast<uint8_t>(address.family));
  out.put(address.prefix_bits);
  out.put_bytes(std::as_bytes(std::span(address.bytes)));
}

bool get_address(ByteReader& in, Address& address) {
  const uint8_t family = in.get<uint8_t>();
  const uint8_t prefix_bits = in.get<uint8_t>();
  const auto bytes = in.get_bytes(address.bytes.size());
  if (in.bad()) return false;
  const bool ipv4 = family == static_cast<uint8_t>(AddressFamily::ipv4);
  if (!ipv4 && family != static_cast<uint8_t>(AddressFamily::ipv6)) return false;
  if (prefix_bits > (ipv4 ? 32 : 128)) return false;
  address = Address();
  address.family = static_cast<AddressFamily>(family);
  address.prefix_bits = prefix_bits;
  std::transform(bytes.begin(), bytes.begin() + (ipv4 ? 4 : 16), address.bytes.begin(),
                 [](std::byte byte) { return std::to_integer<uint8_t>(byte); });
  return true;
}

}  // namespace r2ccl
