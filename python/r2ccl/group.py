"""The state of a group: its communicator, its operations under way, and how they start and end.

Collectives and Messages (collectives.py, messages.py) have the calls, process_group.py the class that
torch sees.
"""

import ctypes
import logging

from r2ccl import c_api, errors, futures
from r2ccl.work import Work, WorkSet

log = logging.getLogger("torch.distributed.r2ccl")
_byref, _pointer = ctypes.byref, ctypes.c_void_p


class Group:
    """What every call of a group needs."""

    def _open(self, communicator, timeout):
        self._communicator = communicator
        self.library = communicator.library
        self._starts = self.library.starts
        self._handle = communicator.handle
        self._rank = communicator.rank
        self._size = communicator.size
        self._timeout_ms = milliseconds(timeout)
        self._works = {}  # id: work; keeps the tensors of all operations under way
        self._sequence = 0
        self._deferred = None  # the calls since _begin_group, which start with _end_group
        self._deferred_reductions = []  # their PREMUL_SUMs
        self._gave_up = False  # a wait has timed out: the operation may never end
        self._descriptor = None

    def _start(self, entry, outputs, keep, finish, timeout, function, *args):
        """Starts function(*args, communicator, request). Returns its Work."""
        if self._handle is None:
            raise self._closed(entry.name)
        bound = self._timeout_ms
        if timeout is not None and timeout.days >= 0:
            bound = milliseconds(timeout)
        work = Work(self, _pointer(), outputs, keep, finish, bound, entry)
        if self._deferred is not None:
            self._deferred.append((work, function, args))
            return work
        code = function(*args, self._handle, _byref(work._request))
        if code:
            raise self._refused(entry, code)
        works = self._works
        works[id(work)] = work
        if len(works) > 1:
            next(iter(works.values())).poll()
        return work

    def _closed(self, name):
        return errors.R2cclError(
            f"{name}: the group was destroyed or aborted. Make a new one, for example by "
            "torch.distributed.init_process_group")

    def _refused(self, entry, code):
        return errors.from_last(self.library, code)

    def operation_ended(self, work):
        self._works.pop(id(work), None)

    def operation_failed(self, work, code):
        return errors.from_last(self.library, code)

    def wait_timed_out(self, work, bound_ms):
        self._gave_up = True
        return errors.from_last(self.library, c_api.r2cclTimeout)

    def watch(self, work):
        if self._descriptor is None:
            self._descriptor = self._communicator.descriptor()
        futures.POLLER.watch(work, self._descriptor)

    def _open_handle(self, name):
        if self._handle is None:
            raise self._closed(name)
        return self._handle

    # --- calls that start together ---

    def _begin_group(self):
        self._deferred, self._deferred_reductions = [], []

    def _end_group(self):
        """Starts the calls since _begin_group together. Returns their works."""
        deferred, self._deferred = self._deferred or [], None
        handle = self._open_handle("_end_coalescing")
        self._starts.r2cclGroupStart()
        for work, function, args in deferred:
            function(*args, handle, _byref(work._request))
        code = self._starts.r2cclGroupEnd()
        error = errors.from_last(self.library, code) if code else None
        for number in self._deferred_reductions:
            self._starts.r2cclRedOpDestroy(number, handle)
        if error is not None:
            raise error
        works = [work for work, _, _ in deferred]
        for work in works:
            self._works[id(work)] = work
        return works

    def _end_reduction(self, number):
        if self._deferred is None:
            self._starts.r2cclRedOpDestroy(number, self._handle)
        else:
            self._deferred_reductions.append(number)

    def _together(self, call, *lists):
        """Returns one Work for call(...) on each row of the lists."""
        if self._deferred is not None:  # the caller is inside a group already
            return WorkSet([call(*row) for row in zip(*lists)])
        self._begin_group()
        try:
            for row in zip(*lists):
                call(*row)
        except BaseException:
            self._deferred = None
            raise
        return WorkSet(self._end_group())

    # --- the end ---

    def _close(self, end):
        """Ends the communicator by end(communicator). Completes all works."""
        if self._handle is None:
            return
        self._handle = None
        if self._descriptor is not None:
            futures.POLLER.forget(self._descriptor)
            self._descriptor = None
        try:
            end(self._communicator)
        finally:
            for work in list(self._works.values()):
                work.poll()


def milliseconds(timeout):
    """Returns a timedelta, or a number of seconds, in milliseconds: 1 or more."""
    seconds = timeout.total_seconds() if hasattr(timeout, "total_seconds") else float(timeout)
    return max(1, round(seconds * 1000))
