#!/usr/bin/env python3
"""The share of the line that AllReduce reaches: 4 hosts x 4 NICs x 250 Mbit/s, float32 sums, 64 KB
to 64 MB, r2ccl beside Open MPI and Gloo; then r2ccl with three of four NICs, and with one slow NIC.

Each repetition runs every program once, one after the other, so that all meet the same machine. A
run's figure is the mean of its operations, run back to back, each counted with its slowest rank.
The tables give the median of the runs and their spread, and the 99th percentile of r2ccl's
operations of all runs together (of fewer than a hundred: the slowest). "Line" is the TCP payload
that the NICs carry. A run of r2ccl is a job of its own for each size, with new connections; the
peers keep theirs.
"""
import sys
import time

import peers
from lab import (Failed, Lab, LINE_MBPS, NICS, NIC_PAYLOAD_MBPS, bus_mbps, difference, machine,
                 median, parser, percentile, progress, save, spread)

KIB, MIB = 1 << 10, 1 << 20
# bytes, warm-up operations, timed operations: a second or two each at the line's rate.
PLAN = [(64 * KIB, 50, 400), (1 * MIB, 5, 60), (4 * MIB, 3, 20), (16 * MIB, 1, 7), (64 * MIB, 1, 2)]
# r2ccl runs more operations where they are short, so that the 99th percentile is meaningful.
OUR_ITERATIONS = {64 * KIB: 2000, 1 * MIB: 300, 16 * MIB: 10, 64 * MIB: 3}
QUICK_PLAN = [(64 * KIB, 5, 20), (1 * MIB, 2, 5), (4 * MIB, 1, 2)]
VICTIM = (1, 2)  # host, NIC
SLOW_SHARE = 0.1
# The time that a job runs before a fault.
HEALTHY_S = 1.0
# After a fault in the middle of a run, the time until the rest counts as its steady state.
SETTLED_S = 1.5


class Series:
    """The runs of one program at one size."""

    def __init__(self, size):
        self.size = size
        self.bus, self.typical_ms, self.errors = [], [], []
        self.all_ms = []

    def add(self, seconds):
        self.bus.append(bus_mbps(self.size, sum(seconds) / len(seconds)))
        self.typical_ms.append(median(seconds) * 1e3)
        self.all_ms += [s * 1e3 for s in seconds]

    def summary(self, line=LINE_MBPS):
        share = 100 * median(self.bus) / line if self.bus else None
        return {"bytes": self.size, "bus_MBps": spread(self.bus), "line_percent": share,
                "op_ms": spread(self.typical_ms), "operations": len(self.all_ms),
                "all_ms": {"median": median(self.all_ms), "p99": percentile(self.all_ms, 0.99),
                           "max": max(self.all_ms, default=None)}, "errors": self.errors}


def run_r2ccl(lab, plan, table, sent, quick):
    for size, warmup, iterations in plan:
        if not quick:
            iterations = OUR_ITERATIONS.get(size, iterations)
        try:
            run = lab.bench("-b", size, "-w", warmup, "--iters", iterations, "-c", 0,
                            "--out-of-place")
            table[size].add(run.seconds)
            sent[size] = run.sent
        except Failed as error:
            progress(str(error))
            table[size].errors.append(str(error))


def run_peer(lab, peer, plan, table):
    """Returns the bytes that each NIC sent over all sizes, or None."""
    before = lab.sent_bytes()
    try:
        for size, seconds in peer.run(lab, plan, timeout=120).items():
            table[size].add(seconds)
    except Failed as error:
        progress(str(error))
        for size, _, _ in plan:
            table[size].errors.append(str(error))
        return None
    return difference(lab.sent_bytes(), before)


def compare(lab, plan, repetitions, quick):
    others, missing = peers.available(lab)
    tables = {name: {size: Series(size) for size, _, _ in plan}
              for name in ["r2ccl", *(peer.name for peer in others)]}
    sent = {"r2ccl": {}}
    for repetition in range(repetitions):
        run_r2ccl(lab, plan, tables["r2ccl"], sent["r2ccl"], quick)
        for peer in others:
            sent[peer.name] = run_peer(lab, peer, plan, tables[peer.name])
        progress(f"repetition {repetition + 1}/{repetitions}: " + "; ".join(
            f"{name} " + " ".join(f"{table[size].bus[-1]:.1f}" if table[size].bus else "-"
                                  for size, _, _ in plan)
            for name, table in tables.items()) + " MB/s")
    rows = {name: [series.summary() for series in table.values()]
            for name, table in tables.items()}
    add_ratios(rows)
    return {"results": rows, "nic_tx_bytes": sent, "missing_peers": missing}


def add_ratios(rows):
    """Adds the ratio of r2ccl to the best peer, size by size."""
    for i, ours in enumerate(rows["r2ccl"]):
        best = max((row[i]["bus_MBps"]["median"] or 0 for name, row in rows.items()
                    if name != "r2ccl"), default=0)
        mine = ours["bus_MBps"]["median"]
        ours["best_peer_MBps"] = best or None
        ours["ratio_to_best_peer"] = mine / best if mine and best else None


def check(lab, quick):
    """Checks every element of every operation, outside the timed runs."""
    wrong = checked = 0
    errors = []
    for size, iterations in [(1 * MIB, 5)] if quick else [(64 * KIB, 50), (1 * MIB, 20),
                                                          (16 * MIB, 3)]:
        try:
            run = lab.bench("-b", size, "-w", 0, "--iters", iterations, "-c", 1, "--out-of-place")
        except Failed as error:
            progress(str(error))
            errors.append(str(error))
            continue
        wrong += run.result["wrong_elements"]
        checked += run.result["checked_elements"]
    progress(f"checked {checked} elements, {wrong} wrong")
    return {"checked_elements": checked, "wrong_elements": wrong, "errors": errors}


def without_nic(lab, size, iterations):
    """Measures with one NIC administratively down before the job starts."""
    lab.fault(*VICTIM, "down")
    try:
        run = lab.bench("-b", size, "-w", 1, "--iters", iterations, "-c", 0, "--out-of-place")
    finally:
        lab.fix(*VICTIM)
    return run.seconds, run


def fault_midway(lab, size, seconds, *kind):
    """Injects the fault into a running job, and counts the time after the job has settled."""
    run = lab.start_bench("-b", size, "-w", 1, "--duration",
                          HEALTHY_S + SETTLED_S + seconds, "-c", 0)
    try:
        run.wait_for_traffic(*VICTIM)
        time.sleep(HEALTHY_S)
        _, hit = lab.fault(*VICTIM, *kind)
        run.wait(seconds + 60)
    finally:
        lab.fix(*VICTIM)
    return [o.seconds for o in run.operations if o.start > hit + SETTLED_S], run


class Degraded:
    """One way to lose bandwidth, at one size: its runs, and their share of the remaining line."""

    def __init__(self, name, size, nics_left, case):
        self.name, self.case = name, case
        self.line = nics_left * NIC_PAYLOAD_MBPS
        self.series = Series(size)
        self.verdicts, self.sent = [], None

    def once(self, lab):
        try:
            measured, run = self.case(lab, self.series.size)
            if not measured:
                raise Failed("no operation began after the fault had settled")
        except Failed as error:
            progress(f"{self.name}: {error}")
            self.series.errors.append(str(error))
            return
        self.series.add(measured)
        self.verdicts += run.result["verdicts"]
        self.sent = run.sent
        progress(f"{self.name}, {self.series.size >> 20} MB: {self.series.bus[-1]:.1f} MB/s of "
                 f"{self.line:.1f}")

    def summary(self):
        return {"name": self.name, **self.series.summary(self.line), "line_MBps": self.line,
                "verdicts": self.verdicts, "nic_tx_bytes": self.sent}


def degraded(lab, repetitions, quick):
    slow = f"{SLOW_SHARE:.0%}"
    down, pulled = "one NIC down before the start", "one NIC pulled in the run"
    slowed = f"one NIC slowed to {slow}"

    def before(iterations):
        return lambda lab, size: without_nic(lab, size, iterations)

    def midway(seconds, *kind):
        return lambda lab, size: fault_midway(lab, size, seconds, *kind)

    cases = [Degraded(down, MIB, NICS - 1, before(200)),
             Degraded(down, 16 * MIB, NICS - 1, before(12)),
             Degraded(pulled, MIB, NICS - 1, midway(4, "pull")),
             Degraded(pulled, 16 * MIB, NICS - 1, midway(4, "pull")),
             Degraded(slowed, MIB, NICS - 1 + SLOW_SHARE, midway(5, "slow", slow)),
             Degraded(slowed, 64 * MIB, NICS - 1 + SLOW_SHARE, midway(8, "slow", slow))]
    if quick:
        cases = [Degraded(down, MIB, NICS - 1, before(5)),
                 Degraded(slowed, MIB, NICS - 1 + SLOW_SHARE, midway(2, "slow", slow))]
    for _ in range(repetitions):
        for case in cases:
            case.once(lab)
    return [case.summary() for case in cases]


def print_table(document):
    print(f"\nbus MB/s, median (min to max) of the runs; line {LINE_MBPS:.1f} MB/s")
    for name, rows in document["compare"]["results"].items():
        for row in rows:
            print_row(name, row)
    for row in document["degraded"]:
        print_row(row["name"], row)


def print_row(name, row):
    bus = row["bus_MBps"]
    if bus["median"] is None:
        print(f"{name:32} {row['bytes']:>9}  failed: {row['errors'][-1:]}")
        return
    ratio = row.get("ratio_to_best_peer")
    print(f"{name:32} {row['bytes']:>9} {bus['median']:8.1f} ({bus['min']:.1f} to {bus['max']:.1f})"
          f" {row['line_percent']:6.1f} % {row['op_ms']['median']:9.2f} ms, "
          f"99th percentile {row['all_ms']['p99']:.2f}"
          + (f"  {ratio:.2f} of the best peer" if ratio else ""))


def main():
    p = parser(__doc__)
    p.add_argument("--repetitions", type=int, default=5, help="runs of every program (default 5)")
    p.add_argument("--degraded-repetitions", type=int, help="runs of each fault (default: the same)")
    options = p.parse_args()
    plan = QUICK_PLAN if options.quick else PLAN
    repetitions = 1 if options.quick else options.repetitions
    document = {"what": "line_rate", "machine": machine(), "line_MBps": LINE_MBPS}
    with Lab(options.r2ccl, options.name) as lab:
        document["compare"] = compare(lab, plan, repetitions, options.quick)
        document["peers"] = peers.versions()  # the script may have installed a missing peer
        document["check"] = check(lab, options.quick)
        document["degraded"] = degraded(lab, options.degraded_repetitions or repetitions,
                                        options.quick)
    print_table(document)
    save(options.json, document)
    return 1 if document["check"]["wrong_elements"] or document["check"]["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
