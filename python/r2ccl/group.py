"""The state of a group: its communicator, its operations under way, and how they start and end.

Collectives and Messages (collectives.py, messages.py) have the calls, process_group.py has the class
that torch sees.
"""

import ctypes
import logging

from r2ccl import c_api, errors, futures, profile, recorder, threads
from r2ccl.kept import KEPT
from r2ccl.work import Work, WorkSet, bound_of

log = logging.getLogger("torch.distributed.r2ccl")
_byref, _pointer = ctypes.byref, ctypes.c_void_p
# Errors of one call, which leave no trace in the group.
HARMLESS = {c_api.r2cclInvalidArgument}


class Group:
    """The state and the steps that every call of a group uses."""

    def _prepare(self, loaded, rank, size, timeout, record):
        """A group that has no communicator yet."""
        self.library = loaded
        self._starts = loaded.starts
        self.wait_call = loaded.calls.r2cclRequestWait
        self.works = {}  # id: work; keeps the tensors of all operations under way
        self._handle = None  # before there is a communicator, and once it has ended
        self._rank = rank
        self._size = size
        self._timeout_ms = milliseconds(timeout)
        self._deferred = None  # the calls since _begin_group, which start with _end_group
        self._factors = []  # the PREMUL_SUMs of calls that have not started
        self._record = record
        self._dump = None  # the path of the record after the error that ended the group
        self.last_error = None  # the exception of the last operation that failed
        self._given_up = set()  # the entries of operations whose wait has ended before them
        self._descriptor = None

    def _open(self, communicator, timeout, record):
        """The group has this communicator from now on."""
        self._prepare(communicator.library, communicator.rank, communicator.size, timeout, record)
        self._communicator = communicator
        self._handle = communicator.handle

    def _start(self, entry, outputs, keep, finish, timeout, function, *args):
        """Starts function(*args, communicator, request). Returns its Work."""
        if self._handle is None:
            raise self._closed(entry.name)
        entry.timeout_ms = bound_of(timeout, self._timeout_ms)
        request = _pointer()
        work = Work(self, request, outputs, keep, finish, entry)
        if self._deferred is not None:
            work.is_deferred = True
            self._deferred.append((work, function, (*args, self._handle, _byref(request))))
            return work
        works, key = self.works, id(work)
        try:
            code = function(*args, self._handle, _byref(request))
        finally:  # a signal's handler may raise here: the operation has started, and uses the memory
            if request:
                works[key] = work
        if code:
            raise self.operation_failed(code)
        self._record.add(entry)
        if len(works) > 1:
            self._poll_one()
        KEPT.add(work, outputs)
        if profile.is_on():
            profile.record(work)
        return work

    def _poll_one(self):
        """Tests an operation under way, in turn: a program need not wait for its works."""
        works = self.works
        try:
            key, work = next(iter(works.items()))
        except (RuntimeError, StopIteration):  # another thread has just completed one
            return
        if not work.poll() and works.pop(key, None) is not None:
            works[key] = work  # behind the others
            if work.is_settled():  # by another thread, since the pop
                works.pop(key, None)

    def is_open(self):
        """Returns whether the group has not ended; it may have failed."""
        return self._handle is not None

    def _open_handle(self, name):
        if self._handle is None:
            raise self._closed(name)
        return self._handle

    def _closed(self, name):
        return errors.R2cclError(
            f"{name}: the group was destroyed or aborted. Make a new one, for example by "
            "torch.distributed.init_process_group")

    # --- for Work ---

    def operation_failed(self, code):
        """Returns the exception for a failed call of this thread."""
        error = errors.from_last(self.library, code)
        if code in HARMLESS:
            return error
        if self._dump is None:
            self._dump = recorder.dump(self._record.global_rank())
            if code != c_api.r2cclAborted:  # the program's own wish
                log.error("r2ccl: group %s, rank %d: %s", self._record.name, self._rank, error)
        return self._note(_with_record(error, self._dump))

    def wait_timed_out(self, entry, error):
        """Returns the exception for a wait of this thread whose bound has passed."""
        self.give_up(entry)
        error.args = (f"{entry.name} timed out. {error}",)
        entry.error = str(error)
        return self._note(_with_record(error, recorder.dump(self._record.global_rank())))

    def _note(self, error):
        self.last_error = errors.copy_of(error)  # which keeps no frames, and so no tensors
        return error

    def give_up(self, entry):
        """A caller no longer waits for an operation, which may never end."""
        self._given_up = {each for each in self._given_up if each.ended_ns is None} | {entry}

    def _is_stuck(self):
        """Returns whether an operation that a caller has given up is still not complete."""
        for work in list(self.works.values()):
            work.poll()
        return any(entry.ended_ns is None for entry in self._given_up)

    def watch(self, work):
        if self._descriptor is None:
            self._descriptor = self._communicator.descriptor()
        futures.POLLER.watch(work, self._descriptor)

    # --- calls that start together ---

    def _begin_group(self):
        self._deferred = []

    def _end_group(self):
        """Starts the calls since _begin_group together. Returns their works."""
        deferred, self._deferred = self._deferred or [], None
        self._open_handle("_end_coalescing")
        self._starts.r2cclGroupStart()
        for _, function, args in deferred:
            function(*args)
        code = self._starts.r2cclGroupEnd()
        error = self.operation_failed(code) if code else None
        self._drop_factors()
        if error is not None:
            raise error
        for work, _, _ in deferred:
            work.is_deferred = False
            self._record.add(work.entry)
            self.works[id(work)] = work
            if profile.is_on():
                profile.record(work)
        return [work for work, _, _ in deferred]

    def _drop_factors(self):
        """Ends the PREMUL_SUMs of the calls, once these have started."""
        if self._factors and self._deferred is None:
            for number in self._factors:
                self._starts.r2cclRedOpDestroy(number, self._handle)
            self._factors.clear()

    def _together(self, call, *lists):
        """Returns one Work for call(...) on each row of the lists."""
        if self._deferred is not None:  # the caller is inside a group already
            return self._set_of([call(*row) for row in zip(*lists)])
        self._begin_group()
        try:
            for row in zip(*lists):
                call(*row)
        except BaseException:
            self._deferred = None
            self._drop_factors()
            raise
        return self._set_of(self._end_group())

    @staticmethod
    def _set_of(works):
        made = WorkSet(works)
        KEPT.add(made, ())
        return made

    # --- the end ---

    def _close(self, end):
        """Ends the communicator by end(communicator), and completes all works."""
        if self._handle is None:
            return
        self._handle = None
        if self._descriptor is not None:
            futures.POLLER.forget(self._descriptor)
            self._descriptor = None
        try:
            threads.interruptible(lambda: end(self._communicator))
        except errors.R2cclError as error:
            # The group has ended all the same. torch's caller could do nothing else.
            log.error("r2ccl: the end of group %s, rank %d: %s", self._record.name, self._rank,
                      error)
        finally:
            for work in list(self.works.values()):
                work.end()
            self._record.forget()


def _with_record(error, path):
    if path is not None:
        error.dump = path
        error.args = (f"{error} (the last operations of this rank: {path})",)
    return error


def milliseconds(timeout):
    """Returns a timedelta, or a number of seconds, in milliseconds: 1 or more."""
    seconds = timeout.total_seconds() if hasattr(timeout, "total_seconds") else float(timeout)
    return max(1, round(seconds * 1000))
