/* Sums a vector over all ranks, in place. A call without a request waits for its end. */
#include "check.h"

enum { kCount = 1000000 };

int main(void) {
  r2cclComm_t comm;
  int rank, ranks;
  check(r2cclCommInitEnv(&comm, NULL)); /* rank and size come from the launcher */
  check(r2cclCommUserRank(comm, &rank));
  check(r2cclCommCount(comm, &ranks));

  float* values = malloc(kCount * sizeof *values);
  if (values == NULL) return 1;
  for (int i = 0; i < kCount; ++i) values[i] = (float)(rank + i % 100);

  check(r2cclAllReduce(values, values, kCount, r2cclFloat32, r2cclSum, comm, NULL));
  printf("rank %d of %d: first %g, last %g\n", rank, ranks, values[0], values[kCount - 1]);

  free(values);
  check(r2cclCommDestroy(comm)); /* waits until every rank is here */
  return 0;
}
