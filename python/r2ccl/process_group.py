"""The class that torch.distributed gets for the backend "r2ccl"."""

import datetime

import torch
import torch.distributed as dist

from r2ccl import library, recorder, rendezvous
from r2ccl.collectives import Collectives
from r2ccl.communicator import Communicator, Config
from r2ccl.group import milliseconds
from r2ccl.messages import Messages
from r2ccl.work import WorkSet

NAME = "r2ccl"


class ProcessGroupR2ccl(Collectives, Messages, dist.ProcessGroup):
    """A process group whose operations survive the loss of NICs."""

    supports_splitting = False
    supports_coalescing = True

    def __init__(self, communicator, store, timeout, record):
        dist.ProcessGroup.__init__(self, communicator.rank, communicator.size)
        self._store = store
        self.bound_device_id = None
        self._open(communicator, timeout, record)

    # --- identity ---

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    getRank, getSize = rank, size

    def name(self):
        return NAME

    getBackendName = _get_backend_name = name

    @property
    def group_name(self):
        return self._record.name

    def getGroupName(self):
        return self._record.name

    def _set_group_name(self, name):
        self._record.name = name

    setGroupName = _set_group_name

    @property
    def group_desc(self):
        return self._record.description

    def getGroupDesc(self):
        return self._record.description

    def _set_group_desc(self, description):
        self._record.description = description

    setGroupDesc = _set_group_desc

    def get_group_store(self):
        return self._store

    def _get_backend(self, device):
        return self

    @property
    def _device_types(self):
        return [torch.device("cpu"), torch.device("cuda")]

    # --- settings ---

    def set_timeout(self, timeout):
        """Sets the bound of the waits of operations that start from now on."""
        self._timeout_ms = milliseconds(timeout)

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        """Returns the number of collectives that this rank has called."""
        return self._sequence

    # --- groups of calls ---

    def _start_coalescing(self, device=None):
        self._begin_group()

    def _end_coalescing(self, device=None):
        return WorkSet(self._end_group())

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    # --- the end ---

    def shutdown(self):
        """Ends the group in order. Waits until the other ranks do so, too; no longer than for a
        host that is cut off (R2CCL_CUTOFF_S)."""
        if self._gave_up:
            return self.abort()
        self._close(Communicator.destroy)

    def abort(self):
        """Ends the group at once. Its operations fail on every rank."""
        def end(communicator):
            communicator.abort()
            communicator.destroy()
        self._close(end)


def create(options, backend_options=None):
    """Returns the group for torch.distributed.init_process_group and new_group."""
    loaded = library.load()
    config = backend_options if isinstance(backend_options, Config) else Config(
        name=options.group_id or None)
    timeout_ms = milliseconds(options.timeout)
    store, rank, size = options.store, options.group_rank, options.group_size
    identity = rendezvous.identity(loaded, store, rank, size)
    communicator = Communicator.create(loaded, identity, size, rank, config,
                                       min(timeout_ms, 2**31 - 1))
    rendezvous.forget(store, rank)
    record = recorder.Recorder(options.group_id, list(options.global_ranks_in_group), rank)
    return ProcessGroupR2ccl(communicator, store, options.timeout, record)


def register():
    """Makes torch.distributed know the backend."""
    if not hasattr(dist.Backend, NAME.upper()):
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu", "cuda"])
