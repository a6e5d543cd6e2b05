// Faults from outside the process: a file names the faulty NICs. It serves jobs whose NICs cannot
// really be broken (tests and the demo where no namespaces may be made).
//
// Each line names one NIC, by device name or address, and then its faults. Words combine, the last
// line of a NIC counts, # starts a comment, and a NIC that no line names is healthy:
//
//   127.0.3.2 hole slow 3125000
//
//   down                connections fail, no carrier; the peers hear nothing
//   hole                nothing gets through either way; also hole-tx and hole-rx
//   slow BYTES_PER_S    a rate limit each way
//   delay MILLISECONDS  added each way
//   no-events           on the line of *, which is every NIC: the kernel tells no change of a NIC
//   queue BYTES         with another fault: bytes held each way of a connection before its writer
//                       blocks, 65536 by default; a small queue cuts frames short
//   flip PATTERN BIT ORDER  once for each ORDER, a number that grows: changes one bit of the next
//                       bytes that are written in one piece and begin with PATTERN, in hexadecimal
//                       digits; BIT counts from 1 at the first byte's lowest
//   add PATTERN BYTES ORDER  once for each ORDER: so many bytes follow such bytes, and nothing more
//                       leaves on that connection
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/faulty/fault_plan.h"
#include "transport/transport.h"

namespace r2ccl {

struct FaultFileContent {
  std::map<std::string, NicFault> faults;
  std::vector<std::string> complaints;  // one for each line that makes no sense and is ignored
};
FaultFileContent parse_fault_file(const std::string& text);

// Returns a FaultyTransport whose plan follows `file` until the transport is destroyed. The file's
// first content holds on return, later changes within some 10 ms. A missing file means no faults,
// because it may still come; a file that can never be read is an error. Writers replace the file by
// rename(), so that no reader ever sees half of it.
Result<std::unique_ptr<Transport>> follow_fault_file(std::unique_ptr<Transport> inner,
                                                     std::string file, const Clock& clock);

}  // namespace r2ccl
