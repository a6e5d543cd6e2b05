"""How the ranks of a group get the identity of their communicator: through torch's store.

Anybody who reaches the store reads and writes it. So the identity is public, and the processes' own
secret (R2CCL_SECRET, R2CCL_SECRET_FILE) protects the start. A text from the store is shown, and
believed in nothing: another process than rank 0 may have written it.
"""

from r2ccl import c_api, errors
from r2ccl.communicator import Communicator

KEY = "r2ccl/id"
FAILED = b"error: "
SHOWN_MAX = 500  # characters of a text from the store


def identity(library, store, rank, size, config, timeout_ms):
    """Returns the 128 bytes that all ranks of the group share. Rank 0 makes them."""
    if rank != 0:
        return told(bytes(store.get(KEY)))
    try:
        made = Communicator.public_id(library, config, timeout_ms)
    except Exception as error:
        refuse(store, rank, error)
        raise
    if size > 1:
        store.set(KEY, made)
    return made


def told(given):
    """Returns the identity that the store has. Raises the error that it has instead."""
    if given.startswith(FAILED):
        raise errors.RemoteRankError("torch's store says that rank 0 could not start the group: "
                                     + printable(given[len(FAILED):]))
    if len(given) != c_api.R2CCL_UNIQUE_ID_BYTES:
        raise errors.RemoteRankError(f"torch's store has {len(given)} bytes for {KEY!r}, which are "
                                     "no identity of a group: another process has written them")
    return given


def printable(text):
    """Returns the bytes as one line that moves no cursor and has a bound."""
    shown = text[:4 * SHOWN_MAX].decode(errors="replace")[:SHOWN_MAX]
    return "".join(each if each.isprintable() else "?" for each in shown)


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
