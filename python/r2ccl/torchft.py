"""The group of replicas for the manager of torchft: torchft.Manager(pg=ReplicaGroup(), ...).

Needs the package torchft; tried with torchft 0.2.0. `import r2ccl` does not import this module.
"""

import datetime
import logging
import threading

import torch.distributed as dist
from torchft.process_group import ProcessGroupWrapper

from r2ccl import errors, futures, library, process_group, recorder
from r2ccl.communicator import Config
from r2ccl.group import milliseconds

log = logging.getLogger("torch.distributed.r2ccl")
NAME = "torchft"


class ReplicaGroup(ProcessGroupWrapper):
    """A group whose members the manager replaces: each quorum makes a group of r2ccl.

    timeout: a timedelta; it bounds each wait, and each of the two steps of a meeting of a quorum:
    to get the identity from the store, and to connect. config: a r2ccl.Config or None.

    An error of a meeting or of an allreduce ends the group until the next quorum, and errored()
    returns it. Neither configure() nor an allreduce raises it: torchft 0.2.0's
    DistributedDataParallel ends the program when one does. All other operations raise their errors,
    too. The manager calls configure() in a thread of its own; any thread may start operations.
    """

    def __init__(self, timeout=datetime.timedelta(seconds=60), config=None):
        super().__init__(timeout)
        self._library = library.load()
        self._config = Config.of_options(config, NAME)
        self._lock = threading.Lock()  # guards _error
        self._error = errors.R2cclError("torchft has not configured the group")

    def getBackendName(self):
        return "torchft-r2ccl"

    def configure(self, *args, **kwargs):
        """Ends the present group, and meets the replicas of a quorum. Blocks until all have come,
        or an error ends the meeting: then errored() has it, and the group has no members."""
        try:
            super().configure(*args, **kwargs)
        except (RuntimeError, ValueError) as error:
            log.error("r2ccl: torchft's quorum %s has no group: %s", self._quorum_id, error)
            self._error = error.with_traceback(None)  # its frames would keep the store

    def _create_pg(self, store, rank, world_size):
        communicator = process_group.meet(self._library, store, rank, world_size, self._config,
                                          milliseconds(self._timeout))
        group = process_group.ProcessGroupR2ccl(
            communicator, store, self._timeout,
            recorder.Recorder(self._config.name or NAME, list(range(world_size)), rank))
        group.listeners.start()
        self._error = None
        return group

    @property
    def parent(self):
        """Returns the present group. Raises R2cclError when there is none."""
        group = self._pg
        if group is None:
            raise errors.R2cclError(f"the group of torchft has no members: {self._error}")
        return group

    def errored(self):
        """Returns the first error since the quorum's meeting, or of that meeting; None without
        one."""
        return self._error or (self._pg and self._pg.last_error)

    def fail(self, group, error):
        """An operation of the group has failed: the quorum has to meet again. Ends the group, so
        that the other ranks hear of it, and no operation uses a tensor of this step any more."""
        with self._lock:
            # A group that a quorum has ended says nothing about the present one.
            if group is self._pg and self._error is None:
                self._error = error.with_traceback(None)  # its frames would keep tensors
        group.abort(errors.reason_of(error))

    def allreduce(self, tensors, opts):
        """Returns a Work whose wait() and future raise no error: errored() has it. After the first
        error the tensors stay as they are. Raises ValueError and TypeError for wrong arguments."""
        if isinstance(opts, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
            kind, opts = opts, dist.AllreduceOptions()
            opts.reduceOp = kind
        group, work = self._pg, None
        if group is not None and self._error is None:
            try:
                work = group.allreduce(tensors, opts)
            except errors.R2cclError as error:
                self.fail(group, error)
        return QuietWork(self, group, work, tensors)

    def set_timeout(self, timeout):
        """Sets the bound of the meetings and waits that start from now on."""
        super().set_timeout(timeout)
        if self._pg is not None:
            self._pg.set_timeout(timeout)

    def abort(self, errored=True):
        """Ends the group at once, on all ranks, until the next quorum. errored: False says that
        the manager goes on with another quorum."""
        with self._lock:
            self._error = errors.AbortedError("this replica has aborted the group")
        if self._pg is not None:
            self._pg.abort(None if errored else "has gone on with another quorum")
        super().abort(errored)

    def shutdown(self):
        """Ends the group in order: waits for the other replicas' operations, no longer than for a
        host that is cut off (R2CCL_CUTOFF_S)."""
        with self._lock:
            self._error = self._error or errors.R2cclError("this replica has ended the group")
        group, self._pg = self._pg, None
        if group is not None:
            group.shutdown()


class QuietWork(dist.Work):
    """An allreduce that hands its error to its ReplicaGroup. Any thread may use it."""

    def __init__(self, owner, group, work, tensors):
        super().__init__()
        self._owner = owner
        self._group = group
        self._work = work  # None for a call after an error
        self._tensors = tensors

    def wait(self, timeout=None):
        """Blocks until the operation is complete or has failed. Returns True."""
        if self._work is not None:
            try:
                self._work.wait(timeout)
            except errors.R2cclError as error:
                self._owner.fail(self._group, error)
        return True

    def synchronize(self):
        """As wait()."""
        self.wait()

    def block_current_stream(self):
        """As wait(): the current CUDA stream then waits for the copy back."""
        self.wait()

    def is_completed(self):
        return self._work is None or self._work.is_completed()

    def result(self):
        """Returns the list of tensors. Waits for them."""
        self.wait()
        return self._tensors

    def get_future(self):
        """Returns a torch.futures.Future of the list of tensors, which has no error."""
        if self._work is not None:
            return self._work.get_future().then(self._value)
        future = futures.new(self._tensors)
        future.set_result(self._tensors)
        return future

    def _value(self, future):
        try:
            return future.value()
        except RuntimeError as error:
            self._owner.fail(self._group, self._work.exception() or error)
            return self._tensors
