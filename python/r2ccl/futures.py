"""Futures of operations. One thread of the process completes them; it starts with the first one.

The thread sleeps in the kernel until a communicator's descriptor says that an operation has ended.
"""

import os
import select
import threading

import torch

LONG_WAIT_S = 1.0


def new(outputs):
    """Returns a torch future whose value will be the list `outputs`."""
    devices = sorted({tensor.device.index for tensor in outputs if tensor.is_cuda})
    if devices:
        return torch.futures.Future(devices=[torch.device("cuda", index) for index in devices])
    return torch.futures.Future()


class Poller:
    """Tests the works that have a future, when one of their communicator's has ended."""

    def __init__(self):
        self._lock = threading.Lock()
        self._works = {}  # descriptor: list of works, in the order of their calls
        self._epoll = None
        self._pid = None

    def watch(self, work, descriptor):
        """Completes the work's future when the operation ends."""
        with self._lock:
            self._start()
            watched = self._works.get(descriptor)
            if watched is None:
                watched = self._works[descriptor] = []
                self._epoll.register(descriptor, select.EPOLLIN)
            watched.append(work)
        # The thread may have read the event of an operation that had ended before.
        work.poll()

    def forget(self, descriptor):
        """The descriptor's communicator is about to end."""
        with self._lock:
            if self._works.pop(descriptor, None) is not None:
                self._epoll.unregister(descriptor)

    def _start(self):
        if self._pid == os.getpid():
            return
        self._works = {}
        self._epoll = select.epoll()
        self._pid = os.getpid()
        threading.Thread(target=self._run, args=(self._epoll,), name="r2ccl-futures",
                         daemon=True).start()

    def _run(self, epoll):
        while True:
            for descriptor, _ in epoll.poll():
                try:
                    os.read(descriptor, 8)
                except OSError:  # no event since the last read, or the communicator has ended
                    pass
                self._test(descriptor)

    def _test(self, descriptor):
        with self._lock:
            works = list(self._works.get(descriptor, ()))
        ended = {work for work in works if work.poll()}
        if not ended:
            return
        with self._lock:
            watched = self._works.get(descriptor)
            if watched is not None:
                watched[:] = [work for work in watched if work not in ended]


POLLER = Poller()
