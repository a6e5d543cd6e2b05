#!/usr/bin/env python3
"""The time to go on after kill -9, all ranks on this host, or with --lab one on each host of a lab:
from the death to the error of the last survivor, and from the last survivor's call of
r2cclCommShrink to its return on all. One rank of the job is killed after another, in the middle of
AllReduces, until one is left; the lines have the medians and the largest values over the jobs, by
the number of survivors."""
import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import time

import lab

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
COUNT = 100_000


def parsed():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", default=ROOT / "build/libr2ccl.so")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=11)
    parser.add_argument("--r2ccl", default=ROOT / "build/r2ccl")
    parser.add_argument("--lab", action="store_true", help="each rank on a host of its own")
    parser.add_argument("--nics", type=int, default=4, help="of each host in the lab")
    parser.add_argument("--mbit", type=int, default=100, help="of each NIC in the lab")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def run_rank(library):
    """One rank. Prints a line of JSON after each death: [error, call, return], in seconds of the
    host's clock, and the ranks that are left."""
    from r2ccl import c_api
    calls = c_api.declare(ctypes.CDLL(str(library)))

    def check(code):
        if code:
            raise SystemExit(calls.r2cclGetLastError(None).decode())

    def at_fault(comm):
        info = c_api.r2cclErrorInfo_t()
        info.size = ctypes.sizeof(info)
        check(calls.r2cclGetErrorInfo(comm, ctypes.byref(info)))
        return set(info.ranks[:info.rank_count])

    comm = ctypes.c_void_p()
    check(calls.r2cclCommInitEnv(ctypes.byref(comm), None))
    data, count = (ctypes.c_float * COUNT)(), ctypes.c_int()
    print("started", flush=True)
    while True:
        while not calls.r2cclAllReduce(data, data, COUNT, 7, 0, comm, None):
            pass
        failed = time.monotonic()
        excluded = sorted(at_fault(comm))
        left = ctypes.c_void_p()
        called = time.monotonic()
        check(calls.r2cclCommShrink(comm, (ctypes.c_int * len(excluded))(*excluded), len(excluded),
                                    ctypes.byref(left), None, 0))
        print(json.dumps([failed, called, time.monotonic()]), flush=True)
        check(calls.r2cclCommDestroy(comm))
        comm = left
        check(calls.r2cclCommCount(comm, ctypes.byref(count)))
        if count.value == 1:
            return


def rank_command(args):
    return [sys.executable, "-B", os.path.abspath(__file__), "--rank", "--library",
            str(args.library)]


def start_here(args):
    """Starts all ranks on this host. Returns their processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = dict(os.environ, WORLD_SIZE=str(args.ranks), MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=str(port))
    return [subprocess.Popen(rank_command(args), text=True, stdout=subprocess.PIPE,
                             env=dict(common, RANK=str(rank), LOCAL_RANK=str(rank)))
            for rank in range(args.ranks)]


def start_in_lab(args, place):
    """Starts a rank on each host of the lab. Returns their processes."""
    common = dict(place.environment, WORLD_SIZE=str(args.ranks), MASTER_ADDR="h0",
                  MASTER_PORT="29500", LOCAL_RANK="0")
    return [subprocess.Popen([place.r2ccl, "lab", "run", f"h{rank}", *rank_command(args)],
                             text=True, stdout=subprocess.PIPE, env=dict(common, RANK=str(rank)))
            for rank in range(args.ranks)]


def job(ranks, errors, shrinks):
    for rank in ranks:
        assert rank.stdout.readline() == "started\n"
    while len(ranks) > 1:
        time.sleep(0.2)
        victim = ranks.pop(random.randrange(len(ranks)))
        died = time.monotonic()
        victim.kill()
        told = [json.loads(rank.stdout.readline()) for rank in ranks]
        errors.setdefault(len(ranks), []).append(max(each[0] for each in told) - died)
        shrinks.setdefault(len(ranks), []).append(max(each[2] for each in told)
                                                  - max(each[1] for each in told))
    for rank in ranks:
        assert rank.wait() == 0


def main():
    args = parsed()
    if args.rank:
        return run_rank(args.library)
    errors, shrinks = {}, {}
    with contextlib.ExitStack() as stack:
        place = None
        if args.lab:
            place = stack.enter_context(lab.Lab(args.r2ccl, "shrink", args.ranks, args.nics,
                                                args.mbit))
        for _ in range(args.jobs):
            ranks = start_in_lab(args, place) if args.lab else start_here(args)
            job(ranks, errors, shrinks)
    print("survivors | death to the last error, ms | last call to the last return, ms")
    for left in sorted(errors, reverse=True):
        row = [f"{statistics.median(each[left]) * 1e3:.2f} ({max(each[left]) * 1e3:.2f})"
               for each in (errors, shrinks)]
        print(f"{left} | {' | '.join(row)}")


if __name__ == "__main__":
    main()
