"""The exceptions of the backend. Each has r2ccl's error text, which names the cause, and the ranks at
fault. All but a wrong argument are torch.distributed.DistBackendError, so a RuntimeError, too."""

import builtins
import ctypes
import sys

import torch.distributed as dist

from r2ccl import c_api


class R2cclError(dist.DistBackendError):
    """An operation failed.

    code: a result of r2ccl.h such as r2ccl.c_api.r2cclInvalidUsage.
    ranks: the ranks at fault, as numbers in the group; may be empty.
    dump: the path of the record of the last operations, or None.
    """

    code = c_api.r2cclInternalError
    ranks = ()
    dump = None


class RemoteRankError(R2cclError, dist.DistNetworkError):
    """Another rank died, left, or aborted; `ranks` has its number. The group cannot be used."""


class AbortedError(R2cclError):
    """This rank aborted the group."""


class WaitTimeoutError(R2cclError, builtins.TimeoutError):
    """The bound of a wait, or of the start of a group, has passed. `ranks` has the late ranks that
    are known. An operation goes on after the timeout: its tensors stay in use until it is complete
    or the group is aborted."""


CLASSES = {
    c_api.r2cclRemoteError: RemoteRankError,
    c_api.r2cclTimeout: WaitTimeoutError,
    c_api.r2cclAborted: AbortedError,
}


def info_of(library, comm=None):
    """Returns the r2cclErrorInfo_t of this thread's last error, or of the one that ended `comm`."""
    info = c_api.r2cclErrorInfo_t()
    info.size = ctypes.sizeof(info)
    library.starts.r2cclGetErrorInfo(comm, ctypes.byref(info))
    return info


def make(code, text, ranks=()):
    """Returns the exception for a result code of r2ccl.h."""
    if code == c_api.r2cclInvalidArgument:
        return ValueError(text)
    error = CLASSES.get(code, R2cclError)(text)
    error.code = code
    error.ranks = tuple(ranks)
    return error


def copy_of(error):
    """Returns an equal exception without a traceback, which would keep the variables of frames."""
    made = type(error)(*error.args)
    vars(made).update(vars(error))
    return made


def make_timeout(text, ranks):
    """Returns the exception for ranks that are late."""
    return make(c_api.r2cclTimeout, text, ranks)


def from_last(library, code):
    """Returns the exception for the call of this thread that has just failed with `code`."""
    info = info_of(library)
    text = info.text.decode(errors="replace")
    if not text:
        text = library.starts.r2cclGetErrorString(code).decode()
    ranks = [rank for rank in info.ranks[:min(info.rank_count, len(info.ranks))] if rank >= 0]
    return make(code, text, ranks)


def program_error():
    """Returns the exception that this thread handles; None without one. An exit that an exception
    has led to counts as that exception."""
    error = sys.exc_info()[1]
    while isinstance(error, SystemExit) and error.code not in (None, 0) and error.__context__:
        error = error.__context__
    return None if isinstance(error, SystemExit) else error


def reason_of(error):
    """Returns the words for the other ranks, in one line, about an exception that ends this one;
    None without one."""
    if error is None:
        return None
    try:
        text = " ".join(str(error).split())
    except Exception:  # a class of the program's own may raise here
        text = ""
    return f"raised {type(error).__name__}" + (f": {text}" if text else "")


def check(library, code):
    """Raises the exception for a call of this thread that failed."""
    if code != c_api.r2cclSuccess:
        raise from_last(library, code)
