"""The handle of an operation: torch.distributed.Work."""

import ctypes
import threading
import time

import torch
import torch.distributed as dist

from r2ccl import c_api, cuda, errors, futures, threads

_byref = ctypes.byref
# A wait of the main thread goes on in another one after this time. A wait below 20 ms asks no rank
# for the reason.
SHORT_WAIT_MS = 15
_first_futures = threading.Lock()  # two threads may ask a work for its future at once


def bound_of(timeout, default_ms):
    """Returns milliseconds. torch passes None, or a timedelta that is not positive, for the
    default."""
    if timeout is None or timeout.days < 0:
        return default_ms
    seconds = min(timeout.total_seconds(), threading.TIMEOUT_MAX)
    return max(1, round(seconds * 1000)) if seconds > 0 else default_ms


class Work(dist.Work):
    """An operation of a group. Any thread may use it.

    The group keeps it, and so its tensors, until the operation is complete.
    """

    is_deferred = False  # in a group of calls that has not started

    def __init__(self, group, request, outputs, keep, finish, entry):
        super().__init__()
        self._group = group
        self._request = request  # a c_void_p; None once the operation is complete
        self._outputs = outputs
        self._keep = keep  # everything whose memory the operation uses
        self._finish = finish  # called after success; copies results to their places
        self.entry = entry  # of the recorder
        self._error = None
        self._copies = ()  # those into CUDA tensors, which may still be under way
        self._future = None
        self._lock = threading.Lock()  # held while a thread is in C with the request

    def wait(self, timeout=None):
        """Blocks until the operation is complete, for at most `timeout` (a timedelta) or the
        group's timeout. Returns True.

        Raises the operation's error, or WaitTimeoutError: the operation goes on then."""
        if self._request is not None:
            bound_ms = bound_of(timeout, self.entry.timeout_ms)
            if self.is_deferred:
                raise errors.R2cclError(
                    f"{self.entry.name}: the operation has not started, because it is in a "
                    "coalescing block that has not ended. In such a block give async_op=True, and "
                    "wait after it")
            try:
                if bound_ms <= SHORT_WAIT_MS or not threads.on_main():
                    self.block(bound_ms)
                elif not self._block_briefly():
                    threads.interruptible(lambda: self.block(bound_ms))
            except BaseException:  # a timeout, or what a signal's handler raises
                self._group.give_up(self.entry)
                raise
        if self._error is not None:
            raise self._error
        if self._copies:
            cuda.join(self._copies)
        return True

    def block(self, milliseconds):
        """Blocks in C until the operation is complete. Raises WaitTimeoutError."""
        deadline = time.monotonic() + milliseconds / 1000
        if not self._lock.acquire(blocking=False):
            # Another thread is in C with the request. It may wait longer than this one.
            if not self._lock.acquire(timeout=milliseconds / 1000):
                raise self._group.wait_timed_out(self.entry, errors.make_timeout(
                    f"not complete after {milliseconds} ms. Another thread waits for it, too", []))
            milliseconds = max(1, round(1000 * (deadline - time.monotonic())))
        try:
            is_complete = self._block(milliseconds)
        finally:
            self._lock.release()
        if not is_complete:
            raise self._group.wait_timed_out(self.entry, errors.from_last(
                self._group.library, c_api.r2cclTimeout))

    def _block_briefly(self):
        """Returns whether the operation was complete within SHORT_WAIT_MS."""
        lock = self._lock
        if not lock.acquire(False) and not lock.acquire(timeout=SHORT_WAIT_MS / 1000):
            return False
        try:
            return self._block(SHORT_WAIT_MS)
        finally:
            lock.release()

    def _block(self, milliseconds):
        """Returns whether the operation was complete within the time. The caller holds the lock."""
        if self._request is None:
            return True
        code = self._group.wait_call(_byref(self._request), milliseconds)
        if code == c_api.r2cclTimeout:
            return False
        self._settle(code)
        return True

    def _settle(self, code):
        """The operation is complete with this result of this thread's last call. The caller holds
        the lock."""
        if code:
            self._error = self._group.operation_failed(code)
        elif self._finish is not None:
            try:
                self._finish()
                self._copies = cuda.copies_into(self._outputs)
            except Exception as error:  # for the thread that waits
                self._error = error
        self.entry.end(self._error)
        self._request = self._keep = self._finish = None
        self._group.works.pop(id(self), None)
        if self._future is not None:
            self._keep_promise()

    def is_settled(self):
        """Returns whether a thread has seen that the operation is complete."""
        return self._request is None

    def outputs(self):
        """Returns the output tensors, which need not be complete."""
        return self._outputs

    def forget_outputs(self):
        """Lets go of the tensors, if the operation is complete. A later future has none."""
        if self._request is None:
            self._outputs = []

    def poll(self):
        """Returns whether the operation is complete. Never blocks."""
        if self._request is not None and self._lock.acquire(blocking=False):
            try:
                self._test()
            finally:
                self._lock.release()
        return self._request is None

    def _test(self):
        if self._request is None or self.is_deferred:
            return
        done = ctypes.c_int()
        code = self._group.library.starts.r2cclRequestTest(_byref(self._request), _byref(done))
        if code != c_api.r2cclSuccess or done.value:
            self._settle(code)

    def end(self):
        """Completes an operation whose group has ended."""
        self.poll()
        cuda.finish(self._copies)

    def is_completed(self):
        """Returns whether the operation is complete, with or without an error."""
        return self.poll() and cuda.are_done(self._copies)

    def is_success(self):
        """Returns whether the operation is complete without an error."""
        return self.is_completed() and self._error is None

    def exception(self):
        """Returns the operation's error, or None."""
        self.poll()
        return self._error

    def result(self):
        """Returns the list of output tensors. Waits for them."""
        self.wait()
        return self._outputs

    def synchronize(self):
        """As wait()."""
        self.wait()

    def source_rank(self):
        """Returns the rank of the group that a recv's message came from."""
        return self.entry.peer

    _source_rank = source_rank

    def get_future(self):
        """Returns a torch.futures.Future of the list of output tensors. Its callbacks run in a
        thread of r2ccl. One that waits for a future holds the others up for a second or two.

        An operation that fails, or is not complete after its timeout, gives it a RuntimeError with
        the error's text; exception() has the error itself."""
        with _first_futures:
            if self._future is not None:
                return self._future
            # set_exception() would make C++ code that waits, such as DDP, crash.
            self._outcome, promise = futures.Outcome(), futures.new(self._outputs)
            self._promise = promise
            self._future = promise.then(self._outcome.take)
        if self._request is None:
            self._keep_promise()
        else:
            self._group.watch(self)
        return self._future

    def break_promise(self, error):
        """Ends the future with an error, while the operation goes on."""
        self._keep_promise(error)

    def _keep_promise(self, error=None):
        # The pop is atomic: several threads may come here.
        promise = self.__dict__.pop("_promise", None)
        if promise is None:
            return
        if self._copies:
            cuda.join(self._copies)
        error = error or self._error
        if error is None:
            self._outcome.set(self._outputs)
        else:
            self._outcome.fail(error)
        promise.set_result([] if error else self._outputs)


class WorkSet(dist.Work):
    """Several works as one, whose outputs are those of all."""

    def __init__(self, works):
        super().__init__()
        self._works = works
        self._future = None

    def wait(self, timeout=None):
        """As Work.wait, for all. Raises the first error once none is left to wait for, and a
        timeout at once."""
        first = None
        for work in self._works:
            try:
                work.wait(timeout)
            except errors.WaitTimeoutError as late:
                raise first or late
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
        return True

    def outputs(self):
        """As Work.outputs, of all."""
        return [tensor for work in self._works for tensor in work.outputs()]

    def forget_outputs(self):
        """As Work.forget_outputs, for all."""
        for work in self._works:
            work.forget_outputs()

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
            outcome, promise = futures.Outcome(), futures.new(self.outputs())
            self._future = promise.then(outcome.take)

            def keep_promise(ended):
                tensors = []
                try:
                    tensors = [tensor for part in ended.value() for tensor in part.value()]
                    outcome.set(tensors)
                except RuntimeError as error:
                    outcome.fail(self.exception() or error)
                promise.set_result(tensors)
            parts = torch.futures.collect_all([work.get_future() for work in self._works])
            parts.add_done_callback(keep_promise)
        return self._future
