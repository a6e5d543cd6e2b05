/* Hands numbers around a ring: in each step a rank sends to the next one the number that it got
 * from the one before. The Send has a request, because all ranks send at the same time: if each
 * waited for its Send before its Recv, large messages would wait for each other. */
#include "check.h"

enum { kRanksMax = 64 };

int main(void) {
  r2cclComm_t comm;
  int rank, ranks;
  check(r2cclCommInitEnv(&comm, NULL));
  check(r2cclCommUserRank(comm, &rank));
  check(r2cclCommCount(comm, &ranks));
  if (ranks > kRanksMax) return 1;

  int64_t numbers[kRanksMax];
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  numbers[rank] = 100 + rank;
  for (int step = 0; step < ranks - 1; ++step) {
    const int out = (rank - step + ranks) % ranks, in = (rank - step - 1 + ranks) % ranks;
    r2cclRequest_t sent;
    check(r2cclSend(&numbers[out], 1, r2cclInt64, next, comm, &sent));
    check(r2cclRecv(&numbers[in], 1, r2cclInt64, before, comm, NULL));
    check(r2cclRequestWait(&sent, -1));
  }

  printf("rank %d has", rank);
  for (int each = 0; each < ranks; ++each) printf(" %lld", (long long)numbers[each]);
  printf("\n");
  check(r2cclCommDestroy(comm));
  return 0;
}
