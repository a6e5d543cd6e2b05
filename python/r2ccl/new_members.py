"""Groups whose members change: torch's contract of reconfigure (torch 2.14).

A process has a handle, a text without a secret. The processes that are to be a group agree on a list
of handles by any way, and each calls reconfigure() with it. The first one makes an identity, seals
it for the key of each handle, and puts it into the group's store. A stranger who reads the store
holds none of these keys and cannot take part.
"""

import ctypes
import dataclasses
import datetime
import hashlib
import threading
import time

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from r2ccl import c_api, errors, recorder, rendezvous, threads
from r2ccl.communicator import Communicator
from r2ccl.group import milliseconds
from r2ccl.work import WorkSet

UUID_MAX = 2**63 - 1
POLL_S = 0.002
GROUPS_BITS = 20  # more groups than one membership makes


class Reconfigurable:
    """The calls of a group that was made with enable_reconfigure."""

    reconfigurable = False

    def allow_reconfigure(self, config):
        """From now on reconfigure() may be called. config: the settings of all later
        communicators."""
        self.reconfigurable = True
        self._config = config
        self._used_uuids = set()
        self._destroyed = False

    @property
    def supports_reconfigure(self):
        return self.reconfigurable

    def get_reconfigure_handle(self):
        """Returns the handle of this process: the same text at any time, in all its groups."""
        return own_handle(self.library)

    def reconfigure(self, opts):
        """The processes with opts.handles become the group's members. A list gives the ranks; r2ccl
        orders a set by host. All of them call it, with the same opts.uuid, which the group never
        had before. Returns a Work that is complete.

        opts.timeout: for all to come; None: the group's. opts.hints: r2ccl has none.

        An error leaves the group as it was. Success ends the operations of the former members: a
        process that is no longer a member gets an error that says so.
        """
        if not self.reconfigurable:
            raise errors.make(c_api.r2cclInvalidUsage,
                              "reconfigure: the group was made without enable_reconfigure")
        if self._destroyed:
            raise errors.make(c_api.r2cclInvalidUsage, "reconfigure: the group was destroyed")
        bound_ms = self._timeout_ms if opts.timeout is None else milliseconds(opts.timeout)
        wish = Wish(opts.uuid, listed(opts.handles), time.monotonic() + bound_ms / 1000,
                    self.group_name)
        self._check(wish)
        self._used_uuids.add(wish.uuid)
        communicator = self._meet(wish)
        try:
            if self.is_open():
                self.abort(f"has gone on with other members (reconfigure with uuid={wish.uuid})")
        except BaseException:  # Ctrl-C
            end(communicator)
            raise
        self._take(communicator, wish)
        return WorkSet([])

    def shutdown(self):
        if self.reconfigurable:
            self._destroyed = True
            self._record.forget()
        super().shutdown()

    def _closed(self, name):
        if not self.reconfigurable or self._destroyed:
            return super()._closed(name)
        return errors.R2cclError(
            f"{name}: the group has no members, before the first reconfigure and after an abort: "
            "call torch.distributed._reconfigure, or r2ccl.reconfigure")

    def _meet(self, wish):
        """Returns the communicator of the new members."""
        made, given_up, lock = [], threading.Event(), threading.Lock()

        def run():
            communicator = meet(self.library, self._store, wish, self._config)
            with lock:
                made.append(communicator)
            if given_up.is_set():
                end_all()

        def end_all():
            with lock:
                while made:
                    end(made.pop())
        try:
            threads.interruptible(run)
        except BaseException:  # such as Ctrl-C: the thread may still meet the others
            given_up.set()
            end_all()
            raise
        return made[0]

    def _check(self, wish):
        try:
            place_of(self.library, wish.handles)
        except ValueError as error:
            raise errors.make(c_api.r2cclInvalidUsage, f"reconfigure: {error}") from None
        if not isinstance(wish.uuid, int) or not 0 <= wish.uuid <= UUID_MAX:
            raise errors.make(c_api.r2cclInvalidUsage, f"reconfigure: uuid={wish.uuid} must be a "
                              f"whole number from 0 to {UUID_MAX}")
        if wish.uuid in self._used_uuids:
            raise errors.make(c_api.r2cclInvalidUsage, f"reconfigure: the group has already used "
                              f"uuid={wish.uuid}: each call needs a new one")

    def _take(self, communicator, wish):
        """The group's members are now those of the communicator."""
        self._record.forget()
        self._shrinks.clear()
        record = recorder.Recorder(self.group_name, list(range(communicator.size)),
                                   communicator.rank)
        record.description = self.group_desc
        self._open(communicator, datetime.timedelta(milliseconds=self._timeout_ms), record)
        if self in c10d._world.pg_group_ranks:
            c10d._world.pg_group_ranks[self] = {rank: rank for rank in range(self._size)}
        if self is dist.group.WORLD:
            self.listeners.start()
            # torch names groups by their number in the process, and a newcomer has made fewer.
            c10d._world.group_count = wish.uuid << GROUPS_BITS


@dataclasses.dataclass(frozen=True)
class Wish:
    """One call of reconfigure. deadline: of time.monotonic(). group: the group's name."""

    uuid: int
    handles: list
    deadline: float
    group: str

    def left(self):
        return max(self.deadline - time.monotonic(), 0.001)

    def list_name(self):
        """Returns a name for the list, the same in all that have the same one."""
        return hashlib.sha256("\n".join(self.handles).encode()).hexdigest()[:16]

    def claim_key(self):
        return f"r2ccl/reconfigure/{self.uuid}"

    def id_key(self, rank):
        return f"{self.claim_key()}/{self.list_name()}/{rank}"

    def purpose(self):
        """Returns a text that tells this meeting from all others of these processes."""
        return f"torch {self.group} {self.uuid}".encode()

    def names(self, ranks):
        """Returns words for these ranks: their host and process."""
        return ", ".join("rank {} (host {}, process {})".format(
            rank, *self.handles[rank].split(":")[1:3]) for rank in ranks)


def own_handle(loaded):
    text = ctypes.create_string_buffer(c_api.R2CCL_HANDLE_BYTES)
    errors.check(loaded, loaded.starts.r2cclGetProcessHandle(text))
    return text.value.decode()


def listed(handles):
    """Returns the handles in the order of their ranks. Raises R2cclError for other types."""
    ordered = isinstance(handles, (list, tuple))
    if not ordered and not isinstance(handles, (set, frozenset)):
        raise errors.make(c_api.r2cclInvalidUsage, "reconfigure: handles must be a list or a set, "
                          f"not {type(handles).__name__}")
    for handle in handles:
        if not isinstance(handle, str) or "\0" in handle:
            raise errors.make(c_api.r2cclInvalidUsage, f"reconfigure: {handle!r} is no handle")
    return list(handles) if ordered else sorted(handles)


def as_array(handles):
    return (ctypes.c_char_p * len(handles))(*[handle.encode() for handle in handles])


def place_of(loaded, handles):
    """Returns the place of this process. Raises ValueError, whose text names the wrong handle."""
    place = ctypes.c_int()
    errors.check(loaded, loaded.starts.r2cclFindProcessHandle(
        as_array(handles), len(handles), ctypes.byref(place)))
    return place.value


def meet(loaded, store, wish, config):
    """Returns a communicator of the processes with the handles, in this order."""
    rank = place_of(loaded, wish.handles)
    identity = (hand_out(loaded, store, wish, config) if rank == 0 else
                fetch(loaded, store, wish, rank))
    try:
        return Communicator.create(loaded, identity, len(wish.handles), rank,
                                   config, round(1000 * wish.left()))
    except errors.WaitTimeoutError as error:
        late = f"; not there: {wish.names(error.ranks)}" if error.ranks else ""
        raise errors.make_timeout(f"reconfigure with uuid={wish.uuid} timed out: {error}{late}",
                                  error.ranks) from None


def end(communicator):
    """Ends a communicator whose caller has given up."""
    communicator.abort("was interrupted in reconfigure")
    communicator.destroy()


def hand_out(loaded, store, wish, config):
    """Rank 0 makes the identity, and tells it to the others. Returns it."""
    try:
        claim(store, wish)
        sealed = (c_api.r2cclSealedId * len(wish.handles))()
        given = config.as_struct(round(1000 * wish.left()))
        errors.check(loaded, loaded.calls.r2cclGetSealedIds(
            as_array(wish.handles), len(wish.handles), wish.purpose(), ctypes.byref(given),
            sealed))
    except errors.R2cclError as error:
        for rank in range(1, len(wish.handles)):
            store.set(wish.id_key(rank), rendezvous.FAILED + str(error).encode())
        raise
    for rank in range(1, len(wish.handles)):
        store.set(wish.id_key(rank), bytes(sealed[rank]))
    return unseal(loaded, bytes(sealed[0]), wish)


def claim(store, wish):
    """One list of handles may have the uuid."""
    holder = bytes(store.compare_set(wish.claim_key(), "", wish.list_name()))
    if holder != wish.list_name().encode():
        raise errors.make(c_api.r2cclInvalidUsage,
                          f"reconfigure: uuid={wish.uuid} was already used with another list of "
                          "handles")


def fetch(loaded, store, wish, rank):
    """Returns the identity that rank 0 has made. It makes it when it calls."""
    key = wish.id_key(rank)
    while not store.check([key]):  # a wait of the store would hold up its other users
        if time.monotonic() > wish.deadline:
            raise errors.make_timeout(
                f"reconfigure with uuid={wish.uuid} timed out: {wish.names([0])} has not called "
                f"with the same list of {len(wish.handles)} handles{other_list(store, wish)}", [0])
        time.sleep(POLL_S)
    given = bytes(store.get(key))
    forget(store, key)
    if given.startswith(rendezvous.FAILED):
        raise errors.RemoteRankError(f"torch's store says that {wish.names([0])} could not "
                                     "reconfigure: " + rendezvous.printable(
                                         given[len(rendezvous.FAILED):]))
    if len(given) != c_api.R2CCL_SEALED_ID_BYTES:
        raise errors.RemoteRankError(f"torch's store has {len(given)} bytes for {key!r}, which are "
                                     "no sealed identity: another process has written them")
    return unseal(loaded, given, wish)


def other_list(store, wish):
    """Returns words about another list of handles that has taken the uuid, or ""."""
    try:
        if not store.check([wish.claim_key()]):
            return ""
        holder = bytes(store.get(wish.claim_key()))
    except RuntimeError:
        return ""
    return "" if holder == wish.list_name().encode() else "; others have given another list"


def unseal(loaded, given, wish):
    opened = c_api.r2cclUniqueId()
    sealed = c_api.r2cclSealedId.from_buffer_copy(given)
    errors.check(loaded, loaded.starts.r2cclOpenSealedId(
        ctypes.byref(sealed), as_array(wish.handles), len(wish.handles), wish.purpose(),
        ctypes.byref(opened)))
    return bytes(opened)


def forget(store, key):
    try:
        store.delete_key(key)
    except (NotImplementedError, RuntimeError):  # a store that cannot delete keeps it
        pass


@dataclasses.dataclass
class Options:
    """As torch 2.14's ReconfigureOptions."""

    uuid: int
    handles: object
    timeout: object = None
    hints: object = None


def get_reconfigure_handle(group=None):
    """Returns the text by which other processes name this one in reconfigure()."""
    return _group(group).get_reconfigure_handle()


def reconfigure(uuid, handles, group=None, timeout=None):
    """Gives a group new members, as torch 2.14's dist._reconfigure, with every torch.

    uuid: an int that the group never had before, alike on all. handles: a list, which gives the
    ranks, or a set. group: by default the default group; made with enable_reconfigure=True, or with
    pg_options=r2ccl.Config(reconfigurable=True). timeout: a timedelta; None: the group's.

    Blocks until all have come. Raises a RuntimeError, and leaves the group as it was, when the list
    is wrong, the uuid was used, or the timeout passes.
    """
    _group(group).reconfigure(Options(uuid, handles, timeout)).wait()


def _group(group):
    return dist.group.WORLD if group is None else group
