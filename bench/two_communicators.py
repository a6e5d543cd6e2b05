#!/usr/bin/env python3
"""Two communicators of the same ranks at once: how they share the NICs, and what one costs the
other.

Each host of the lab runs one rank with two communicators, each used by a thread of its own. First
each communicator runs alone, then both run together. The shares are those of the bytes that both
have reduced while both were running.
"""
import ctypes
import json
import os
import pathlib
import sys
import threading
import time

from lab import HOSTS, NIC_MBIT, NICS, Lab, machine, median, output_of, parser, percentile, save

KIB, MIB = 1 << 10, 1 << 20
# Name: bytes of an operation in the first and in the second communicator.
CASES = {"equal": (MIB, MIB), "unequal": (64 * KIB, 64 * MIB)}
FLOAT32, SUM = 7, 0
UNIQUE_ID_BYTES = 128


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * UNIQUE_ID_BYTES)]


class Communicator:
    def __init__(self, lib, unique_id, ranks, rank, size):
        self.lib, self.size = lib, size
        self.values = (ctypes.c_float * (size // 4))()
        self.flag = (ctypes.c_float * 1)()
        self.handle = ctypes.c_void_p()
        self.check(lib.r2cclCommInitRank(ctypes.byref(self.handle), ranks,
                                         UniqueId.from_buffer_copy(unique_id), rank))

    def check(self, result):
        if result != 0:
            sys.exit(f"error {result}: {self.lib.r2cclGetLastError(None).decode()}")

    def run(self, seconds, rank, batch, times):
        """Runs operations until rank 0 finds that the time is over; all ranks run as many."""
        end = time.monotonic() + seconds
        self.flag[0] = 1
        while self.flag[0] != 0:
            for _ in range(batch):
                begin = time.monotonic()
                self.check(self.lib.r2cclAllReduce(self.values, self.values, self.size // 4,
                                                   FLOAT32, SUM, self.handle, None))
                times.append((begin, time.monotonic()))
            if rank == 0:
                self.flag[0] = time.monotonic() < end
            self.check(self.lib.r2cclBroadcast(self.flag, self.flag, 1, FLOAT32, 0, self.handle,
                                               None))


def load(path):
    lib = ctypes.CDLL(path)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    lib.r2cclGetLastError.restype = ctypes.c_char_p
    lib.r2cclGetLastError.argtypes = [pointer]
    lib.r2cclGetUniqueId.argtypes = [pointer]
    lib.r2cclCommDestroy.argtypes = [pointer]
    lib.r2cclCommInitRank.argtypes = [pointer, number, UniqueId, number]
    lib.r2cclAllReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
    lib.r2cclBroadcast.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
    return lib


def unique_ids(lib, rank, directory):
    """Rank 0 writes them for the others, which share its files."""
    path = pathlib.Path(directory) / "ids"
    if rank == 0:
        ids = [UniqueId(), UniqueId()]
        for each in ids:
            if lib.r2cclGetUniqueId(ctypes.byref(each)) != 0:
                sys.exit(lib.r2cclGetLastError(None).decode())
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(b"".join(map(bytes, ids)))
        unfinished.rename(path)
    while not path.exists():
        time.sleep(0.01)
    both = path.read_bytes()
    return both[:UNIQUE_ID_BYTES], both[UNIQUE_ID_BYTES:]


def run_rank(library, directory, first_bytes, second_bytes, seconds):
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    lib = load(library)
    sizes = int(first_bytes), int(second_bytes)
    pair = [Communicator(lib, each, ranks, rank, size)
            for each, size in zip(unique_ids(lib, rank, directory), sizes)]
    batches = [max(1, MIB // size) for size in sizes]
    alone, together = ([], []), ([], [])
    for comm, batch, times in zip(pair, batches, alone):
        comm.run(float(seconds) / 4, rank, batch, [])
        comm.run(float(seconds), rank, batch, times)
    threads = [threading.Thread(target=comm.run, args=(float(seconds), rank, batch, times))
               for comm, batch, times in zip(pair, batches, together)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if rank == 0:
        print("RESULT", json.dumps({"alone": alone, "together": together}), flush=True)
    for comm in pair:
        comm.check(lib.r2cclCommDestroy(comm.handle))


def figures(sizes, measured):
    begin = max(times[0][0] for times in measured["together"])
    end = min(times[-1][1] for times in measured["together"])
    moved = [size * sum(begin <= at[0] and at[1] <= end for at in times)
             for size, times in zip(sizes, measured["together"])]
    result = {"share_of_first": moved[0] / sum(moved)}
    for name, kind in (("first", 0), ("second", 1)):
        for state in ("alone", "together"):
            spent = [1e3 * (after - before) for before, after in measured[state][kind]]
            result[f"{name}_{state}_ms"] = {"median": median(spent), "p99": percentile(spent, 0.99),
                                            "operations": len(spent)}
    return result


def main():
    if sys.argv[1:2] == ["--rank"]:
        return run_rank(*sys.argv[2:])
    p = parser(__doc__)
    p.add_argument("--seconds", type=float, default=6, help="of each phase")
    p.add_argument("--rate", type=int, default=NIC_MBIT, help="Mbit/s of a NIC, 0: as fast as it is")
    p.add_argument("--hosts", type=int, default=HOSTS)
    p.add_argument("--nics", type=int, default=NICS)
    arguments = p.parse_args()
    seconds = 1 if arguments.quick else arguments.seconds
    library = pathlib.Path(arguments.r2ccl).resolve().parent / "libr2ccl.so"
    document = {"machine": machine(), "rate_mbit": arguments.rate, "cases": {}}
    with Lab(arguments.r2ccl, arguments.name, arguments.hosts, arguments.nics,
             arguments.rate) as lab:
        for name, sizes in CASES.items():
            directory = lab.directory / name
            directory.mkdir()
            text = output_of(lab.start(lab.on_all(sys.executable, os.path.abspath(__file__), "--rank",
                                                  library, directory, *sizes, seconds)),
                             60 + 10 * seconds)
            line = next(line for line in text.splitlines() if "RESULT" in line)
            document["cases"][name] = figures(sizes, json.loads(line.split("RESULT", 1)[1]))
            print(name, json.dumps(document["cases"][name], indent=1))
    save(arguments.json, document)


if __name__ == "__main__":
    main()
