/* Three ways in which a call can end otherwise than well:
 *   - a wrong argument: an error of the caller, and the communicator goes on;
 *   - a bound that passes: the operation goes on, and r2cclGetErrorInfo has the late rank;
 *   - a rank that gives up: the others get an error that names it, and the communicator is over.
 * A network fault is none of these. */
#include "check.h"

/* Returns whether the last error of this thread is the fault of this rank alone. */
static int blames(int rank) {
  r2cclErrorInfo_t info = {.size = sizeof info};
  check(r2cclGetErrorInfo(NULL, &info));
  return info.rank_count == 1 && info.ranks[0] == rank;
}

static void wrong_argument(r2cclComm_t comm, int rank) {
  float value = 1;
  const r2cclResult_t result =
      r2cclBroadcast(&value, &value, 1, r2cclFloat32, 99, comm, NULL); /* root 99 */
  printf("rank %d: %s: %s\n", rank, r2cclGetErrorString(result), r2cclGetLastError(NULL));
}

/* The last rank sends late. It gives up afterwards (rank_gives_up), so it waits until rank 0 has
 * its number: a rank that aborts takes its messages along that are still on their way. */
static void late_rank(r2cclComm_t comm, int rank, int last) {
  float value = 7;
  int64_t signal = 0;
  if (rank == 0) {
    r2cclRequest_t request;
    check(r2cclRecv(&value, 1, r2cclFloat32, last, comm, &request));
    const r2cclResult_t result = r2cclRequestWait(&request, 2000);
    printf("rank 0: %s, waits for rank %d: %s\n", r2cclGetErrorString(result), last,
           blames(last) ? "yes" : "no");
    /* Now the last rank may send. */
    check(r2cclSend(&signal, 1, r2cclInt64, last, comm, NULL));
    check(r2cclRequestWait(&request, -1));
    printf("rank 0: received %g\n", value);
    check(r2cclSend(&signal, 1, r2cclInt64, last, comm, NULL));
  } else if (rank == last) {
    check(r2cclRecv(&signal, 1, r2cclInt64, 0, comm, NULL));
    check(r2cclSend(&value, 1, r2cclFloat32, 0, comm, NULL));
    check(r2cclRecv(&signal, 1, r2cclInt64, 0, comm, NULL));
  }
}

static void rank_gives_up(r2cclComm_t comm, int rank, int last) {
  float value = 1;
  if (rank == last) {
    printf("rank %d: cannot read its input, gives up\n", rank);
    check(r2cclCommAbort(comm));
    return;
  }
  const r2cclResult_t result =
      r2cclAllReduce(&value, &value, 1, r2cclFloat32, r2cclSum, comm, NULL);
  printf("rank %d: %s, names rank %d: %s\n", rank, r2cclGetErrorString(result), last,
         blames(last) ? "yes" : "no");
}

int main(void) {
  r2cclComm_t comm;
  int rank, ranks;
  check(r2cclCommInitEnv(&comm, NULL));
  check(r2cclCommUserRank(comm, &rank));
  check(r2cclCommCount(comm, &ranks));

  wrong_argument(comm, rank);
  late_rank(comm, rank, ranks - 1);
  rank_gives_up(comm, rank, ranks - 1);

  /* After an error destroy waits for nobody. */
  check(r2cclCommDestroy(comm));
  return 0;
}
