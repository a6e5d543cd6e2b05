#!/usr/bin/env python3
"""The price of a communicator over the links of a large job, in simulated jobs of 16 to 256 ranks
with two NICs each: the heap of a rank and the simulated time for one more, the connections of eight
beside those of one, and the heap and the time of the start of the first.

The last line gives the growth with the ranks, as the power of their number.
"""
import json
import math
import os
import subprocess
import sys

from lab import ROOT, machine, parser, progress, save

PROGRAM = ROOT / "build" / "simulated_communicators"
RANKS = (16, 64, 256)
QUICK_RANKS = (16, 64)
NICS = 2
GROWING = {"idle_bytes": "one more", "made_ms": "its making", "start_bytes": "the start",
           "start_ms": "its time"}


def measure(ranks):
    done = subprocess.run([PROGRAM, str(ranks), str(NICS)], text=True, capture_output=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{PROGRAM.name} {ranks}: {done.stderr[-400:]}")
    return json.loads(done.stdout)


def growth(few, many, what):
    return math.log(many[what] / few[what]) / math.log(many["ranks"] / few["ranks"])


def main():
    options = parser(__doc__).parse_args()
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is missing: cmake --build build --target {PROGRAM.name}")
    document = {"what": "communicators", "machine": machine(), "nics": NICS, "rows": []}
    for ranks in QUICK_RANKS if options.quick else RANKS:
        progress(f"{ranks} ranks")
        row = measure(ranks)
        document["rows"].append(row)
        print(f"{ranks:3} ranks: one more communicator {row['idle_bytes'] / 1024:,.1f} KB a rank "
              f"({row['join_bytes'] / 1024:,.1f} KB by its join) in {row['made_ms']:.2f} ms; "
              f"{row['connections']:,} connections of one, {row['connections_of_8']:,} of eight; "
              f"the start {row['start_bytes'] / 1024:,.0f} KB a rank with the simulator's part, in "
              f"{row['start_ms']:.1f} ms ({row['connected_ms']:.1f} ms to connect)", flush=True)
    few, many = document["rows"][0], document["rows"][-1]
    print(f"growth from {few['ranks']} to {many['ranks']} ranks: " + ", ".join(
        f"{name} ranks^{growth(few, many, what):.2f}" for what, name in GROWING.items()))
    save(options.json, document)


if __name__ == "__main__":
    main()
