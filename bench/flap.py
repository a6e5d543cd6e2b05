#!/usr/bin/env python3
"""A path that flaps: one cable is out for 1.5 s every 3 s, 20 times, under AllReduce of 1 MB with
every element checked, on 4 hosts x 4 NICs x 250 Mbit/s, with R2CCL_DAMPING=0. With --damping 1, the
library's default, each return delays the next one, and after the last pull the NIC has RETURN_MAX_S
to return.

The NIC has returned if it carries data in both directions, by the kernel's counters, before the
next pull. No element may be wrong. The script reads descriptors, memory and threads of each rank
while the cable is out for the EARLY-th and for the last time: a count that grows with each pull is
a leak. The measuring program itself keeps the times of each operation. So a control job without
faults, of as many small operations, gives the memory growth from that alone, which is subtracted.
"""
import bisect
import os
import pathlib
import sys
import time

from lab import Failed, Lab, machine, median, parser, progress, save

BYTES = 1 << 20
VICTIM = (1, 2)  # host, NIC
EARLY = 10
RETURN_MAX_S = 30
USAGE_SAMPLES = 7
USAGE_PAUSE_S = 0.1
CONTROL_BYTES = 64 << 10
CONTROL_SPARE_OPERATIONS = 500


def rank_processes(lab):
    """Returns {"h0": pid} of the measured program."""
    hosts = {os.readlink(f"/proc/{holder}/ns/net"): f"h{host}"
             for host, holder in enumerate(lab.holders)}
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            host = hosts.get(os.readlink(entry / "ns/net"))
        except OSError:
            continue  # the process ended, or is the kernel's
        if host and words[1:2] == [b"bench"]:
            found[host] = int(entry.name)
    return dict(sorted(found.items()))


def usage_of(pid):
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().split()
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "rss_kib": int(rollup[rollup.index("Rss:") + 1]),
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


def usage(processes):
    """Returns {host: {measure: median of some samples}}."""
    samples = []
    for _ in range(USAGE_SAMPLES):
        samples.append({host: usage_of(pid) for host, pid in processes.items()})
        time.sleep(USAGE_PAUSE_S)
    return {host: {what: median([sample[host][what] for sample in samples])
                   for what in samples[0][host]} for host in processes}


def operations_before(run, moment):
    return bisect.bisect_right([o.end for o in run.operations], moment)


def own_growth(lab, early, late):
    """Returns {host: KiB}, the memory growth from one number of operations to the other without
    faults."""
    run = lab.start_bench("-b", CONTROL_BYTES, "-w", 5, "--iters", late + CONTROL_SPARE_OPERATIONS,
                          "-c", 1, "--out-of-place")
    run.wait_for_traffic(0, 0)
    processes, samples = rank_processes(lab), []
    try:
        while run.running():
            samples.append((time.monotonic(), {host: usage_of(pid)["rss_kib"]
                                               for host, pid in processes.items()}))
            time.sleep(USAGE_PAUSE_S)
    except (OSError, ValueError):
        pass  # the job has ended
    run.wait(60)

    def at(operations):
        return min(samples, key=lambda sample: abs(operations_before(run, sample[0]) - operations))[1]

    return {host: at(late)[host] - at(early)[host] for host in processes}


def growth_percent(early, late, own):
    """Returns the change of the rank and measure that changed the most."""
    changes = []
    for host, counts in early.items():
        expected = dict(counts, rss_kib=counts["rss_kib"] + own[host])
        changes += [100 * abs(late[host][what] - expected[what]) / counts[what] for what in counts]
    return max(changes, default=None)


class Flapping:
    def __init__(self, lab, run, options):
        self.lab, self.run, self.options = lab, run, options
        self.returns = []  # seconds from each repair to the NIC's return; None without a return
        self.usage = {}  # by the number of the pull
        self.usage_at = {}
        self.final_s = None  # seconds from the last repair

    def all(self):
        processes = rank_processes(self.lab)
        for number in range(1, self.options.times + 1):
            self.one(number, processes)
            if not self.run.running():
                return

    def one(self, number, processes):
        period, last = self.options.period, number == self.options.times
        begin = time.monotonic()
        self.lab.fault(*VICTIM, "pull")
        if last or number == EARLY:
            time.sleep(period / 6)  # later than the first effects of the fault
            self.usage_at[number] = time.monotonic()
            self.usage[number] = usage(processes)
        time.sleep(max(0, begin + period / 2 - time.monotonic()))
        self.lab.fix(*VICTIM)
        fixed = time.monotonic()
        left = begin + period - fixed
        returned = self.run.wait_for_traffic(*VICTIM, timeout=left)
        self.returns.append(time.monotonic() - fixed if returned else None)
        progress(f"pull {number}/{self.options.times}: "
                 + (f"back after {self.returns[-1]:.2f} s" if returned
                    else f"not back within {left:.2f} s"))
        if not last:
            time.sleep(max(0, begin + period - time.monotonic()))
        elif returned or self.run.wait_for_traffic(*VICTIM, timeout=RETURN_MAX_S - left):
            self.final_s = time.monotonic() - fixed


def measure(lab, options, document):
    seconds = options.times * options.period + (RETURN_MAX_S if options.damping else 0) + 2
    run = lab.start_bench("-b", BYTES, "-w", 5, "--duration", seconds, "-c", 1,
                          environment={"R2CCL_DAMPING": str(options.damping)})
    document["bench"] = run.text
    flapping = Flapping(lab, run, options)
    try:
        if run.wait_for_traffic(*VICTIM):
            flapping.all()
        run.wait(seconds + 60)
        document.update(verdicts=run.result["verdicts"], op_ms=run.result["op_ms"],
                        operations=run.result["operations"],
                        checked_elements=run.result["checked_elements"],
                        wrong_elements=run.result["wrong_elements"])
        if EARLY in flapping.usage and options.times > EARLY:
            document.update(grown(lab, run, flapping, options.times))
    except (Failed, OSError) as error:
        document["error"] = str(error)
    back = [value for value in flapping.returns if value is not None]
    document.update(pulled=len(flapping.returns), returned=len(back), return_s=flapping.returns,
                    return_median_s=median(back), return_max_s=max(back, default=None),
                    final_return_s=flapping.final_s, usage=flapping.usage)


def grown(lab, run, flapping, last):
    """Returns the growth between two pulls, less the memory of the measuring program."""
    operations = [operations_before(run, flapping.usage_at[pull]) for pull in (EARLY, last)]
    own = own_growth(lab, *operations)
    return {"usage_operations": operations, "own_growth_kib": own, "growth_percent": growth_percent(
        flapping.usage[EARLY], flapping.usage[last], own)}


def main():
    p = parser(__doc__)
    p.add_argument("--times", type=int, default=20)
    p.add_argument("--period", type=float, default=3.0, help="seconds; the cable is out for half")
    p.add_argument("--damping", type=int, choices=(0, 1), default=0)
    options = p.parse_args()
    if options.quick:
        options.times = 2
    document = {"what": "flap", "machine": machine(), "times": options.times,
                "period_s": options.period, "damping": options.damping, "growth_percent": None,
                "own_growth_kib": None, "error": None}
    with Lab(options.r2ccl, options.name) as lab:
        measure(lab, options, document)
    report(document)
    save(options.json, document)
    returned = document["final_return_s"] is not None if options.damping \
        else document["returned"] == options.times
    return 0 if document.get("wrong_elements") == 0 and returned else 1


def report(document):
    print(f"pulled {document['pulled']} times, returned {document['returned']} times"
          + (f" after {document['return_median_s']:.2f} s (at most "
             f"{document['return_max_s']:.2f} s)" if document["returned"] else "")
          + f", {document.get('operations')} operations, {document.get('checked_elements')} elements,"
          f" {document.get('wrong_elements')} wrong, {len(document.get('verdicts', []))} verdicts"
          + (f", error: {document['error']}" if document["error"] else ""))
    final, growth = document["final_return_s"], document["growth_percent"]
    print("after the last pull " + (f"back after {final:.2f} s" if final else "not back")
          + (f"; descriptors, memory and threads changed by {growth:.2f} % at most since pull "
             f"{EARLY}, the control's growth apart" if growth is not None else ""))
    for number, hosts in document["usage"].items():
        for host, counts in hosts.items():
            print(f"pull {number}, {host}: " + ", ".join(f"{count:g} {what}"
                                                         for what, count in counts.items()))
    if document["own_growth_kib"]:
        print(f"without faults, over as many operations: {document['own_growth_kib']} KiB more")


if __name__ == "__main__":
    sys.exit(main())
