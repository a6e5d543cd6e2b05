"""The end of a group, and the barrier that finds the ranks that are missing."""

import atexit
import datetime
import multiprocessing
import multiprocessing.util
import os
import sys
import time

import torch

from r2ccl import errors, group_health, messages
from r2ccl.communicator import Communicator
from r2ccl.group import Group, milliseconds

# The messages of monitored_barrier; a user's tags are smaller.
BARRIER_TAG = messages.TAG_MAX

_open_groups = {}  # id: group, of this process


def _end_all(process):
    """Ends the groups that the program has left. An error of the program ends them at once, so that
    the other ranks hear of it."""
    if os.getpid() != process:  # a forked child has none
        return
    error = getattr(sys, "last_value", None) or errors.program_error()
    for group in list(_open_groups.values()):
        group.shutdown() if error is None else group.abort(errors.reason_of(error))


def _at_exit():
    """Calls _end_all at the end of this process."""
    process = os.getpid()
    if multiprocessing.parent_process() is not None:
        # A child of multiprocessing, such as one of torch's spawn, runs no atexit function.
        multiprocessing.util.Finalize(None, _end_all, args=(process,), exitpriority=0)
        return
    atexit.unregister(_end_all)
    atexit.register(_end_all, process)


class Lifecycle(Group):
    """How a group ends."""

    listeners = None  # before there is a communicator

    def _open(self, communicator, timeout, record):
        super()._open(communicator, timeout, record)
        self.listeners = group_health.Listeners(communicator, record.name, self.listeners)
        if not _open_groups:
            _at_exit()
        _open_groups[id(self)] = self

    def open_communicator(self, name):
        """Returns the Communicator. Raises R2cclError, which begins with the name of the caller's
        call, when the group has ended."""
        self._open_handle(name)
        return self._communicator

    def shutdown(self):
        """Ends the group in order. Waits until the other ranks do so, too; no longer than for a
        host that is cut off (R2CCL_CUTOFF_S). If a timeout or an interrupt has ended a
        wait, and its operation is still not complete, this is abort().

        An error is logged, because a caller that ends a group can do nothing about it."""
        if self._is_stuck():
            return self.abort()
        self._close(Communicator.destroy)

    def abort(self, reason=None):
        """Ends the group at once. Its operations fail here with AbortedError, and on the other
        ranks with RemoteRankError, which names this rank and the reason: by default the type and
        the text of the exception that the caller handles."""
        words = reason or errors.reason_of(errors.program_error())

        def end(communicator):
            communicator.abort(words)
            communicator.destroy()
        self._close(end)

    def _close(self, end):
        _open_groups.pop(id(self), None)
        super()._close(end)

    def get_error(self):
        """Returns the kind of the last operation that failed, as torch's ErrorType: since the last
        reconfigure, if there was one. This rank's own abort is no error."""
        kinds = torch._C._distributed_c10d.ErrorType
        if isinstance(self.last_error, errors.WaitTimeoutError):
            return kinds.TIMEOUT
        if isinstance(self.last_error, errors.RemoteRankError):
            return kinds.REMOTE_ERROR
        is_none = self.last_error is None or isinstance(self.last_error, errors.AbortedError)
        return kinds.SUCCESS if is_none else kinds.COMM_ERROR

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Waits for all ranks. Where some do not come, rank 0 raises an error that names the first
        of them, or all with wait_all_ranks; the other ranks raise one, too."""
        bound_ms = self._timeout_ms if timeout is None else milliseconds(timeout)
        deadline = time.monotonic() + bound_ms / 1000
        word = torch.zeros(1, dtype=torch.uint8, device="cpu")
        if self._rank != 0:
            self.send([word], 0, BARRIER_TAG)
            if self._late(self.recv([word], 0, BARRIER_TAG), deadline):
                raise errors.make_timeout(
                    f"Rank {self._rank} successfully reached monitoredBarrier, but received errors "
                    "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty "
                    "rank.", [0])
            return
        works = [(rank, self.recv([torch.zeros_like(word)], rank, BARRIER_TAG))
                 for rank in range(1, self._size)]
        missing = []
        for rank, work in works:
            if self._late(work, deadline):
                missing.append(rank)
                if not wait_all_ranks:
                    break
        if missing:
            names = ", ".join(map(str, missing))
            raise errors.make_timeout(
                f"Rank {self._rank} timed out in monitoredBarrier after {bound_ms} ms. "
                f"Rank{'s' if len(missing) > 1 else ''} {names} failed to pass monitoredBarrier in "
                f"{bound_ms} ms", missing)
        for rank in range(1, self._size):
            self.send([word], rank, BARRIER_TAG)

    @staticmethod
    def _late(work, deadline):
        """Returns whether the work is not complete by then."""
        left = max(deadline - time.monotonic(), 0.001)
        try:
            work.wait(datetime.timedelta(seconds=left))
        except errors.WaitTimeoutError:
            return True
        return False
