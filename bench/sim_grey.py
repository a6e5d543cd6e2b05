#!/usr/bin/env python3
"""The cost of a grey NIC, one that is bad and not dead, in virtual time: exact, the same on every
machine, and free of any scheduler's noise. Back-to-back AllReduce while one NIC of one host is
slow, late or lossy, beside the same job with that NIC pulled.

The first quarter of the operations after the fault does not count: in it the job learns the NIC's
rate.
"""
import multiprocessing
import os
import pathlib
import sys

from lab import machine, parser, progress, save
from sim_run import operations_of, scenario, simulate

SIZES = {"4K": 4 << 10, "16K": 16 << 10, "64K": 64 << 10, "256K": 256 << 10, "1M": 1 << 20}
# hosts, NICs of each, Mbit/s of each
CLUSTERS = ((4, 4, 250), (4, 4, 1000), (4, 4, 10_000), (2, 2, 250), (2, 2, 1000), (2, 2, 10_000))
BEGIN_MS = 30
LEAST = 40  # operations after the fault
LASTS_MS = 60_000
BYTES_PER_MBIT = 125_000
NS_PER_MS = 1_000_000
# The amount of a slow NIC is a share of its rate.
KINDS = {
    "pull": ("pull", 0), "slow 50 %": ("slow", 0.5), "slow 10 %": ("slow", 0.1),
    "slow 1 %": ("slow", 0.01), "delay 1 ms": ("delay", NS_PER_MS), "delay 5 ms": ("delay", 5 * NS_PER_MS),
    "delay 100 ms": ("delay", 100 * NS_PER_MS), "jitter 20 ms": ("jitter", 20 * NS_PER_MS),
    "lose 1 %": ("loss", 10_000), "lose 10 %": ("loss", 100_000),
}


def repeats(size, quick):
    """Returns the same number of bytes for each size, and enough operations to see rare events."""
    return max(150, (25 if quick else 100) * min((1 << 20) // size, 16))


def scenario_of(cluster, size, kind, quick):
    hosts, nics, mbit = cluster
    rate = mbit * BYTES_PER_MBIT
    fault, amount = KINDS[kind]
    amount = int(rate * amount) if fault == "slow" else amount
    return scenario({"seed": 1, "hosts": hosts, "nics": nics, "rate_bytes_per_s": rate},
                    {"kind": "all_reduce", "type": "float32", "count": SIZES[size] // 4,
                     "repeat": repeats(SIZES[size], quick)},
                    {"kind": fault, "at_ms": BEGIN_MS, "for_ms": LASTS_MS, "host": 1,
                     "nic": nics // 2} | ({"amount": amount} if amount else {}))


def measure(task):
    r2ccl, cluster, size, kind, quick = task
    document, error = simulate(r2ccl, scenario_of(cluster, size, kind, quick))
    if document is None or document["violations"]:
        return task[1:4], None, error or "; ".join(document["violations"])[:400]
    hit = document["faults"][0]["from_ms"]
    operations = [each for each in operations_of(document) if each[0] >= hit]
    if len(operations) < LEAST:
        return task[1:4], None, f"only {len(operations)} operations began after the fault"
    counted = operations[len(operations) // 4:]
    return task[1:4], (counted[-1][1] - counted[0][0]) / len(counted), document["checked_elements"]


def main():
    p = parser(__doc__)
    options = p.parse_args()
    r2ccl = str(pathlib.Path(options.r2ccl).resolve())
    document = {"what": "sim_grey", "machine": machine(), "clusters": [], "errors": [],
                "checked_elements": 0}
    tasks = [(r2ccl, cluster, size, kind, options.quick)
             for cluster in CLUSTERS for size in SIZES for kind in KINDS]
    means = {}
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for done, (what, mean_ms, rest) in enumerate(pool.imap(measure, tasks), 1):
            if mean_ms is None:
                document["errors"].append(f"{what}: {rest}")
                continue
            means[what] = mean_ms
            document["checked_elements"] += rest
            if done % 10 == 0:
                progress(f"{done} of {len(tasks)} runs")
    for cluster in CLUSTERS:
        rows = {kind: {size: means.get((cluster, size, kind)) for size in SIZES} for kind in KINDS}
        document["clusters"].append({"hosts": cluster[0], "nics": cluster[1], "mbit": cluster[2],
                                     "mean_ms": rows})
        print(cluster, *(f"\n  {kind:13}" + " ".join(
            f"{size} {rows['pull'][size] / row[size]:.3f}" for size in SIZES
            if row[size] and rows["pull"][size]) for kind, row in rows.items()))
    save(options.json, document)
    return 1 if document["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
