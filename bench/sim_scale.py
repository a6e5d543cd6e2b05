#!/usr/bin/env python3
"""The processor that an AllReduce takes on a rank of a large job: simulated jobs of 16 to 256 ranks
with four NICs each, all in one thread of one process, by ring and by halving-doubling.

valgrind's callgrind counts the instructions of the operations, without the start of the job, as the
same in each run. Functions of the simulator are not counted. A second run without valgrind gives
the processor time, with the simulator's part. All ranks then share the caches of one core, and each
link's state is cold when its turn comes: this time grows faster than the instructions.
"""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from callgrind import Profile
from instruction_ratchet import ENVIRONMENT, SIMULATOR
from lab import ROOT, machine, parser, progress, save

PROGRAM = ROOT / "build" / "simulated_scale"
RANKS = (16, 64, 256)
QUICK_RANKS = (4, 16)
NICS = 4
BYTES = 64 << 10
STEPS = {"ring": lambda ranks: 2 * (ranks - 1), "hd": lambda ranks: 2 * int(math.log2(ranks))}
COUNTED = 1  # operations under callgrind
TIMED = 4


def run(ranks, algorithm, operations, wrapper=(), environment=None):
    done = subprocess.run([*wrapper, PROGRAM, *map(str, (ranks, NICS, BYTES, operations)), algorithm],
                          env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{PROGRAM.name} {ranks} {algorithm}: {done.stderr[-400:]}")
    return json.loads(done.stdout)


def instructions(ranks, algorithm):
    """Returns the instructions of one operation on one rank, and the elements that were checked."""
    with tempfile.TemporaryDirectory(prefix="r2callgrind-") as directory:
        out = pathlib.Path(directory) / "out"
        ran = run(ranks, algorithm, COUNTED,
                  ("valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no",
                   f"--callgrind-out-file={out}"), ENVIRONMENT)
        own = Profile(out).own
    engine = sum(count for name, count in own.items() if SIMULATOR not in name)
    if engine == 0:
        sys.exit(f"{PROGRAM.name} was built without valgrind/callgrind.h")
    return engine / COUNTED / ranks, ran["checked_elements"]


def measure(ranks, algorithm):
    counted, checked = instructions(ranks, algorithm)
    timed = run(ranks, algorithm, TIMED)
    return {"ranks": ranks, "algorithm": algorithm, "steps": STEPS[algorithm](ranks),
            "instructions": counted, "processor_us": 1e6 * timed["operations_s"] / TIMED / ranks,
            "simulated_ms": timed["simulated_ms"] / TIMED, "start_s": timed["start_s"],
            "memory_mib": timed["memory_kb"] / 1024,
            "checked_elements": checked + timed["checked_elements"]}


def main():
    options = parser(__doc__).parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing: apt-get install valgrind")
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is missing: cmake --build build --target {PROGRAM.name}")
    document = {"what": "sim_scale", "machine": machine(), "nics": NICS, "bytes": BYTES, "rows": []}
    for algorithm in STEPS:
        for ranks in QUICK_RANKS if options.quick else RANKS:
            progress(f"{ranks} ranks, {algorithm}")
            row = measure(ranks, algorithm)
            document["rows"].append(row)
            print(f"{algorithm:4} {ranks:3} ranks, {row['steps']:3} steps: "
                  f"{row['instructions']:,.0f} instructions and {row['processor_us']:,.0f} us of "
                  f"processor per rank and operation, {row['memory_mib']:,.0f} MiB", flush=True)
    save(options.json, document)


if __name__ == "__main__":
    main()
