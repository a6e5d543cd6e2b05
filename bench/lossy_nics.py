#!/usr/bin/env python3
"""Lossy NICs: AllReduce on 3, 4 and 5 hosts x 3 NICs x 300 Mbit/s (the third NIC of each host 30
Mbit/s in every second run), while packets of one random NIC are lost both ways. The script records
whether a verdict names the NIC as lossy, the time from the begin of the loss until all ranks have
the verdict, and whether a verdict names another NIC.

Each run is a job of its own: 2, 5, 10 and 20 % of loss, and operations of 64 KB to 4 MB, in random
order. A run without a loss (--healthy) must name nothing.
"""
import random
import re
import sys
import time

from lab import Failed, Lab, machine, median, parser, percentile, progress, save, stop
from verdicts import Reader

NICS = 3
MBIT = 300
SLOW = ("--rates", "300,300,30")
HOSTS = (3, 4, 5)
PERCENT = (2, 5, 10, 20)
BYTES = {"64K": 64 << 10, "256K": 256 << 10, "1M": 1 << 20, "2M": 2 << 20, "4M": 4 << 20}
NAMED_MAX_S = 2.0
# Longer than the target, to see verdicts that come too late, or name others.
WATCHED_S = 5.0
AFTER_S = 1.0
LOSSY = re.compile(r"(h\d+):\d+:\d+ \[\d+\] R2CCL WARN (.*): lossy, ([0-9.e+]+) % of the packets")
OTHER = re.compile(r"(h\d+):\d+:\d+ \[\d+\] R2CCL WARN (.*): \w+, \d+ bytes replayed$")


def told(reader, pattern):
    """Returns {rank's host: [(time, text, match)]} of the lines that match."""
    found = {}
    for when, line in list(reader.lines):
        match = pattern.search(line)
        if match:
            found.setdefault(match.group(1), []).append((when, match.group(2), match))
    return found


def told_by_all(reader, hosts, name):
    """Returns the time when the last rank reported the NIC; None while one has not."""
    found = told(reader, LOSSY)
    times = [min((when for when, what, _ in lines if what == name), default=None)
             for lines in found.values()]
    return max(times) if len(times) == hosts and None not in times else None


def one(lab, size, percent, rng):
    host, nic = rng.randrange(lab.hosts), rng.randrange(NICS)
    name = f"h{host} nic{nic}"
    run = lab.start_bench("-b", BYTES[size], "--duration", 60,
                          environment={"R2CCL_DEBUG": "WARN"})
    reader = Reader(run.process.stdout)
    result = {"hosts": lab.hosts, "bytes": size, "percent": percent, "nic": name, "named_s": None}
    try:
        if not run.wait_for_traffic(0, 0):
            raise Failed("no traffic")
        time.sleep(1.0)
        begin = time.time()
        if percent:
            lab.fault(host, nic, "lose", percent)
        while time.time() < begin + WATCHED_S and result["named_s"] is None:
            time.sleep(0.02)
            when = told_by_all(reader, lab.hosts, name)
            result["named_s"] = when - begin if when else None
        time.sleep(AFTER_S)
        if not run.running():
            raise Failed("the job ended")
        lossy, others = told(reader, LOSSY), told(reader, OTHER)
        result["percent_said"] = next((float(match.group(3)) for _, what, match in lossy.get("h0", [])
                                       if what == name), None)
        said = {what for lines in lossy.values() for _, what, _ in lines}
        result["lossy_verdicts"] = sorted(said)
        result["other_verdicts"] = sorted(what for _, what, _ in others.get("h0", []))
        # A pair is coarser than the NIC, and names no innocent NIC, if the NIC is one of its ends.
        result["innocent"] = sorted(what for what in said | set(result["other_verdicts"])
                                    if what != name and not re.search(rf"\b{name}\b", what))
    finally:
        stop(run.process)
        if percent:
            lab.fix(host, nic)
    return result


def plan(options, rng):
    """Runs the trials of each number of hosts."""
    runs = {hosts: [(size, percent) for size in BYTES for percent in PERCENT] for hosts in HOSTS}
    for each in runs.values():
        rng.shuffle(each)
        if options.runs:
            del each[options.runs // len(HOSTS):]
        each += [(rng.choice(list(BYTES)), 0) for _ in range(options.healthy)]
    return runs


def summarize(runs):
    lossy = [run for run in runs if run["percent"]]
    times = [run["named_s"] for run in lossy if run["named_s"] is not None]
    in_time = [time for time in times if time <= NAMED_MAX_S]
    return {"runs": len(lossy), "named": len(times), "named_in_time": len(in_time),
            "healthy": len(runs) - len(lossy),
            "innocent": sum(bool(run["innocent"]) for run in runs),
            "said_of_healthy": sum(bool(run["lossy_verdicts"]) for run in runs if not run["percent"]),
            "with_other_verdicts": sum(bool(run["other_verdicts"]) for run in lossy),
            "named_s": {"median": median(times), "p95": percentile(times, 0.95),
                        "max": max(times, default=None)}}


def main():
    p = parser(__doc__)
    p.add_argument("--runs", type=int, help="with a loss, in all (default: 60, each kind once)")
    p.add_argument("--healthy", type=int, default=2, help="without, for each number of hosts")
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    if options.quick:
        options.runs, options.healthy = 3, 0
    rng = random.Random(options.seed)
    document = {"what": "lossy NICs", "machine": machine(), "runs": [], "errors": []}
    for hosts, runs in plan(options, rng).items():
        for slow in (False, True):
            with Lab(options.r2ccl, options.name, hosts, NICS, MBIT, SLOW if slow else ()) as lab:
                for size, percent in runs[slow::2]:
                    progress(f"{hosts} hosts, {size}, {percent} %{', third NIC slow' if slow else ''}")
                    try:
                        run = one(lab, size, percent, rng)
                        document["runs"].append(run | {"third_slow": slow})
                        progress(f"  {run['nic']} named after {run['named_s']} s; {run}")
                    except Failed as error:
                        document["errors"].append(str(error))
                        progress(str(error))
    document["summary"] = summarize(document["runs"])
    print(document["summary"], document["errors"])
    save(options.json, document)
    done = document["summary"]
    good = (not document["errors"] and not done["innocent"] and not done["said_of_healthy"]
            and done["named_in_time"] >= 0.95 * done["runs"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
