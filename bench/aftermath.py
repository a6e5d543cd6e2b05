#!/usr/bin/env python3
"""The cost of a broken NIC long after it broke: back-to-back AllReduce of 1 MB on 4 hosts x 4 NICs
x 250 Mbit/s, one fault that stays for --hold seconds in each trial.

An operation that starts FROM_S to --hold seconds after the fault counts as slow if it took more
than SLOW times the median of these operations. "none" breaks nothing and counts the same seconds:
it shows the noise of the machine. Each trial is a job of its own; kinds take turns.
"""
import random
import sys
import time

from lab import (Failed, HOSTS, Lab, NICS, machine, median, parser, percentile, progress, save,
                 trials_of)

BYTES = 1 << 20
KINDS = ["none", "down", "pull", "hole", "hole-tx", "hole-rx"]
FROM_S = 1.0
SLOW = 1.5
# The time that a job runs before the fault, and after the counted time.
HEALTHY_S = 1.0
SPARE_S = 1.0


def trial(lab, kind, hold, rng):
    host, nic = rng.randrange(HOSTS), rng.randrange(NICS)
    run = lab.start_bench("-b", BYTES, "-w", 5, "--duration", HEALTHY_S + hold + SPARE_S, "-c", 0)
    try:
        run.wait_for_traffic(host, nic)
        time.sleep(HEALTHY_S + rng.uniform(0, 0.1))
        hit = time.monotonic() if kind == "none" else lab.fault(host, nic, kind)[1]
        run.wait(hold + 60)
    finally:
        lab.command("fix")
    after = [o for o in run.operations if hit + FROM_S <= o.start <= hit + hold]
    if not after:
        raise Failed(f"{kind}: no operation began in time")
    usual = median([o.seconds for o in after])
    slow = [o for o in after if o.seconds > SLOW * usual]
    return {"kind": kind, "host": host, "nic": nic, "operations": len(after),
            "median_ms": usual * 1e3, "p99_ms": percentile([o.seconds for o in after], 0.99) * 1e3,
            "slow": [{"after_s": round(o.start - hit, 3), "ms": o.seconds * 1e3} for o in slow],
            "verdicts": run.result["verdicts"]}


def summarize(trials):
    operations = sum(t["operations"] for t in trials)
    slow = [o["ms"] for t in trials for o in t["slow"]]
    return {"trials": len(trials), "operations": operations, "slow": len(slow),
            "slow_permille": 1000 * len(slow) / operations if operations else None,
            "worst_trial": max((len(t["slow"]) for t in trials), default=None),
            "median_ms": median([t["median_ms"] for t in trials]),
            "p99_ms": max((t["p99_ms"] for t in trials), default=None),
            "slowest_ms": max(slow, default=None)}


def main():
    p = parser(__doc__)
    p.add_argument("--trials", type=int, default=3, help="of each kind (default 3)")
    p.add_argument("--hold", type=float, default=30.0, help="seconds that a fault stays (default 30)")
    p.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    if options.quick:
        options.trials, options.hold = 1, 3.0
    rng = random.Random(options.seed)
    document = {"what": "aftermath", "machine": machine(), "bytes": BYTES, "from_s": FROM_S,
                "hold_s": options.hold, "slow_factor": SLOW, "errors": []}
    trials = []
    with Lab(options.r2ccl, options.name) as lab:
        for done in trials_of(lambda kind: trial(lab, kind, options.hold, rng), options.trials,
                              options.kinds, rng, document["errors"]):
            trials.append(done)
            progress(f"{len(done['slow'])} of {done['operations']} slow, median "
                     f"{done['median_ms']:.2f} ms")
    document["kinds"] = {kind: summarize([t for t in trials if t["kind"] == kind])
                         for kind in options.kinds}
    document["trials"] = trials
    for kind, row in document["kinds"].items():
        print(f"{kind:8} {row['trials']:3} trials, {row['slow']} of {row['operations']} operations "
              f"slow" + (f", {row['slow_permille']:.2f} in 1,000, at most {row['worst_trial']} in a "
                         f"trial, slowest {row['slowest_ms'] or 0:.1f} ms, median "
                         f"{row['median_ms']:.2f} ms" if row["operations"] else ""))
    save(options.json, document)
    return 1 if document["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
