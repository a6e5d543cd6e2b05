"""Two processes add vectors by the installed wheel, through ctypes alone. Prints each rank's sum."""

import ctypes
import os
import pathlib
import socket
import subprocess
import sys

from r2ccl import c_api, library

RANKS = 2


def check(calls, code):
    if code != c_api.r2cclSuccess:
        raise SystemExit(calls.r2cclGetLastError(None).decode())


def run_rank():
    loaded = library.load()
    if pathlib.Path(loaded.path).parent != library.PACKAGE:
        raise SystemExit(f"the package loads {loaded.path}, not the library of the wheel")
    calls, comm = loaded.calls, ctypes.c_void_p()
    check(calls, calls.r2cclCommInitEnv(ctypes.byref(comm), None))
    rank = int(os.environ["RANK"])
    values = (ctypes.c_float * 3)(1 + rank, 10 + rank, 100 + rank)
    check(calls, calls.r2cclAllReduce(values, values, len(values), c_api.r2cclFloat32,
                                      c_api.r2cclSum, comm, None))
    check(calls, calls.r2cclCommDestroy(comm))
    os.write(1, f"{' '.join(map(str, values))}\n".encode())  # in one write: both ranks write there


def run_job():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, __file__, "rank"], env=os.environ | {
        "RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port)}) for rank in range(RANKS)]
    return max([rank.wait(60) for rank in ranks])


if __name__ == "__main__":
    sys.exit(run_rank() if sys.argv[1:] else run_job())
