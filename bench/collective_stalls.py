#!/usr/bin/env python3
"""The stall of each collective when a NIC fails, beside that of AllReduce: the trials of
fault_trials.py with 1 MB on 4 hosts x 4 NICs x 250 Mbit/s, for one collective after the other, in
one run. "none" breaks nothing: it shows the noise of the machine.
"""
import dataclasses
import sys

from fault_trials import BYTES, Pace, job, shown, summarize
from lab import Lab, machine, parser, progress, save

COLLECTIVES = ["all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "alltoall",
               "gather", "scatter"]
KINDS = ["none", "down", "hole"]


def measure(lab, options, collective):
    pace = Pace(BYTES["1M"], collective=collective)
    seconds = pace.seconds(options.trials, len(KINDS))
    timed = job(lab, options, pace, seconds, options.trials, check=False)
    row = {"error": timed["error"], "baseline_ms": timed["baseline_ms"],
           "kinds": {kind: summarize(kind, timed["trials"], pace.bytes) for kind in KINDS}}
    row["trials"] = [dataclasses.asdict(trial) for trial in timed["trials"]]
    return row


def print_table(rows):
    print(f"\n{'1 MB':15} {'median ms':>9}" + "".join(f"{kind + ' stall':>12} {'p99':>7}"
                                                     for kind in KINDS))
    for collective, row in rows.items():
        stalls = [row["kinds"][kind]["stall_ms"] for kind in KINDS]
        print(f"{collective:15} {shown(row['baseline_ms'], 2):>9}"
              + "".join(f"{shown(s['median']):>12} {shown(s['p99']):>7}" for s in stalls)
              + (f"  {row['error']}" if row["error"] else ""))


def main():
    p = parser(__doc__)
    p.add_argument("--trials", type=int, default=20, help="of each kind (default 20)")
    p.add_argument("--collectives", nargs="+", choices=COLLECTIVES, default=COLLECTIVES)
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    options.kinds = KINDS
    if options.quick:
        options.trials = 1
    rows = {}
    with Lab(options.r2ccl, options.name) as lab:
        for collective in options.collectives:
            progress(collective)
            rows[collective] = measure(lab, options, collective)
    print_table(rows)
    save(options.json, {"what": "collective_stalls", "machine": machine(), "bytes": BYTES["1M"],
                        "trials": options.trials, "seed": options.seed, "rows": rows})
    return 1 if any(row["error"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
