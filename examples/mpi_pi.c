/* A program of the MPI tutorials, ported: pi by numerical integration. The lines of MPI stand
 * beside the lines that replace them. docs/porting_mpi.md has the other calls. */

#include "check.h"

int main(void) {
  int64_t intervals = 0;
  int rank, ranks;
  double pi;

  r2cclComm_t comm;
  check(r2cclCommInitEnv(&comm, NULL));  /* MPI_Init(&argc, &argv); */
  check(r2cclCommCount(comm, &ranks));   /* MPI_Comm_size(MPI_COMM_WORLD, &ranks); */
  check(r2cclCommUserRank(comm, &rank)); /* MPI_Comm_rank(MPI_COMM_WORLD, &rank); */

  if (rank == 0) intervals = 1000000;
  /* MPI_Bcast(&intervals, 1, MPI_INT64_T, 0, MPI_COMM_WORLD); */
  check(r2cclBroadcast(&intervals, &intervals, 1, r2cclInt64, 0, comm, NULL));

  const double width = 1.0 / (double)intervals;
  double part = 0;
  for (int64_t i = rank; i < intervals; i += ranks) {
    const double x = width * ((double)i + 0.5);
    part += 4.0 / (1.0 + x * x);
  }
  part *= width;

  /* MPI_Allreduce(&part, &pi, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); */
  check(r2cclAllReduce(&part, &pi, 1, r2cclFloat64, r2cclSum, comm, NULL));
  if (rank == 0) printf("pi is about %.10f\n", pi);

  check(r2cclBarrier(comm, NULL)); /* MPI_Barrier(MPI_COMM_WORLD); */
  check(r2cclCommDestroy(comm));   /* MPI_Finalize(); */
  return 0;
}
