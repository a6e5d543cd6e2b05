#!/usr/bin/env python3
"""The cost of each simulated fault to back-to-back AllReduce of 1 MB on 4 hosts x 4 NICs x 250
Mbit/s, in virtual time: exact, the same on every machine, and free of any scheduler's noise.

The stall is how much longer 10 operations from the fault on took, one after the other, or all until
it ended, than as many of the later ones, which see the rest of it if it lasts. A fault that stops
all ranks (a whole host, a partition, a stopped rank) ends after 200 ms; its stall is the time
beyond these 200 ms. Each trial has another moment, host and NIC.
"""
import multiprocessing
import os
import pathlib
import random
import sys

from lab import machine, median, parser, percentile, progress, save
from sim_run import operations_of, scenario, simulate

BYTES = 1 << 20
OPERATIONS = 48
STALL_OPERATIONS = 10
BEGIN_MS = (60, 120)
PAUSE_MS = 200
LASTS_MS = 20_000
# kind, amount, duration (None: to the end), and whether all ranks wait for its end
FAULTS = {
    "none": None,
    **{kind: (kind, 0, None, False) for kind in ("down", "pull", "hole", "hole_tx", "hole_rx", "sever",
                                                 "rail", "control")},
    "mtu_hole": ("mtu_hole", 1000, None, False),
    "loss 1 %": ("loss", 10_000, None, False), "loss 10 %": ("loss", 100_000, None, False),
    "delay 100 ms": ("delay", 100_000_000, None, False), "delay 5 ms": ("delay", 5_000_000, None, False),
    "jitter 20 ms": ("jitter", 20_000_000, None, False),
    "slow 10 %": ("slow", 3_125_000, None, False), "slow 1 %": ("slow", 312_500, None, False),
    "reset": ("reset", 0, None, False), "cut": ("cut", 0, None, False),
    "failed_call": ("failed_call", 3, None, False),
    "readdress": ("readdress", 0, PAUSE_MS, False), "flap, 3 times": ("flap", 3, 300, False),
    **{kind: (kind, 0, PAUSE_MS, True) for kind in ("all_nics", "dark", "partition", "suspend", "stop")},
    "deschedule 20 ms": ("deschedule", 0, 20, True),
}


def scenario_of(name, seed):
    """Returns the TOML of one trial."""
    rng = random.Random(f"{name} {seed}")
    fault = None
    if FAULTS[name]:
        kind, amount, lasts, _ = FAULTS[name]
        host = rng.randrange(1, 4) if kind == "partition" else rng.randrange(4)
        fault = {"kind": kind, "at_ms": rng.uniform(*BEGIN_MS), "when_busy": True,
                 "for_ms": lasts or LASTS_MS, "host": host, "nic": rng.randrange(4),
                 "other_host": (host + rng.randrange(1, 4)) % 4}
        fault |= {"amount": amount} if amount else {}
    return scenario({"seed": seed, "hosts": 4, "nics": 4},
                    {"kind": "all_reduce", "type": "float32", "count": BYTES // 4,
                     "repeat": OPERATIONS}, fault)


def stall_ms(name, document):
    operations = operations_of(document)
    hit = document["faults"][0]["from_ms"] if document["faults"] else sum(BEGIN_MS) / 2
    ends = [end for _, end in operations]
    first = next(i for i, end in enumerate(ends) if end > hit)
    lasts = FAULTS[name] and FAULTS[name][2] or 0
    over = next(i for i, end in enumerate(ends) if end > hit + lasts)
    last = max(first + STALL_OPERATIONS - 1, over)
    steady = (ends[-1] - ends[last]) / (len(ends) - 1 - last)
    stall = max(0, ends[last] - ends[first - 1] - (last - first + 1) * steady)
    waits = FAULTS[name] and FAULTS[name][3]
    return max(0, stall - lasts) if waits else stall


def trial(task):
    r2ccl, name, seed = task
    document, error = simulate(r2ccl, scenario_of(name, seed))
    if document is None:
        return name, {"error": error}
    said = sorted({" ".join(note["what"].split()[1:2]) for note in document["notes"]
                   if note["what"].startswith("verdict: ")})
    return name, {"stall_ms": stall_ms(name, document), "verdicts": said,
                  "checked_elements": document["checked_elements"],
                  "error": "; ".join(document["violations"])[:400] or None}


def summarize(trials):
    stalls = [t["stall_ms"] for t in trials if "stall_ms" in t]
    return {"trials": len(trials), "median": median(stalls), "p99": percentile(stalls, 0.99),
            "max": max(stalls, default=None),
            "verdicts": sorted({said for t in trials for said in t.get("verdicts", [])}),
            "checked_elements": sum(t.get("checked_elements", 0) for t in trials),
            "errors": sorted({t["error"] for t in trials if t["error"]})}


def main():
    p = parser(__doc__)
    p.add_argument("--trials", type=int, default=30, help="of each kind (default 30)")
    options = p.parse_args()
    trials = 3 if options.quick else options.trials
    r2ccl = str(pathlib.Path(options.r2ccl).resolve())
    document = {"what": "sim_stalls", "machine": machine(), "bytes": BYTES, "kinds": {}}
    results = {name: [] for name in FAULTS}
    tasks = [(r2ccl, name, seed) for seed in range(1, trials + 1) for name in FAULTS]
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for done, (name, result) in enumerate(pool.imap_unordered(trial, tasks), 1):
            results[name].append(result)
            if done % 100 == 0:
                progress(f"{done} of {len(tasks)} trials")
    for name, each in results.items():
        row = document["kinds"][name] = summarize(each)
        print(f"{name}: {row}")
    save(options.json, document)
    return 1 if any(row["errors"] for row in document["kinds"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
