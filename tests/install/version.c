/* The smallest program that includes the header and calls the library; plain C11 and C++. */
#include <r2ccl/r2ccl.h>
#include <stdio.h>

int main(void) {
  r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
  int version = 0;
  if (config.size != sizeof config) return 1;
  if (r2cclGetVersion(&version) != r2cclSuccess) return 1;
  if (version != R2CCL_VERSION_CODE) {
    fprintf(stderr, "header says %d, library says %d\n", R2CCL_VERSION_CODE, version);
    return 1;
  }
  return 0;
}
