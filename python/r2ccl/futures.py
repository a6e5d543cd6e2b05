"""Futures of operations. One thread of the process completes them; it starts with the first one.

The thread sleeps in the kernel until a communicator's descriptor says that an operation has ended.
While a future lasts longer than a second, a further thread waits in C for the communicator's oldest
one: only such a wait makes r2ccl ask for the rank that is late, and ends at the group's timeout.
"""

import os
import select
import threading
import time

import torch

from r2ccl.errors import WaitTimeoutError

LONG_WAIT_S = 1.0


def new(outputs):
    """Returns a torch future whose value will be the list `outputs`."""
    devices = sorted({tensor.device.index for tensor in outputs if tensor.is_cuda})
    if devices:
        return torch.futures.Future(devices=[torch.device("cuda", index) for index in devices])
    return torch.futures.Future()


class Watched:
    """The works of one communicator that have a future, in the order of their calls."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.works = []
        self.since = {}  # work: when its future was made
        self.waits = False  # a thread waits in C for one of them

    def add(self, work):
        self.works.append(work)
        self.since[work] = time.monotonic()

    def drop(self, work):
        if self.since.pop(work, None) is not None:
            self.works.remove(work)

    def oldest_of_long(self):
        """Returns the oldest work if it has lasted long and no thread waits for it, or None."""
        if self.waits or not self.works:
            return None
        oldest = self.works[0]
        return oldest if time.monotonic() - self.since[oldest] >= LONG_WAIT_S else None


class Poller:
    """Tests the works that have a future, when an operation of their communicator has ended."""

    def __init__(self):
        self._lock = threading.Lock()
        self._watched = {}  # descriptor: Watched
        self._epoll = None
        self._sleeper = self._wakeup = None  # the ends of a pipe: a write ends the thread's sleep
        self._pid = None
        self._thread = None  # the thread that polls

    def watch(self, work, descriptor):
        """Completes the work's future when the operation ends."""
        with self._lock:
            self._start()
            if threading.current_thread() is self._thread:
                # A callback of a future has made this one, and may wait for it: torch's PowerSGD
                # hook does. Another thread polls from now on; this one ends with its callbacks.
                self._start_thread()
            watched = self._watched.get(descriptor)
            if watched is None:
                watched = self._watched[descriptor] = Watched(descriptor)
                self._epoll.register(descriptor, 0)
            watched.add(work)
            if len(watched.works) == 1:
                self._epoll.modify(descriptor, select.EPOLLIN)
                os.write(self._wakeup, b"x")  # the thread may sleep without a bound
        # The thread may have read the event of an operation that had ended before.
        work.poll()

    def forget(self, descriptor):
        """The descriptor's communicator is about to end."""
        if self._pid != os.getpid():  # a forked child; the thread and the epoll are its parent's
            return
        with self._lock:
            if self._watched.pop(descriptor, None) is not None:
                self._epoll.unregister(descriptor)

    def _start(self):
        if self._pid == os.getpid():
            return
        self._watched = {}
        self._epoll = select.epoll()
        self._sleeper, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll.register(self._sleeper, select.EPOLLIN)
        self._pid = os.getpid()
        self._start_thread()

    def _start_thread(self):
        self._thread = threading.Thread(target=self._run, name="r2ccl-futures", daemon=True)
        self._thread.start()

    def _run(self):
        while threading.current_thread() is self._thread:
            for descriptor, _ in self._epoll.poll(self._sleep_bound()):
                self._take_events(descriptor)
            with self._lock:
                all_watched = list(self._watched.values())
            for watched in all_watched:
                self._look_at(watched)

    def _take_events(self, descriptor):
        """Reads the descriptor, which is quiet then until the next event."""
        # The communicator may have ended since the event. Its number can be another file's then.
        with self._lock:
            if descriptor != self._sleeper and descriptor not in self._watched:
                return
            try:
                os.read(descriptor, 8)
            except OSError:  # no event since the last read
                pass

    def _sleep_bound(self):
        with self._lock:
            return LONG_WAIT_S if any(each.works for each in self._watched.values()) else None

    def _look_at(self, watched):
        with self._lock:
            works = list(watched.works)
        ended = [work for work in works if work.poll()]
        with self._lock:
            for work in ended:
                watched.drop(work)
            # Operations without a future must not wake this thread.
            if ended and not watched.works and watched.descriptor in self._watched:
                self._epoll.modify(watched.descriptor, 0)
            long = watched.oldest_of_long()
            if long is None:
                return
            watched.waits = True
            left_ms = long.entry.timeout_ms - round(
                1000 * (time.monotonic() - watched.since[long]))
        threading.Thread(target=self._wait_long, args=(watched, long, max(left_ms, 1)),
                         name="r2ccl-long-wait", daemon=True).start()

    def _wait_long(self, watched, work, left_ms):
        error = None
        try:
            work.block(left_ms)
        except WaitTimeoutError as late:
            error = late
        with self._lock:
            watched.waits = False
            watched.drop(work)
        if error is not None:
            work.break_promise(error)


POLLER = Poller()
