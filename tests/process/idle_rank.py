#!/usr/bin/env python3
"""One rank of a job that works, is idle for a while and works again. Prints one JSON line: the time
of the first operation after the pause, the number of wrong results, and the report.

usage: idle_rank.py PATH_OF_R2CCL IDLE_SECONDS
"""
import json
import os
import sys
import time

import program
import r2ccl_api as api

COUNT = 100_000


def main():
    program.PATH = sys.argv[1]
    comm = api.Comm.from_environment(api.load())
    data = api.buffer(api.INT32, range(COUNT))
    out = api.buffer(api.INT32, [0] * COUNT)
    wrong = 0

    def reduce(times):
        nonlocal wrong
        for _ in range(times):
            comm.all_reduce(data, out, COUNT, api.INT32, api.MAX)
            wrong += bytes(out) != bytes(data)

    reduce(20)
    comm.barrier()
    time.sleep(float(sys.argv[2]))
    started = time.monotonic()
    reduce(1)
    first_s = time.monotonic() - started
    reduce(20)
    told = {"first_s": first_s, "wrong": wrong, "report": json.loads(comm.report())}
    os.write(1, json.dumps(told).encode() + b"\n")  # in one write: other processes write there too
    comm.destroy()


if __name__ == "__main__":
    main()
