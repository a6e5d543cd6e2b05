// Addresses as they travel between ranks. The scope of a link-local address is valid only on its
// own host, so it is not sent.
#pragma once

#include "protocol/wire/byte_io.h"
#include "transport/endpoint.h"

namespace r2ccl {

inline constexpr size_t kWireAddressBytes = 18;  // family, prefix, 16 bytes

void put_address(ByteWriter& out, const Address& address);
// Returns false when the bytes are no address (the reader may have failed too).
bool get_address(ByteReader& in, Address& address);

}  // namespace r2ccl
