// Preloaded into a program, gives it a monotonic clock of its own: the kernel's, less the
// nanoseconds in the file $OWN_CLOCK. A test stops the process, adds the length of its pause to the
// file and lets it continue. Then no time has passed for the process, as in a machine that was
// suspended.
//
// Among the functions that libr2ccl.so calls in the C library, only clock_gettime() and
// pthread_cond_clockwait() know this clock. The waits of epoll are relative and may end early,
// which their callers expect.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int ClockWait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

enum { kSecond = 1000 * 1000 * 1000 };

static const volatile int64_t* behind_ns;  // the content of the file; null before it is mapped
static ClockWait* real_clockwait;

__attribute__((constructor)) static void begin(void) {
  const char* name = getenv("OWN_CLOCK");
  const int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  void* mapped = mmap(NULL, sizeof(*behind_ns), PROT_READ, MAP_SHARED, file, 0);
  real_clockwait = (ClockWait*)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  if (mapped == MAP_FAILED || !real_clockwait) {
    fputs("own_clock: $OWN_CLOCK does not name a file to map\n", stderr);
    _exit(127);
  }
  behind_ns = mapped;
  close(file);
}

static int64_t behind(void) {
  return behind_ns ? __atomic_load_n(behind_ns, __ATOMIC_ACQUIRE) : 0;
}

static void add(struct timespec* time, int64_t ns) {
  ns += time->tv_nsec;
  time->tv_sec += ns / kSecond;
  time->tv_nsec = ns % kSecond;
  if (time->tv_nsec < 0) {
    time->tv_nsec += kSecond;
    --time->tv_sec;
  }
}

int clock_gettime(clockid_t id, struct timespec* time) {
  const int status = (int)syscall(SYS_clock_gettime, id, time);
  if (status == 0 && id == CLOCK_MONOTONIC) add(time, -behind());
  return status;
}

static int is_over(const struct timespec* end) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec > end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

// The kernel's clock went on during a pause, so its timeouts may come too early.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t id,
                           const struct timespec* end) {
  if (id != CLOCK_MONOTONIC) return real_clockwait(condition, mutex, id, end);
  int status;
  do {
    struct timespec kernels_end = *end;
    add(&kernels_end, behind());
    status = real_clockwait(condition, mutex, id, &kernels_end);
  } while (status == ETIMEDOUT && !is_over(end));
  return status;
}
