#!/usr/bin/env python3
"""Compares `r2ccl sim plan` with SimGrid, which shares bandwidth by code of its own: the same plans
on the same networks must take the same time.

usage: compare.py PATH_OF_R2CCL

Installs libsimgrid-dev where it is missing. Where it cannot, that is a failure, or with
R2CCL_ALLOW_SKIP=1 a skip (status 77).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77
NIC_BITS = 50e9
WINDOW, STAGING, BUFFERED_BYTES, ELEMENT_BYTES = 1024, 32, 32768, 4

# Messages that end at the same moment may end in either order. In forests other messages then begin
# first, and the whole takes a little longer or shorter for it.
EXACT, ORDERED = 1e-6, 5e-3

# Collective, algorithm, ranks, bytes, latency in us, {slow host: its rate in 1/1000}, tolerance.
CASES = (
    ("all_reduce", "ring", 8, 16_000_000, 0, {}, EXACT),
    ("all_reduce", "ring", 64, 16_000_000, 2, {5: 500}, EXACT),
    ("all_reduce", "ring", 256, 8_000_000, 2, {9: 750, 200: 500}, EXACT),
    ("all_reduce", "halving_doubling", 16, 16_000_000, 2, {3: 500}, EXACT),
    ("all_reduce", "halving_doubling", 256, 8_000_000, 2, {}, EXACT),
    ("all_reduce", "halving_doubling", 256, 4_000_000, 2, {9: 500}, EXACT),
    ("all_reduce", "recursive_doubling", 24, 100_000, 2, {3: 500}, EXACT),
    ("all_reduce", "direct", 12, 8_000_000, 2, {3: 500}, EXACT),
    ("all_reduce", "nested", 16, 16_000_000, 0, {3: 500}, ORDERED),
    ("all_reduce", "nested", 48, 8_000_000, 2, {3: 500, 4: 750}, ORDERED),
    ("broadcast", "ring", 256, 16_000_000, 2, {9: 500}, EXACT),
    ("broadcast", "halving_doubling", 64, 4_000_000, 2, {9: 500}, EXACT),
    ("reduce_scatter", "ring", 32, 16_000_000, 2, {9: 500}, EXACT),
    ("all_to_all", "direct", 16, 16_000_000, 2, {3: 500, 5: 700}, EXACT),
)
BLOCKS = ("reduce_scatter", "all_to_all")


def make_program(folder):
    """Returns the path of the program that runs plans on SimGrid, or None where that is missing."""
    installed = subprocess.run([ROOT / "scripts" / "install-deps.sh", "--simgrid"], check=False,
                               stdout=sys.stderr).returncode == 0
    if not installed:
        return None
    program = folder / "plan_on_simgrid"
    subprocess.run(["g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror",
                    ROOT / "tests" / "simgrid" / "plan_on_simgrid.cc", "-lsimgrid", "-o", program],
                   check=True)
    return program


def plan_of(r2ccl, collective, algorithm, ranks, size):
    elements = size // ELEMENT_BYTES // (ranks if collective in BLOCKS else 1)
    return subprocess.run([r2ccl, "plan", "show", collective, "-p", str(ranks), "-c", str(elements),
                           "--algorithm", algorithm, "--text"],
                          text=True, stdout=subprocess.PIPE, check=True).stdout


def time_on_simgrid(program, plan, latency_us, slow):
    shares = [f"{host}={rate / 1000}" for host, rate in slow.items()]
    return float(subprocess.run(
        [program, "--log=xbt_cfg.thres:warning", repr(NIC_BITS / 8), repr(latency_us / 1e6),
         str(WINDOW), str(STAGING), str(BUFFERED_BYTES), str(ELEMENT_BYTES), *shares],
        input=plan, text=True, stdout=subprocess.PIPE, check=True).stdout)


def time_by_r2ccl(r2ccl, collective, algorithm, ranks, size, latency_us, slow):
    view = "/".join(str(slow.get(host, 1000)) for host in range(ranks))
    output = subprocess.run(
        [r2ccl, "sim", "plan", collective, "--hosts", str(ranks), "--bytes", str(size),
         "--algorithm", algorithm, "--latency-us", str(latency_us), "--nic-rate", str(NIC_BITS),
         "--healthy-plan", "--view", view, "--json", "-"],
        text=True, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(output)["time_s"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    r2ccl = os.path.abspath(sys.argv[1])
    started = time.monotonic()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        program = make_program(pathlib.Path(folder))
        if program is None:
            print("SKIPPED: libsimgrid-dev is missing")
            return SKIPPED if os.environ.get("R2CCL_ALLOW_SKIP") == "1" else 1
        print("collective       algorithm            ranks  SimGrid ms    r2ccl ms   difference")
        for collective, algorithm, ranks, size, latency_us, slow, tolerance in CASES:
            plan = plan_of(r2ccl, collective, algorithm, ranks, size)
            theirs = time_on_simgrid(program, plan, latency_us, slow)
            ours = time_by_r2ccl(r2ccl, collective, algorithm, ranks, size, latency_us, slow)
            difference = ours / theirs - 1
            differs = abs(difference) > tolerance
            failed += differs
            print(f"{collective:16} {algorithm:20} {ranks:5} {theirs * 1e3:11.6f} "
                  f"{ours * 1e3:11.6f} {difference * 100:10.5f} %"
                  f"{f', more than {tolerance * 100:g} %' if differs else ''}", flush=True)
    print(f"{len(CASES)} plans, {failed} differ; {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
