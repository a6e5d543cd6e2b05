/* Asks for the state of the network: a callback for each fault that the job agrees on, and the
 * paths to the other ranks. Here all is well. Under R2CCL_DEBUG=INFO the log says the same. */
#include "check.h"

/* A thread of the library calls this. */
static void on_verdict(r2cclComm_t comm, const r2cclVerdict_t* verdict, void* user) {
  (void)comm;
  fprintf(stderr, "rank %d: verdict %zu: scope %d, kind %d, host %s, NIC %s\n", *(int*)user,
          verdict->number, (int)verdict->scope, (int)verdict->kind, verdict->host, verdict->nic);
}

static void reduce_in_registered_memory(r2cclComm_t comm) {
  const size_t count = 1000000;
  void *memory, *handle;
  check(r2cclMemAlloc(&memory, count * sizeof(float)));
  check(r2cclCommRegister(comm, memory, count * sizeof(float), &handle));
  check(r2cclSetCallName("warm up")); /* in every text about the next call */
  check(r2cclAllReduce(memory, memory, count, r2cclFloat32, r2cclSum, comm, NULL));
  check(r2cclCommDeregister(comm, handle));
  check(r2cclMemFree(memory));
}

/* Prints how many other ranks have a path that is not down, and the bytes sent to all of them. */
static void print_paths(r2cclComm_t comm, int rank) {
  size_t count;
  check(r2cclCommGetPaths(comm, NULL, &count)); /* the number never changes */
  r2cclPathInfo_t* const paths = calloc(count + 1, sizeof *paths);
  if (paths == NULL) exit(1);
  paths[0].size = sizeof *paths;
  check(r2cclCommGetPaths(comm, paths, &count));
  int reached = 0, last = -1;
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) { /* they are in the order of the peers */
    bytes += paths[i].tx_bytes;
    if (paths[i].state == r2cclPathDown || paths[i].peer == last) continue;
    last = paths[i].peer;
    ++reached;
  }
  printf("rank %d: %d ranks have a path, megabytes were sent: %s\n", rank, reached,
         bytes > 1000000 ? "yes" : "no");
  free(paths);
}

int main(void) {
  r2cclComm_t comm;
  int rank;
  check(r2cclCommInitEnv(&comm, NULL));
  check(r2cclCommUserRank(comm, &rank));
  check(r2cclCommSetVerdictCallback(comm, on_verdict, &rank));
  reduce_in_registered_memory(comm);
  print_paths(comm, rank);

  size_t verdicts = 0;
  check(r2cclCommGetVerdicts(comm, NULL, &verdicts));
  printf("rank %d: verdicts: %zu\n", rank, verdicts);
  check(r2cclCommDestroy(comm)); /* waits for a callback that is under way */
  return 0;
}
