"""r2ccl.h for tests, by ctypes: one class a handle, and every failed call raises R2cclError."""
import ctypes
import importlib.util
import os
import pathlib

import program

# The module alone, because the package would load torch where it is installed.
_SPEC = importlib.util.spec_from_file_location(
    "c_api", pathlib.Path(__file__).resolve().parents[2] / "python" / "r2ccl" / "c_api.py")
c_api = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(c_api)
UniqueId = c_api.r2cclUniqueId

SUCCESS, INVALID_ARGUMENT, INVALID_USAGE, REMOTE, TIMEOUT, ABORTED = 0, 4, 5, 6, 8, 1000
INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT32, FLOAT64 = 0, 1, 2, 3, 4, 5, 7, 8
SUM, PROD, MAX, MIN, AVG, BAND, BOR, BXOR = 0, 1, 2, 3, 4, 1000, 1001, 1002
C_TYPES = {INT8: ctypes.c_int8, UINT8: ctypes.c_uint8, INT32: ctypes.c_int32,
           UINT32: ctypes.c_uint32, INT64: ctypes.c_int64, UINT64: ctypes.c_uint64,
           FLOAT32: ctypes.c_float, FLOAT64: ctypes.c_double}


class R2cclError(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


def path():
    """Returns the path of the library: a build puts it beside the program."""
    return os.path.join(os.path.dirname(program.PATH), "libr2ccl.so")


def load(library=None):
    """Loads the library, or another one, in the process that becomes a rank, so that the forking
    process never has it."""
    return c_api.declare(ctypes.CDLL(library or path()))


def buffer(datatype, values):
    values = list(values)
    return (C_TYPES[datatype] * len(values))(*values)


class Request:
    def __init__(self, lib, keep):
        self.lib, self.handle, self.keep = lib, ctypes.c_void_p(), keep

    def wait(self, timeout_ms=-1):
        check(self.lib, self.lib.r2cclRequestWait(ctypes.byref(self.handle), timeout_ms))

    def test(self):
        done = ctypes.c_int()
        check(self.lib, self.lib.r2cclRequestTest(ctypes.byref(self.handle), ctypes.byref(done)))
        return bool(done.value)

    def abort(self):
        check(self.lib, self.lib.r2cclRequestAbort(ctypes.byref(self.handle)))


def check(lib, code):
    if code != SUCCESS:
        raise R2cclError(code, lib.r2cclGetLastError(None).decode())


def unique_id(lib):
    made = UniqueId()
    check(lib, lib.r2cclGetUniqueId(ctypes.byref(made)))
    return bytes(made)


def process_handle(lib):
    made = ctypes.create_string_buffer(c_api.R2CCL_HANDLE_BYTES)
    check(lib, lib.r2cclGetProcessHandle(made))
    return made.value


def texts(handles):
    return (ctypes.c_char_p * len(handles))(*handles)


def place_of_process(lib, handles):
    place = ctypes.c_int(-1)
    check(lib, lib.r2cclFindProcessHandle(texts(handles), len(handles), ctypes.byref(place)))
    return place.value


def sealed_ids(lib, handles, purpose=b"test"):
    """Returns the bytes of an id, sealed for each handle."""
    made = (c_api.r2cclSealedId * len(handles))()
    check(lib, lib.r2cclGetSealedIds(texts(handles), len(handles), purpose, None, made))
    return [bytes(each) for each in made]


def open_sealed_id(lib, sealed, handles, purpose=b"test"):
    made = UniqueId()
    given = c_api.r2cclSealedId.from_buffer_copy(sealed)
    check(lib, lib.r2cclOpenSealedId(ctypes.byref(given), texts(handles), len(handles), purpose,
                                     ctypes.byref(made)))
    return bytes(made)


class Comm:
    """One communicator; buffers are ctypes arrays, and every operation takes `wait`."""

    def __init__(self, lib, handle):
        self.lib, self.handle = lib, handle

    @staticmethod
    def from_environment(lib, **config):
        handle = ctypes.c_void_p()
        given = c_api.config(**config)
        check(lib, lib.r2cclCommInitEnv(ctypes.byref(handle), ctypes.byref(given)))
        return Comm(lib, handle)

    @staticmethod
    def from_id(lib, id_bytes, count, rank, **config):
        handle = ctypes.c_void_p()
        given = c_api.config(**config)
        check(lib, lib.r2cclCommInitRankConfig(ctypes.byref(handle), count,
                                               UniqueId.from_buffer_copy(id_bytes), rank,
                                               ctypes.byref(given)))
        return Comm(lib, handle)

    def dup(self):
        handle = ctypes.c_void_p()
        check(self.lib, self.lib.r2cclCommDup(self.handle, ctypes.byref(handle), None))
        return Comm(self.lib, handle)

    def shrink(self, excluded, flags=0):
        """Returns a communicator without these ranks."""
        handle = ctypes.c_void_p()
        check(self.lib, self.lib.r2cclCommShrink(
            self.handle, (ctypes.c_int * len(excluded))(*excluded), len(excluded),
            ctypes.byref(handle), None, flags))
        return Comm(self.lib, handle)

    def unique_id(self):
        made = UniqueId()
        check(self.lib, self.lib.r2cclCommGetUniqueId(self.handle, ctypes.byref(made)))
        return bytes(made)

    def grow(self, count, id_bytes=None, **config):
        """The call of a rank that is there."""
        return Comm._grown(self.lib, self.handle, count, id_bytes, -1, config)

    @staticmethod
    def join(lib, count, id_bytes, rank, **config):
        """The same of a new process."""
        return Comm._grown(lib, None, count, id_bytes, rank, config)

    @staticmethod
    def _grown(lib, comm, count, id_bytes, rank, config):
        handle, given = ctypes.c_void_p(), c_api.config(**config)
        made = None if id_bytes is None else ctypes.byref(UniqueId.from_buffer_copy(id_bytes))
        check(lib, lib.r2cclCommGrow(comm, count, made, rank, ctypes.byref(handle),
                                     ctypes.byref(given)))
        return Comm(lib, handle)

    def revoke(self):
        check(self.lib, self.lib.r2cclCommRevoke(self.handle, 0))

    def ranks_at_fault(self):
        info = c_api.r2cclErrorInfo_t()
        info.size = ctypes.sizeof(info)
        check(self.lib, self.lib.r2cclGetErrorInfo(self.handle, ctypes.byref(info)))
        return list(info.ranks[:info.rank_count])

    def size(self):
        count = ctypes.c_int()
        check(self.lib, self.lib.r2cclCommCount(self.handle, ctypes.byref(count)))
        return count.value

    def rank(self):
        rank = ctypes.c_int()
        check(self.lib, self.lib.r2cclCommUserRank(self.handle, ctypes.byref(rank)))
        return rank.value

    def _operation(self, function, wait, keep, *args):
        if wait:
            return check(self.lib, function(*args, self.handle, None))
        request = Request(self.lib, keep)
        check(self.lib, function(*args, self.handle, ctypes.byref(request.handle)))
        return request

    def all_reduce(self, send, receive, count, datatype=FLOAT32, op=SUM, wait=True):
        return self._operation(self.lib.r2cclAllReduce, wait, (send, receive), send, receive,
                               count, datatype, op)

    def broadcast(self, send, receive, count, root, datatype=FLOAT32, wait=True):
        return self._operation(self.lib.r2cclBroadcast, wait, (send, receive), send, receive,
                               count, datatype, root)

    def reduce(self, send, receive, count, root, datatype=FLOAT32, op=SUM, wait=True):
        return self._operation(self.lib.r2cclReduce, wait, (send, receive), send, receive, count,
                               datatype, op, root)

    def all_gather(self, send, receive, count, datatype=FLOAT32, wait=True):
        return self._operation(self.lib.r2cclAllGather, wait, (send, receive), send, receive,
                               count, datatype)

    def reduce_scatter(self, send, receive, count, datatype=FLOAT32, op=SUM, wait=True):
        return self._operation(self.lib.r2cclReduceScatter, wait, (send, receive), send, receive,
                               count, datatype, op)

    def all_to_all(self, send, receive, count, datatype=FLOAT32, wait=True):
        return self._operation(self.lib.r2cclAllToAll, wait, (send, receive), send, receive,
                               count, datatype)

    def gather(self, send, receive, count, root, datatype=FLOAT32, wait=True):
        return self._operation(self.lib.r2cclGather, wait, (send, receive), send, receive, count,
                               datatype, root)

    def scatter(self, send, receive, count, root, datatype=FLOAT32, wait=True):
        return self._operation(self.lib.r2cclScatter, wait, (send, receive), send, receive, count,
                               datatype, root)

    def send(self, data, count, peer, datatype=FLOAT32, wait=True):
        return self._operation(self.lib.r2cclSend, wait, data, data, count, datatype, peer)

    def recv(self, data, count, peer, datatype=FLOAT32, wait=True):
        return self._operation(self.lib.r2cclRecv, wait, data, data, count, datatype, peer)

    def barrier(self, wait=True):
        return self._operation(self.lib.r2cclBarrier, wait, None)

    def finalize(self):
        check(self.lib, self.lib.r2cclCommFinalize(self.handle))

    def abort(self):
        check(self.lib, self.lib.r2cclCommAbort(self.handle))

    def destroy(self):
        check(self.lib, self.lib.r2cclCommDestroy(self.handle))

    def async_error(self):
        error = ctypes.c_int()
        check(self.lib, self.lib.r2cclCommGetAsyncError(self.handle, ctypes.byref(error)))
        return error.value

    def report(self):
        size = ctypes.c_size_t()
        check(self.lib, self.lib.r2cclCommReport(self.handle, None, ctypes.byref(size)))
        size.value += 4096  # it may grow between the two calls
        text = ctypes.create_string_buffer(size.value)
        check(self.lib, self.lib.r2cclCommReport(self.handle, text, ctypes.byref(size)))
        return text.value.decode()
