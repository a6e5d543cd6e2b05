"""The handle of an operation: torch.distributed.Work."""

import ctypes
import threading

import torch
import torch.distributed as dist

from r2ccl import c_api, cuda, futures

_byref = ctypes.byref


class Work(dist.Work):
    """An operation of a group. Any thread may use it.

    The group keeps it, and so its tensors, until the operation is complete.
    """

    def __init__(self, group, request, outputs, keep, finish, timeout_ms, entry):
        super().__init__()
        self._group = group
        self._request = request  # a c_void_p; None once the operation is complete
        self._outputs = outputs
        self._keep = keep  # all tensors whose memory the operation uses
        self._finish = finish  # called after success; copies results to their places
        self._timeout_ms = timeout_ms
        self._entry = entry  # of the recorder
        self._error = None
        self._future = None
        self._lock = threading.Lock()  # held while a thread is in C with the request

    def wait(self, timeout=None):
        """Blocks until the operation is complete, for at most `timeout` (a timedelta) or the
        group's timeout. Returns True. Raises the operation's error, or WaitTimeoutError: the
        operation goes on then."""
        if self._request is not None:
            self._wait(timeout)
        if self._error is not None:
            raise self._error
        if self._outputs and self._outputs[0].is_cuda:
            cuda.join(self._outputs)
        return True

    def _wait(self, timeout):
        bound = self._timeout_ms
        if timeout is not None:
            given = round(timeout.total_seconds() * 1000)
            if given > 0:  # torch passes 0 for "the group's timeout"
                bound = given
        with self._lock:
            if self._request is None:
                return
            code = self._group.library.calls.r2cclRequestWait(_byref(self._request), bound)
            if code == c_api.r2cclTimeout:
                raise self._group.wait_timed_out(self, bound)
            self._settle(code)

    def _settle(self, code):
        """The operation is complete with this result of this thread's last call. The caller holds
        the lock."""
        if code != c_api.r2cclSuccess:
            self._error = self._group.operation_failed(self, code)
        elif self._finish is not None:
            try:
                self._finish()
            except Exception as error:  # the waiting thread gets it
                self._error = error
        self._request = self._keep = self._finish = None
        self._group.operation_ended(self)
        if self._future is not None:
            self._keep_promise()

    def poll(self):
        """Returns whether the operation is complete. Never blocks."""
        if self._request is not None and self._lock.acquire(blocking=False):
            try:
                self._test()
            finally:
                self._lock.release()
        return self._request is None

    def _test(self):
        if self._request is None:
            return
        done = ctypes.c_int()
        code = self._group.library.starts.r2cclRequestTest(_byref(self._request), _byref(done))
        if code != c_api.r2cclSuccess or done.value:
            self._settle(code)

    def is_completed(self):
        """Returns whether the operation is complete, with or without an error."""
        return self.poll()

    def is_success(self):
        """Returns whether the operation is complete without an error."""
        return self.poll() and self._error is None

    def exception(self):
        """Returns the operation's error, or None."""
        self.poll()
        return self._error

    def result(self):
        """Returns the list of output tensors. Waits for them."""
        self.wait()
        return self._outputs

    def synchronize(self):
        self.wait()

    def source_rank(self):
        """Returns the rank that a recv's message came from."""
        return self._entry.peer

    _source_rank = source_rank

    def get_future(self):
        """Returns a torch.futures.Future of the list of output tensors. Its callbacks run in a
        thread of r2ccl."""
        if self._future is None:
            self._future = self._promise = futures.new(self._outputs)
            if self._request is None:
                self._keep_promise()
            else:
                self._group.watch(self)
        return self._future

    def _keep_promise(self):
        # The pop is atomic: the thread that settles and the one in get_future may both come here.
        promise = self.__dict__.pop("_promise", None)
        if promise is None:
            return
        if self._error is None:
            promise.set_result(self._outputs)
        else:
            promise.set_exception(self._error)


class WorkSet(dist.Work):
    """Several works as one, whose outputs are those of all."""

    def __init__(self, works):
        super().__init__()
        self._works = works
        self._future = None

    def wait(self, timeout=None):
        """As Work.wait, for all. Raises the first error once none is left to wait for."""
        first = None
        for work in self._works:
            try:
                work.wait(timeout)
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
        return True

    def is_completed(self):
        return all([work.is_completed() for work in self._works])

    def is_success(self):
        return all([work.is_success() for work in self._works])

    def exception(self):
        return next(filter(None, [work.exception() for work in self._works]), None)

    def result(self):
        self.wait()
        return [tensor for work in self._works for tensor in work.result()]

    def synchronize(self):
        self.wait()

    def get_future(self):
        """Returns a torch.futures.Future of the list of all output tensors."""
        if self._future is None:
            parts = torch.futures.collect_all([work.get_future() for work in self._works])
            self._future = parts.then(
                lambda ended: [tensor for part in ended.value() for tensor in part.value()])
        return self._future
