#!/usr/bin/env python3
"""The cost of a grey NIC, one that is bad and not dead: AllReduce on 4 hosts x 4 NICs x 100 Mbit/s
without segmentation offload, while one NIC is slow, loses packets, or adds delay (simulated by the
library over the real sockets: R2CCL_FAULT_FILE). Beside it runs the same job with that NIC pulled,
and with all NICs whole.

At 16 MB the packets, 130,000 a second, take 93 % of two processors: on two processors the packets
and not the NICs limit the rate of four whole NICs.

The figure is the throughput beyond the lost bandwidth: as a share of the rate of the three other
NICs in the same round (or, where a slow NIC has a rate of its own, of the remaining rate of four).
"""
import random
import sys
import time

from lab import (Failed, Lab, NICS, bus_mbps, machine, median, parser, percentile, progress, save,
                 spread)

MBIT = 100
SIZES = {"64K": 64 << 10, "1M": 1 << 20, "16M": 16 << 20}
SECONDS = {"64K": 2, "1M": 4, "16M": 12}
VICTIM = (1, 2)
# The time in which the job learns the NIC's rate.
SETTLED_S = 1.5
# The remaining share of a NIC's rate; for other kinds it is unknown, and counts as nothing.
KINDS = {
    "none": (None, 1), "pull": (("pull",), 0),
    "slow 10 %": (("slow", "10%"), 0.1), "slow 1 %": (("slow", "1%"), 0.01),
    "lose 1 %": (("lose", "1"), 0), "lose 10 %": (("lose", "10"), 0),
    "delay 100 ms": ("delay 100", 0), "delay 5 ms": ("delay 5", 0),
}


def run_one(lab, size, kind, quick):
    fault, _ = KINDS[kind]
    seconds = 1 if quick else SECONDS[size]
    environment = {}
    file = lab.directory / "faults"
    if isinstance(fault, str):
        file.write_text("")
        environment["R2CCL_FAULT_FILE"] = str(file)
    run = lab.start_bench("-b", SIZES[size], "-w", 3, "--duration", seconds + 1 + SETTLED_S, "-c", 1,
                          environment=environment)
    try:
        run.wait_for_traffic(*VICTIM)
        if isinstance(fault, str):
            # Each rank simulates its own NIC. NICs have the same name on every host, so the file
            # has the address.
            replacement = file.with_suffix(".new")
            replacement.write_text(f"10.77.{VICTIM[1]}.{VICTIM[0] + 1} {fault} queue 4194304\n")
            replacement.rename(file)
        elif fault:
            lab.fault(*VICTIM, *fault)
        hit = time.monotonic()
        run.wait(seconds + 120)
    finally:
        lab.command("fix")
    steady = [o.seconds for o in run.operations if o.start > hit + SETTLED_S]
    if not steady:
        raise Failed(f"{kind}, {size}: no operation began in time")
    sent = sum(count["tx"] for nics in run.result["nic_bytes"].values() for count in nics.values())
    return {"size": size, "kind": kind, "bus_MBps": bus_mbps(SIZES[size], sum(steady) / len(steady)),
            "median_ms": 1e3 * median(steady), "p99_ms": 1e3 * percentile(steady, 0.99),
            "operations": len(steady), "verdicts": len(run.result["verdicts"]),
            "mirrored_percent": 100 * run.result["mirrored_bytes"] / max(sent, 1),
            "checked_elements": run.result["checked_elements"],
            "wrong_elements": run.result["wrong_elements"]}


def share_of_expected(run, of_round):
    """Returns percent of the rate that the remaining bandwidth permits, by the run with the NIC
    pulled."""
    gone = of_round.get(("pull", run["size"]))
    if gone is None:
        return None
    left = NICS - 1 + KINDS[run["kind"]][1]
    return 100 * run["bus_MBps"] / (gone["bus_MBps"] * left / (NICS - 1))


def summarize(runs, kind, size):
    chosen = [run for run in runs if run["kind"] == kind and run["size"] == size]
    shares = [run["share_percent"] for run in chosen if run["share_percent"] is not None]
    return {"kind": kind, "size": size, "runs": len(chosen),
            "bus_MBps": spread([run["bus_MBps"] for run in chosen]),
            "share_percent": spread(shares),
            "median_ms": median([run["median_ms"] for run in chosen]),
            "p99_ms": max((run["p99_ms"] for run in chosen), default=None),
            "verdicts": sum(run["verdicts"] for run in chosen),
            "mirrored_percent": median([run["mirrored_percent"] for run in chosen])}


def main():
    p = parser(__doc__)
    p.add_argument("--repetitions", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    repetitions = 1 if options.quick else options.repetitions
    rng = random.Random(options.seed)
    document = {"what": "grey", "machine": machine(), "errors": []}
    runs = []
    with Lab(options.r2ccl, options.name, mbit=MBIT, options=("--single-packets",)) as lab:
        for repetition in range(repetitions):
            of_round = {}
            for size in SIZES:
                for kind in rng.sample(list(KINDS), len(KINDS)):
                    try:
                        run = run_one(lab, size, kind, options.quick)
                    except Failed as error:
                        progress(str(error))
                        document["errors"].append(str(error)[-400:])
                        continue
                    of_round[kind, size] = run
            for run in of_round.values():
                run["share_percent"] = share_of_expected(run, of_round)
                runs.append(run)
            progress(f"repetition {repetition + 1}/{repetitions}: " + ", ".join(
                f"{size} {kind} {run['bus_MBps']:.1f}" for (kind, size), run in of_round.items()))
    document["rows"] = [summarize(runs, kind, size) for size in SIZES for kind in KINDS]
    for name in ("checked_elements", "wrong_elements"):
        document[name] = sum(run[name] for run in runs)
    for row in document["rows"]:
        print(f"{row['size']:4} {row['kind']:13} {row['bus_MBps']['median']} MB/s, "
              f"{row['share_percent']['median']} % of the remaining rate, p99 {row['p99_ms']} ms")
    save(options.json, document)
    return 0 if document["wrong_elements"] == 0 and not document["errors"] else 1


if __name__ == "__main__":
    sys.exit(main())
