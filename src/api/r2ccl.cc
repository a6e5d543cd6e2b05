// The C edge: checks arguments, translates errors once, and hands on to the communicator.
#include "r2ccl/r2ccl.h"

extern "C" r2cclResult_t r2cclGetVersion(int* version) {
  if (version == nullptr) return r2cclInvalidArgument;
  *version = R2CCL_VERSION_CODE;
  return r2cclSuccess;
}
