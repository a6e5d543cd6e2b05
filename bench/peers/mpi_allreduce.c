// AllReduce of float32 sums over MPI, timed as `r2ccl bench` times it: operations back to back,
// each counted with the duration of its slowest rank.
//
// usage: mpi_allreduce BYTES:WARMUP:ITERATIONS...   prints "BYTES WRONG microseconds..." per size
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long count_wrong(const float* in, float* out, int count, int rank, int ranks) {
  float* values = (float*)in;
  for (int i = 0; i < count; ++i) values[i] = (float)(rank + i % 1000);
  MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  long wrong = 0;
  for (int i = 0; i < count; ++i) {
    float expected = (float)(ranks * (ranks - 1) / 2 + ranks * (i % 1000));
    wrong += out[i] != expected;
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  return wrong;
}

static void measure(long bytes, int warmup, int iterations, int rank, int ranks) {
  int count = (int)(bytes / (long)sizeof(float));
  float* in = malloc((size_t)bytes);
  float* out = malloc((size_t)bytes);
  double* us = malloc(sizeof(double) * (size_t)iterations);
  if (!in || !out || !us) MPI_Abort(MPI_COMM_WORLD, 1);
  long wrong = count_wrong(in, out, count, rank, ranks);
  for (int i = 0; i < warmup; ++i) {
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < iterations; ++i) {
    double start = MPI_Wtime();
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    us[i] = (MPI_Wtime() - start) * 1e6;
  }
  MPI_Allreduce(MPI_IN_PLACE, us, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%ld %ld", bytes, wrong);
    for (int i = 0; i < iterations; ++i) printf(" %.1f", us[i]);
    printf("\n");
    fflush(stdout);
  }
  free(in);
  free(out);
  free(us);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 1; i < argc; ++i) {
    long bytes;
    int warmup, iterations;
    if (sscanf(argv[i], "%ld:%d:%d", &bytes, &warmup, &iterations) != 3) {
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    measure(bytes, warmup, iterations, rank, ranks);
  }
  return MPI_Finalize();
}
