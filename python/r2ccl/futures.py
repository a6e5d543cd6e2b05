"""Futures of operations. One thread of the process completes them; it starts with the first one.
Another one replaces it while a callback lasts.

The thread sleeps in the kernel until a communicator's descriptor says that an operation has ended.
While a future lasts longer than a second, a further thread waits in C for the communicator's one
whose timeout comes first: only such a wait makes r2ccl ask for the rank that is late.
"""

import functools
import itertools
import math
import os
import select
import threading
import time

import torch

from r2ccl import errors

LONG_WAIT_S = 1.0
BRIEF_WAIT_MS = 20  # the shortest wait that asks for the rank that is late


def new(outputs):
    """Returns a torch future whose value will be the list `outputs`."""
    devices = sorted({tensor.device.index for tensor in outputs if tensor.is_cuda})
    if devices:
        return torch.futures.Future(devices=[torch.device("cuda", index) for index in devices])
    return torch.futures.Future()


# Its throw(error) raises the error in C, and adds no frame: a generator that has ended runs none.
_ENDED = (nothing for nothing in ())
next(_ENDED, None)


class Outcome:
    """The value of a future, or its error, which a callback of the future takes.

    torch puts the frames of a callback that raises into its error's text, where the user of DDP
    reads it. So take() is a function of C, and calls no function of Python."""

    def __init__(self):
        self._parts = []  # one, once it is known
        chain = itertools.chain.from_iterable(self._parts)
        self.take = functools.partial(next, chain)  # (promise)

    def set(self, value):
        self._parts.append([value])

    def fail(self, error):
        # The error has a traceback if a wait has raised it.
        bare = errors.copy_of(error) if isinstance(error, errors.R2cclError) else RuntimeError(
            f"{type(error).__name__}: {error}")
        self._parts.append(map(_ENDED.throw, [bare]))


class Watched:
    """The works of one communicator that have a future, in the order of their calls."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.works = []
        self.since = {}  # work: when its future was made
        self.waited = set()  # those for which a thread waits in C

    def add(self, work):
        self.works.append(work)
        self.since[work] = time.monotonic()

    def drop(self, work):
        if self.since.pop(work, None) is not None:
            self.works.remove(work)

    def next_to_wait(self):
        """Returns (a work, its milliseconds up to its timeout) for a thread that waits in C. Returns
        (None, 0) while none has lasted long, or while a thread waits and no timeout has passed."""
        now, found, least_ms = time.monotonic(), None, math.inf
        for work in self.works:
            left_ms = work.entry.timeout_ms - round(1000 * (now - self.since[work]))
            if work not in self.waited and left_ms < least_ms:
                found, least_ms = work, left_ms
        if found is None or (least_ms > 0 and (
                self.waited or now - self.since[found] < LONG_WAIT_S)):
            return None, 0
        return found, max(least_ms, BRIEF_WAIT_MS)


class Poller:
    """Tests the works that have a future, when an operation of their communicator has ended."""

    def __init__(self):
        self._lock = threading.Lock()
        self._watched = {}  # descriptor: Watched
        self._epoll = None
        self._sleeper = self._wakeup = None  # the ends of a pipe: a write ends the thread's sleep
        self._pid = None
        self._thread = None  # the thread that polls
        self._calling_since = None  # when it began to complete futures, whose callbacks it runs
        self._has_works = threading.Condition(self._lock)

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
                self._has_works.notify_all()  # after a fork the parent's thread counts, too
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
        threading.Thread(target=self._relieve, name="r2ccl-futures-relief", daemon=True).start()

    def _start_thread(self):
        self._calling_since = None
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

    def _relieve(self):
        """Lets another thread poll where a callback lasts: it may wait for a future under way."""
        while True:
            with self._lock:
                self._has_works.wait_for(self._any_works)
            time.sleep(LONG_WAIT_S)
            with self._lock:
                since = self._calling_since
                if since is not None and time.monotonic() - since > LONG_WAIT_S:
                    self._start_thread()

    def _note_calls(self, since):
        if threading.current_thread() is self._thread:  # and not one that has been replaced
            self._calling_since = since

    def _any_works(self):
        return any(each.works for each in self._watched.values())

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
            return LONG_WAIT_S if self._any_works() else None

    def _look_at(self, watched):
        with self._lock:
            works = list(watched.works)
            self._note_calls(time.monotonic())
        ended = [work for work in works if work.poll()]
        with self._lock:
            self._note_calls(None)
            for work in ended:
                watched.drop(work)
            # Operations without a future must not wake this thread.
            if ended and not watched.works and watched.descriptor in self._watched:
                self._epoll.modify(watched.descriptor, 0)
            long, left_ms = watched.next_to_wait()
            if long is None:
                return
            watched.waited.add(long)
        threading.Thread(target=self._wait_long, args=(watched, long, left_ms),
                         name="r2ccl-long-wait", daemon=True).start()

    def _wait_long(self, watched, work, left_ms):
        error = None
        try:
            work.block(left_ms)
        except errors.WaitTimeoutError as late:
            error = late
        with self._lock:
            watched.waited.discard(work)
            watched.drop(work)
        if error is not None:
            work.break_promise(error)


POLLER = Poller()
