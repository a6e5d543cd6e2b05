"""The health of a group: its paths, and the faults that the ranks have agreed on."""

import ctypes
import dataclasses
import logging
import threading
import typing

import torch.distributed as dist

from r2ccl import backend, c_api, errors

log = logging.getLogger("torch.distributed.r2ccl")

STATES = {c_api.r2cclPathDown: "down", c_api.r2cclPathValidating: "validating",
          c_api.r2cclPathUp: "up", c_api.r2cclPathSuspect: "suspect",
          c_api.r2cclPathDrained: "drained", c_api.r2cclPathStandby: "standby"}
SCOPES = {c_api.r2cclScopeNic: "nic", c_api.r2cclScopePair: "pair", c_api.r2cclScopeRail: "rail",
          c_api.r2cclScopeHost: "host", c_api.r2cclScopeProcess: "process"}
KINDS = {c_api.r2cclInterfaceDown: "interface down", c_api.r2cclCarrierLost: "carrier lost",
         c_api.r2cclConnectionLost: "connection lost", c_api.r2cclSilent: "silent",
         c_api.r2cclStalled: "stalled", c_api.r2cclLossy: "lossy",
         c_api.r2cclAddressLost: "address lost", c_api.r2cclTampered: "tampered"}
TEXTS = {"state": STATES, "scope": SCOPES, "kind": KINDS}


def _types(struct):
    """Returns the types of the fields that a class for this struct of the C API has."""
    return {name: str if name in TEXTS or hasattr(kind, "_length_") else int
            for name, kind in struct._fields_ if name != "size"}


class _Copy:
    """A struct of the C API as a value, texts as str."""

    @classmethod
    def of(cls, struct):
        values = {field.name: getattr(struct, field.name) for field in dataclasses.fields(cls)}
        for name, value in values.items():
            if isinstance(value, bytes):
                values[name] = value.decode(errors="replace")
            elif name in TEXTS:
                values[name] = TEXTS[name].get(value, str(value))
        return cls(**values)


@dataclasses.dataclass(frozen=True)
class Path(_Copy):
    """A path from this rank to another one. Times are in nanoseconds, rates in bytes per second;
    r2ccl.h describes each field, under r2cclPathInfo_t. state: "up", "down", "suspect",
    "validating", "drained" or "standby"."""

    __annotations__ = _types(c_api.r2cclPathInfo_t)


@dataclasses.dataclass(frozen=True)
class Verdict(_Copy):
    """A fault that all ranks agree on. r2ccl.h describes each field, under r2cclVerdict_t. scope:
    "nic", "pair", "rail", "host" or "process". str() gives a sentence."""

    __annotations__ = _types(c_api.r2cclVerdict_t)

    def __str__(self):
        if self.scope == "process":
            where = f"rank {self.process} died"
        elif self.scope == "rail":
            where = f"the switch of NIC {self.nic}"
        else:
            where = f"host {self.host}" + (f", NIC {self.nic}" if self.nic else "")
        if self.scope == "pair":
            where += f", or host {self.peer_host}, NIC {self.peer_nic}, or the network between"
        return f"{where}: {self.kind} (found by rank {self.rank})"


@dataclasses.dataclass(frozen=True)
class Health:
    """The state of a group at this moment, as this rank sees it.

    failure: the exception that ended the group, or None.
    """

    rank: int
    size: int
    failure: typing.Optional[Exception]
    paths: typing.List[Path]
    verdicts: typing.List[Verdict]

    @property
    def is_whole(self):
        """Returns whether the group works, and every path is in its normal state."""
        return self.failure is None and all(
            path.state in ("up", "standby") for path in self.paths)


def member(group, name):
    """Returns the ProcessGroupR2ccl for a caller's group. Raises as health()."""
    group = group or dist.group.WORLD
    if group is None:
        raise ValueError("there is no process group: call torch.distributed.init_process_group")
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError(f"{name}: this rank is not in the group. Only its members may ask")
    below = backend.group_below(group)
    if below is None:
        raise TypeError(f"the group's backend is {dist.get_backend(group)}, not r2ccl")
    return below


def _communicator(group, name):
    return member(group, name).open_communicator(name)


def last_error(group=None):
    """Returns the exception of the last operation of a group that failed, by default of the default
    group: an R2cclError, with its ranks. None where none has failed.

    For a handler that got torch's RuntimeError, whose text alone is r2ccl's: from a future, or from
    the backward pass of DDP. Raises TypeError and ValueError as health()."""
    return member(group, "last_error").last_error


def health(group=None):
    """Returns the Health of a group, by default of the default group.

    Takes some microseconds, waits for no network, and may be called from any thread. Raises
    TypeError for a group of another backend, ValueError for one without this rank, R2cclError for
    one that was destroyed."""
    communicator = _communicator(group, "health")
    calls = communicator.library.calls
    return Health(
        communicator.rank, communicator.size, communicator.failure(),
        [Path.of(each) for each in communicator.list_of(
            calls.r2cclCommGetPaths, c_api.r2cclPathInfo_t)],
        [Verdict.of(each) for each in communicator.list_of(
            calls.r2cclCommGetVerdicts, c_api.r2cclVerdict_t)])


def report(group=None):
    """Returns the report of a group as JSON text; docs/report.md has its fields."""
    return _communicator(group, "report").report()


class Listeners:
    """The log and the callbacks of one group. r2ccl calls them in a thread of its own, one after
    another."""

    def __init__(self, communicator, name, earlier=None):
        """earlier: the Listeners of the group's former members, whose callbacks go on."""
        self._communicator = communicator
        self._name = name
        self._callbacks = earlier._callbacks if earlier is not None else []
        self._set = None  # the C callback, while one is set
        self._lock = threading.Lock()
        if self._callbacks:
            self.start()

    def start(self):
        """From now on each verdict is logged: as a warning by rank 0, since all ranks get it."""
        with self._lock:
            if self._set is not None:
                return
            library, made = self._communicator.library, c_api.r2cclVerdictCallback_t(self._hear)
            errors.check(library, library.calls.r2cclCommSetVerdictCallback(
                self._communicator.handle, made, None))
            self._set = made

    def add(self, callback):
        self._callbacks.append(callback)
        self.start()

    def _hear(self, _comm, address, _user):
        struct = ctypes.cast(address, ctypes.POINTER(c_api.r2cclVerdict_t)).contents
        verdict = Verdict.of(struct)
        level = logging.WARNING if self._communicator.rank == 0 else logging.INFO
        log.log(level, "r2ccl: group %s: %s", self._name, verdict)
        for callback in list(self._callbacks):
            try:
                callback(verdict)
            except Exception:  # C cannot take it, and the other callbacks must run
                log.exception("r2ccl: group %s: a callback for verdicts failed", self._name)


def on_verdict(callback, group=None):
    """From now on calls callback(verdict) for each new Verdict of a group, by default of the
    default group, until the group ends.

    The calls come from a thread of r2ccl, one after another, and delay no operation. The callback
    may call health() and abort groups; it must not destroy this one. An exception of it is logged
    at level ERROR. Raises as health()."""
    if not callable(callback):
        raise TypeError(f"on_verdict takes a function, not {type(callback).__name__}")
    _communicator(group, "on_verdict")
    member(group, "on_verdict").listeners.add(callback)
