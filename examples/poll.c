/* Waits for operations in an event loop. poll() tells of completions, and may watch the program's
 * own descriptors beside. The operations are a sum over all ranks, and a tagged message around the
 * ring whose size the receiver does not know. */
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"

enum { kTag = 7, kMost = 100 };

/* Returns how many of the requests are complete by now. */
static int finish_some(r2cclRequest_t requests[], int count) {
  int finished = 0;
  for (int i = 0; i < count; ++i) {
    int done;
    if (requests[i] == NULL) continue;
    check(r2cclRequestTest(&requests[i], &done)); /* frees it when it is complete */
    finished += done;
  }
  return finished;
}

int main(void) {
  r2cclComm_t comm;
  int rank, ranks, fd;
  check(r2cclCommInitEnv(&comm, NULL));
  check(r2cclCommUserRank(comm, &rank));
  check(r2cclCommCount(comm, &ranks));
  check(r2cclCommGetFd(comm, &fd));

  /* Each operation has buffers of its own: until its request is complete, no other may use them. */
  int32_t sum = rank, sent[kMost] = {0}, taken[kMost];
  size_t received = 0;
  r2cclRequest_t requests[3];
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  check(r2cclAllReduce(&sum, &sum, 1, r2cclInt32, r2cclSum, comm, &requests[0]));
  check(r2cclSendTagged(sent, (size_t)rank + 1, r2cclInt32, next, kTag, comm, &requests[1]));
  check(r2cclRecvTagged(taken, kMost, r2cclInt32, previous, kTag, &received, comm, &requests[2]));

  for (int open = 3; open > 0;) {
    struct pollfd event = {.fd = fd, .events = POLLIN};
    if (poll(&event, 1, -1) < 0) continue; /* a signal */
    uint64_t completions;
    /* First read, then test: a completion after the read wakes the next poll(). */
    if (read(fd, &completions, sizeof completions) < 0) continue; /* there was none */
    open -= finish_some(requests, 3);
  }
  printf("rank %d: the sum is %d, rank %d sent %zu elements\n", rank, (int)sum, previous, received);
  check(r2cclCommDestroy(comm));
  return 0;
}
