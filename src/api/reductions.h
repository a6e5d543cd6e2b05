// The types and reductions of C calls.
#pragma once

#include "api/handles.h"
#include "base/status.h"
#include "base/types.h"
#include "r2ccl/r2ccl.h"

namespace r2ccl::api {

Result<DataType> check_type(const char* function, r2cclDataType_t type);

// Returns the reduction with the scalar that it has now. Refuses one that is not for the type or
// not for the communicator.
Result<Reduction> check_reduction(const char* function, r2cclRedOp_t op, DataType type,
                                  CommObject* comm);

}  // namespace r2ccl::api
