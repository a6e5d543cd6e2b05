// The stored inputs for the messages by which ranks agree, and processes that NCCL connects.
#pragma once

#include "tests/fuzz/seed_list.h"

namespace r2ccl {

void add_agreements(Seeds& seeds);

}  // namespace r2ccl
