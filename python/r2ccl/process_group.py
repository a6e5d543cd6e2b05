"""The class that torch.distributed gets for the backend "r2ccl"."""

import datetime
import logging
import sys

import torch
import torch.distributed as dist

from r2ccl import backend, c_api, errors, library, recorder, rendezvous, threads
from r2ccl.collectives import Collectives
from r2ccl.communicator import Communicator, Config
from r2ccl.group import milliseconds
from r2ccl.lifecycle import Lifecycle
from r2ccl.messages import Messages
from r2ccl.new_members import Reconfigurable

log = logging.getLogger("torch.distributed.r2ccl")
NAME = "r2ccl"
# Older torch gives all devices of a group to a backend that is a Python class.
TAKES_ALL_DEVICES = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15)


class ProcessGroupR2ccl(Collectives, Messages, Reconfigurable, Lifecycle, dist.ProcessGroup):
    """A process group whose operations survive the loss of NICs."""

    supports_splitting = False
    supports_coalescing = True
    # Without the class that torch needs, its shrink_group must stop before it ends the old group.
    supports_shrinking = backend.IS_USABLE

    def __init__(self, communicator, store, timeout, record):
        self._begin(communicator.rank, communicator.size, store)
        self._open(communicator, timeout, record)

    def _begin(self, rank, size, store):
        dist.ProcessGroup.__init__(self, rank, size)
        self._store = store
        self._shrinks = {}  # how many groups there were without these ranks
        self.bound_device_id = None

    @classmethod
    def without_members(cls, loaded, options, config):
        """Returns a group whose first reconfigure makes it meet others."""
        rank, size = options.group_rank, options.group_size
        group = cls.__new__(cls)
        group._begin(rank, size, options.store)
        group._prepare(loaded, rank, size, options.timeout, recorder.Recorder(
            options.group_id, list(range(max(size, rank + 1))), rank))
        group.allow_reconfigure(config)
        return group

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

    get_backend = _get_backend

    @property
    def _device_types(self):
        return [torch.device("cpu"), torch.device("cuda")]

    # --- settings ---

    def set_timeout(self, timeout):
        """Sets the bound of the waits of operations that start from now on."""
        self._timeout_ms = milliseconds(timeout)

    _set_default_timeout = set_timeout

    def timeout(self):
        return datetime.timedelta(milliseconds=self._timeout_ms)

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        """Returns the number of collectives that this rank has started."""
        return self._record.started

    # --- groups of calls ---

    def _start_coalescing(self, device=None):
        self._begin_group()

    def _end_coalescing(self, device=None):
        return self._set_of(self._end_group())

    start_coalescing, end_coalescing = _start_coalescing, _end_coalescing

    # --- other groups ---

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None,
                    device_types=None):
        """Returns a group of these ranks of this one, in this order; None on other ranks. Every
        rank of this group must call it, and several groups may be made by one call."""
        ranks = list(ranks)
        if len(set(ranks)) != len(ranks) or not all(0 <= rank < self._size for rank in ranks):
            raise ValueError(f"split_group: {ranks} must be different ranks from 0 to "
                             f"{self._size - 1}")
        is_member = self._rank in ranks
        bound = self.timeout() if timeout is None else timeout
        config = Config.of_options(opts, group_name)
        communicator = threads.interruptible(lambda: self.open_communicator("split_group").split(
            min(ranks) if is_member else c_api.R2CCL_SPLIT_NOCOLOR,
            ranks.index(self._rank) if is_member else 0, config, milliseconds(bound)))
        if communicator is None:
            return None
        world = self._record.ranks
        name = group_name or f"{self._record.name}:split:{ranks}"
        record = recorder.Recorder(name, [world[rank] for rank in ranks], communicator.rank)
        made = ProcessGroupR2ccl(communicator, dist.PrefixStore(f"{name}/", self._store), bound,
                                 record)
        if group_desc:
            made._set_group_desc(group_desc)
        return made

    def shrink(self, ranks_to_exclude, shrink_flags=0, opts=None):
        """Returns a BackendR2ccl over the smaller group, as torch.distributed.shrink_group needs it,
        or before torch 2.14 the group itself. Arguments and errors are those of without_ranks()."""
        made = self.without_ranks(ranks_to_exclude, shrink_flags, opts)
        if not backend.IS_USABLE:
            return made
        if backend.group_below(dist.group.WORLD) is self:
            made.become_default()
        return backend.BackendR2ccl(made)

    def without_ranks(self, ranks_to_exclude, shrink_flags=0, opts=None):
        """Returns a group without these ranks of this one, which may have failed. All others call
        it with the same list. torch does not know the result: see r2ccl.shrink_group.

        Raises RemoteRankError when one more rank has died, R2cclError when another rank has another
        list."""
        excluded = sorted(set(ranks_to_exclude))
        made = self._shrinks.get(tuple(excluded), 0)
        name = f"{self._record.name}:without:{excluded}:{made}"
        config = Config.of_options(opts, name)
        communicator = threads.interruptible(lambda: self.open_communicator("shrink").shrink(
            excluded, shrink_flags, config, self._timeout_ms))
        self._shrinks[tuple(excluded)] = made + 1
        left = [rank for place, rank in enumerate(self._record.ranks) if place not in excluded]
        smaller = ProcessGroupR2ccl(
            communicator, dist.PrefixStore(f"{name}/", self._store), self.timeout(),
            recorder.Recorder(name, left, communicator.rank))
        if self.reconfigurable:
            smaller.allow_reconfigure(self._config)
        return smaller

    def global_ranks(self):
        """Returns the ranks in the default group, by their rank here."""
        return list(self._record.ranks)

    def become_default(self):
        """Numbers the ranks anew."""
        self._record.ranks = list(range(self._size))


def create(options, backend_options=None):
    """Returns the group for torch.distributed.init_process_group and new_group. backend_options
    are their pg_options, a Config or None."""
    store, rank, size = options.store, options.group_rank, options.group_size
    bound_ms, ranks = milliseconds(options.timeout), list(options.global_ranks_in_group)
    try:
        config = Config.of_options(backend_options, options.group_id or None)
        loaded = library.load()
    except (library.LibraryError, TypeError) as error:
        refuse(options, ranks, error)
        raise
    if config.reconfigurable or getattr(options, "enable_reconfigure", False):
        if ranks:
            raise errors.make(c_api.r2cclInvalidUsage, "r2ccl.Config(reconfigurable=True) is for "
                              "the default group")
        return without_members(loaded, options, config)
    parent = parent_of(ranks, config)
    communicator = (meet(loaded, store, rank, size, config, bound_ms) if parent is None else
                    parent.create_group(ranks, options.group_id, config, bound_ms))
    is_default = not ranks  # torch lists none for the group of all
    record = recorder.Recorder(options.group_id, ranks or list(range(size)), rank)
    group = ProcessGroupR2ccl(communicator, store, options.timeout, record)
    warn_of_other_backends(rank)
    if is_default:
        group.listeners.start()  # its verdicts are those of all groups
    return group


def without_members(loaded, options, config):
    """Returns the group for enable_reconfigure."""
    others = other_backends(sys._getframe(1))
    if others:
        raise errors.make(c_api.r2cclInvalidUsage,
                          "enable_reconfigure: the group has multiple backends, r2ccl and "
                          f"{others}; reconfigure is for a group of r2ccl alone")
    return ProcessGroupR2ccl.without_members(loaded, options, config)


def parent_of(ranks, config):
    """Returns the communicator of all ranks, whose connections a group of these ranks can use. None
    for the group of all itself, and for one that must meet."""
    world = backend.group_below(dist.group.WORLD) if ranks else None
    if world is None or config.needs_own_connections():
        return None
    return world.open_communicator("new_group") if world.is_open() else None


def refuse(options, ranks, error):
    """This rank cannot make the group: tells the others, whether they meet by the store or not."""
    rendezvous.refuse(options.store, options.group_rank, error)
    parent = parent_of(ranks, Config())
    if parent is not None:
        made = parent.create_group(ranks, options.group_id, Config(),
                                   milliseconds(options.timeout))
        made.abort(f"it cannot make the group: {error}")
        made.destroy()


def meet(loaded, store, rank, size, config, bound_ms):
    """Returns a communicator whose ranks find each other by the store."""
    identity = rendezvous.identity(loaded, store, rank, size, config, bound_ms)
    communicator = threads.interruptible(lambda: Communicator.create(
        loaded, identity, size, rank, config, bound_ms))
    rendezvous.forget(store, rank)
    return communicator


def other_backends(frame):
    """Returns "cpu:gloo" for a group of the backends "cpu:gloo,cuda:r2ccl", whose maker is one of
    the callers of this frame; "" for a group of r2ccl alone. torch hands the map to no backend."""
    while frame is not None:
        devices = getattr(frame.f_locals.get("backend_config"), "device_backend_map", None)
        if isinstance(devices, dict):
            return ",".join(f"{device}:{name}" for device, name in devices.items() if name != NAME)
        frame = frame.f_back
    return ""


def warn_of_other_backends(rank):
    """Says that r2ccl takes the tensors that the caller meant for another backend."""
    others = other_backends(sys._getframe(1)) if TAKES_ALL_DEVICES and rank == 0 else ""
    if others:
        log.warning(
            "r2ccl: torch %s gives all tensors of a group to r2ccl, because r2ccl's group is a "
            "Python class. So r2ccl takes those of %s, too. For another backend make a second "
            "group: torch.distributed.new_group(backend=...)", torch.__version__, others)


def register():
    """Makes torch.distributed know the backend."""
    # torch 2.15 attaches its flight recorder to a group whose backend has no record of its own. This
    # one has (recorder.py), and torch's recorder cannot serve a group that is a Python class.
    getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set()).add(NAME)
    if not hasattr(dist.Backend, NAME.upper()):
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu", "cuda"])
