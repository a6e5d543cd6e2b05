"""A communicator of r2ccl.h as an object. Needs no torch but for its exceptions."""

from __future__ import annotations

import ctypes
import dataclasses
import typing

from r2ccl import c_api, errors

INT_MAX = 2**31 - 1  # a longer timeout, 25 days, would wrap around


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of a group; None leaves a field to the environment, R2CCL_*, or the default.

    ifname: the NICs of the data, as R2CCL_SOCKET_IFNAME.
    oob_ifname: the NICs of the rendezvous, as R2CCL_OOB_IFNAME.
    cutoff_ms: how long a host that no NIC reaches, and the end of a group, is waited for.
    reproducible: True makes sums the same whatever fails; all ranks must agree.
    name: appears in errors and in `r2ccl status`.
    algorithm: as R2CCL_ALGO, such as "ring"; all ranks must agree.
    reconfigurable: True makes a group without members, which gets them by r2ccl.reconfigure(), as
        init_process_group(enable_reconfigure=True) of torch 2.14.
    """

    ifname: typing.Optional[str] = None
    oob_ifname: typing.Optional[str] = None
    cutoff_ms: typing.Optional[int] = None
    reproducible: typing.Optional[bool] = None
    name: typing.Optional[str] = None
    algorithm: typing.Optional[str] = None
    reconfigurable: typing.Optional[bool] = None

    def __post_init__(self):
        # ctypes would take an int for the address of a text, and drop the high bits of a number.
        for field, kind in {**dict.fromkeys(("ifname", "oob_ifname", "name", "algorithm"), str),
                            "cutoff_ms": int, "reproducible": bool,
                            "reconfigurable": bool}.items():
            value = getattr(self, field)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"r2ccl.Config: {field}={value!r} must be a {kind.__name__}")
        if self.cutoff_ms is not None and not 1 <= self.cutoff_ms <= INT_MAX:
            raise ValueError(f"r2ccl.Config: cutoff_ms={self.cutoff_ms} must be from 1 to "
                             f"{INT_MAX}")

    @classmethod
    def of_options(cls, options, name):
        """Returns the pg_options of a caller, or without them the settings of a group of this
        name."""
        if options is None:
            return cls(name=name)
        if not isinstance(options, cls):
            raise TypeError("r2ccl: pg_options must be a r2ccl.Config, not "
                            + type(options).__name__)
        return options

    def needs_own_connections(self):
        """Returns whether a group with these settings cannot use the connections of another."""
        return any(each is not None for each in (self.ifname, self.oob_ifname, self.cutoff_ms))

    def as_struct(self, init_timeout_ms):
        """Returns the r2cclConfig_t."""
        given = {name: value.encode() if isinstance(value, str) else value
                 for name, value in vars(self).items() if value is not None}
        given.pop("reconfigurable", None)
        if self.reproducible is not None:
            given["reproducible"] = 1 if self.reproducible else -1
        return c_api.config(init_timeout_ms=min(init_timeout_ms, INT_MAX), **given)


class Communicator:
    """Owns a r2cclComm_t. Calls that wait release the GIL."""

    def __init__(self, library, handle, rank, size):
        self.library = library
        self.handle = handle  # an int; None after destroy()
        self.rank = rank
        self.size = size

    @classmethod
    def create(cls, library, identity, size, rank, config, timeout_ms):
        """Meets the other ranks, which call with the same 128 bytes of `identity`."""
        handle = ctypes.c_void_p()
        given = config.as_struct(timeout_ms)
        errors.check(library, library.calls.r2cclCommInitRankConfig(
            ctypes.byref(handle), size, c_api.r2cclUniqueId.from_buffer_copy(identity), rank,
            ctypes.byref(given)))
        return cls(library, handle.value, rank, size)

    @staticmethod
    def public_id(library, config, timeout_ms):
        """Returns a fresh identity, whose listener is in this process. It has no secret."""
        made = c_api.r2cclUniqueId()
        given = config.as_struct(timeout_ms)
        errors.check(library, library.calls.r2cclGetPublicId(ctypes.byref(made),
                                                             ctypes.byref(given)))
        return bytes(made)

    def split(self, color, key, config, timeout_ms):
        """Returns a communicator of the ranks with this color, or None for color -1. Collective."""
        handle = ctypes.c_void_p()
        given = config.as_struct(timeout_ms)
        errors.check(self.library, self.library.calls.r2cclCommSplit(
            self.handle, color, key, ctypes.byref(handle), ctypes.byref(given)))
        if not handle.value:
            return None
        rank, size = ctypes.c_int(), ctypes.c_int()
        self.library.calls.r2cclCommUserRank(handle, ctypes.byref(rank))
        self.library.calls.r2cclCommCount(handle, ctypes.byref(size))
        return Communicator(self.library, handle.value, rank.value, size.value)

    def create_group(self, ranks, name, config, timeout_ms):
        """Returns a communicator of these ranks of this one, in this order. Only they call it, with
        the same name, and they meet nobody."""
        handle = ctypes.c_void_p()
        given = config.as_struct(timeout_ms)
        errors.check(self.library, self.library.calls.r2cclCommCreateGroup(
            self.handle, (ctypes.c_int * len(ranks))(*ranks), len(ranks), name.encode(),
            ctypes.byref(handle), ctypes.byref(given)))
        return Communicator(self.library, handle.value, ranks.index(self.rank), len(ranks))

    def shrink(self, excluded, flags, config, timeout_ms):
        """Returns a communicator without these ranks of this one, which may have failed. All
        others call it with the same list."""
        handle = ctypes.c_void_p()
        given = config.as_struct(timeout_ms)
        errors.check(self.library, self.library.calls.r2cclCommShrink(
            self.handle, (ctypes.c_int * len(excluded))(*excluded), len(excluded),
            ctypes.byref(handle), ctypes.byref(given), flags))
        rank = self.rank - sum(each < self.rank for each in excluded)
        return Communicator(self.library, handle.value, rank, self.size - len(excluded))

    def failure(self):
        """Returns the exception for the error that ended this communicator, or None."""
        info = errors.info_of(self.library, self.handle)
        if info.code == c_api.r2cclSuccess:
            return None
        ranks = [rank for rank in info.ranks[:info.rank_count] if rank >= 0]
        return errors.make(info.code, info.text.decode(errors="replace"), ranks)

    def report(self):
        """Returns the JSON text of r2cclCommReport; docs/report.md has its fields."""
        room = 64 * 1024
        while True:
            text, size = ctypes.create_string_buffer(room), ctypes.c_size_t(room)
            errors.check(self.library, self.library.calls.r2cclCommReport(
                self.handle, text, ctypes.byref(size)))
            if size.value <= room:
                return text.value.decode()
            room = size.value + 4096  # it may grow meanwhile

    def list_of(self, function, struct):
        """Returns the structs that r2cclCommGetPaths or r2cclCommGetVerdicts has."""
        count = ctypes.c_size_t(64)
        while True:
            room = count.value
            made = (struct * max(room, 1))()
            made[0].size = ctypes.sizeof(struct)
            errors.check(self.library, function(self.handle, made, ctypes.byref(count)))
            if count.value <= room:
                return made[:count.value]

    def descriptor(self):
        """Returns the descriptor that is readable after an operation has completed."""
        number = ctypes.c_int()
        errors.check(self.library, self.library.calls.r2cclCommGetFd(
            self.handle, ctypes.byref(number)))
        return number.value

    def abort(self, reason=None):
        """Ends the communicator at once. The error of the other ranks has the reason."""
        words = None if reason is None else reason.replace("\0", "?").encode(errors="replace")
        errors.check(self.library, self.library.calls.r2cclCommAbortWith(self.handle, words))

    def destroy(self):
        """Ends the communicator in order; waits for the other ranks. Frees it in any case."""
        handle, self.handle = self.handle, None
        errors.check(self.library, self.library.calls.r2cclCommDestroy(handle))
