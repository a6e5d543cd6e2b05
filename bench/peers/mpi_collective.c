// A collective of float32 over MPI, timed as `r2ccl bench` times it: operations back to back, each
// from the start of its last rank to the end of its last rank; all ranks read the clock of this
// machine. The root is rank 0. The size is that of the longest buffer: in collectives with blocks,
// of all blocks together.
//
// usage: mpi_collective COLLECTIVE BYTES:WARMUP:ITERATIONS...
//   prints "BYTES WRONG microseconds..." per size
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks;

// MPI_Wtime() need not have the same origin on every rank.
static double monotonic_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

// One size of a collective: `count` elements in the longest buffer, `part` in a block.
struct Job {
  float* in;
  float* out;
  int count;
  int part;
};

static void all_reduce(const struct Job* j) {
  MPI_Allreduce(j->in, j->out, j->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void reduce(const struct Job* j) {
  MPI_Reduce(j->in, j->out, j->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void broadcast(const struct Job* j) {
  MPI_Bcast(rank == 0 ? j->in : j->out, j->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void all_gather(const struct Job* j) {
  MPI_Allgather(j->in, j->part, MPI_FLOAT, j->out, j->part, MPI_FLOAT, MPI_COMM_WORLD);
}
static void reduce_scatter(const struct Job* j) {
  MPI_Reduce_scatter_block(j->in, j->out, j->part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void gather(const struct Job* j) {
  MPI_Gather(j->in, j->part, MPI_FLOAT, j->out, j->part, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void scatter(const struct Job* j) {
  MPI_Scatter(j->in, j->part, MPI_FLOAT, j->out, j->part, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void all_to_all(const struct Job* j) {
  MPI_Alltoall(j->in, j->part, MPI_FLOAT, j->out, j->part, MPI_FLOAT, MPI_COMM_WORLD);
}

static float value(int from, int element) {
  return (float)(from + element % 1000);
}
static float sum(int element) {
  return (float)(ranks * (ranks - 1) / 2 + ranks * (element % 1000));
}

// Return element i of the result on this rank, i < its length.
static float right_sum(const struct Job* j, int i) {
  (void)j;
  return sum(i);
}
static float right_root(const struct Job* j, int i) {
  (void)j;
  return value(0, i);
}
static float right_blocks(const struct Job* j, int i) {
  return value(i / j->part, i % j->part);
}
static float right_own_sum(const struct Job* j, int i) {
  return sum(rank * j->part + i);
}
static float right_own_block(const struct Job* j, int i) {
  return value(0, rank * j->part + i);
}
static float right_transposed(const struct Job* j, int i) {
  return value(i / j->part, rank * j->part + i % j->part);
}

enum Length { WHOLE, PART };
enum Where { EVERYWHERE, ROOT, OTHERS };
static const struct Collective {
  const char* name;
  void (*run)(const struct Job*);
  float (*right)(const struct Job*, int);
  enum Length length;
  enum Where where;
} kCollectives[] = {
    {"all_reduce", all_reduce, right_sum, WHOLE, EVERYWHERE},
    {"reduce", reduce, right_sum, WHOLE, ROOT},
    {"broadcast", broadcast, right_root, WHOLE, OTHERS},
    {"all_gather", all_gather, right_blocks, WHOLE, EVERYWHERE},
    {"reduce_scatter", reduce_scatter, right_own_sum, PART, EVERYWHERE},
    {"gather", gather, right_blocks, WHOLE, ROOT},
    {"scatter", scatter, right_own_block, PART, EVERYWHERE},
    {"alltoall", all_to_all, right_transposed, WHOLE, EVERYWHERE},
};

static long count_wrong(const struct Collective* what, const struct Job* j) {
  for (int i = 0; i < j->count; ++i) j->in[i] = value(rank, i);
  what->run(j);
  const int length = what->length == WHOLE ? j->part * ranks : j->part;
  const int has_result = what->where == EVERYWHERE || (what->where == ROOT) == (rank == 0);
  long wrong = 0;
  for (int i = 0; has_result && i < length; ++i) {
    wrong += j->out[i] != what->right(j, i);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  return wrong;
}

static void measure(const struct Collective* what, long bytes, int warmup, int iterations) {
  struct Job job = {malloc((size_t)bytes), malloc((size_t)bytes),
                    (int)(bytes / (long)sizeof(float)), 0};
  job.part = job.count / ranks;
  double* starts = malloc(sizeof(double) * (size_t)iterations);
  double* ends = malloc(sizeof(double) * (size_t)iterations);
  if (!job.in || !job.out || !starts || !ends) MPI_Abort(MPI_COMM_WORLD, 1);
  long wrong = count_wrong(what, &job);
  for (int i = 0; i < warmup; ++i) what->run(&job);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < iterations; ++i) {
    starts[i] = monotonic_us();
    what->run(&job);
    ends[i] = monotonic_us();
  }
  MPI_Allreduce(MPI_IN_PLACE, starts, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, ends, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%ld %ld", bytes, wrong);
    for (int i = 0; i < iterations; ++i) printf(" %.1f", ends[i] - starts[i]);
    printf("\n");
    fflush(stdout);
  }
  free(job.in);
  free(job.out);
  free(starts);
  free(ends);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct Collective* what = NULL;
  for (size_t i = 0; i < sizeof(kCollectives) / sizeof(kCollectives[0]); ++i) {
    if (argc > 1 && strcmp(argv[1], kCollectives[i].name) == 0) what = &kCollectives[i];
  }
  if (what == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 2; i < argc; ++i) {
    long bytes;
    int warmup, iterations;
    if (sscanf(argv[i], "%ld:%d:%d", &bytes, &warmup, &iterations) != 3) {
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    measure(what, bytes, warmup, iterations);
  }
  return MPI_Finalize();
}
