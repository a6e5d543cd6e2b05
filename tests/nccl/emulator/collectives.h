// NCCL's algorithms, as its kernels run them for one block.
#pragma once

#include <vector>

#include "device_functions.h"
#include "work_format.h"

namespace r2ccl::emulated {

// These throw Aborted, and end the process for an algorithm or a protocol that is not emulated.
void run_collective(const WorkFormat& format, const Channel& channel,
                    const DeviceFunction& function, const CollectiveWork& work);
void run_point_to_point(const WorkFormat& format, const Channel& channel,
                        const std::vector<PointToPointWork>& works);

}  // namespace r2ccl::emulated
