"""How the ranks of a group get the identity of their communicator: through torch's store."""

from r2ccl import errors
from r2ccl.communicator import Communicator

KEY = "r2ccl/id"
FAILED = b"error: "


def identity(library, store, rank, size):
    """Returns the 128 bytes that all ranks of the group share. Rank 0 makes them."""
    if size == 1:
        return Communicator.unique_id(library)
    if rank != 0:
        given = bytes(store.get(KEY))
        if given.startswith(FAILED):
            raise errors.RemoteRankError("rank 0 could not start the group: "
                                         + given[len(FAILED):].decode(errors="replace"))
        return given
    try:
        made = Communicator.unique_id(library)
    except Exception as error:
        refuse(store, rank, error)
        raise
    store.set(KEY, made)
    return made


def refuse(store, rank, error):
    """Rank 0 cannot make the identity, for which the other ranks wait: tells them the reason."""
    if rank == 0:
        store.set(KEY, FAILED + str(error).encode())


def forget(store, rank):
    """All ranks have the identity. The store may serve a later group of the same name: its ranks
    must not find this one's."""
    if rank != 0:
        return
    try:
        store.delete_key(KEY)
    except (NotImplementedError, RuntimeError):  # a store that cannot delete is not used twice
        pass
