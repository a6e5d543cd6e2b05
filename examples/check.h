/* Ends the program with the cause when a call fails. */
#pragma once

#include <r2ccl/r2ccl.h>
#include <stdio.h>
#include <stdlib.h>

static inline void check(r2cclResult_t result) {
  if (result == r2cclSuccess) return;
  fprintf(stderr, "%s: %s\n", r2cclGetErrorString(result), r2cclGetLastError(NULL));
  exit(1);
}
