// A NIC's name in the body of a notice.
#pragma once

#include "protocol/diagnosis/fault_localiser.h"
#include "protocol/wire/byte_io.h"

namespace r2ccl {

void put_name(ByteWriter& out, const NicName& name);
NicName get_name(ByteReader& in);

}  // namespace r2ccl
