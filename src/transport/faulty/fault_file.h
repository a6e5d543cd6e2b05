// Faults from outside the process: a file that says which NICs are faulty, for jobs whose NICs
// nobody can really break (tests and the demo where no namespaces may be made).
//
// One NIC a line, by device name or address, then what is wrong with it; words combine, the last
// line of a NIC counts, # starts a comment, and a NIC that no line names is healthy:
//
//   127.0.3.2 hole slow 3125000
//
//   down                connections fail, no carrier; the peers hear nothing
//   hole                nothing gets through either way; also hole-tx and hole-rx
//   slow BYTES_PER_S    a rate limit each way
//   delay MILLISECONDS  added each way
//   queue BYTES         with another fault: what is held each way of a connection before its writer
//                       blocks, 65536 unless told; a small one cuts frames short
//   flip PATTERN BIT ORDER  once for each ORDER, a number that grows: of the next bytes that are
//                       written in one piece and begin with PATTERN, in hexadecimal digits, one bit
//                       is changed; BIT counts from 1 at the first byte's lowest
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

// A FaultyTransport whose plan follows `file` until the transport is destroyed: what the file says
// at first holds on return, later changes within some 10 ms. A file that is not there says nothing,
// for it may come; what can never be read is an error. Writers replace the file by rename(), so
// that no half of it is ever read.
Result<std::unique_ptr<Transport>> follow_fault_file(std::unique_ptr<Transport> inner,
                                                     std::string file, const Clock& clock);

}  // namespace r2ccl
