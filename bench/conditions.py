#!/usr/bin/env python3
"""AllReduce under many conditions, every element checked: rates from 10 Mbit/s to unshaped, cubic
and bbr, MTU 1500 and 9000, 2 to 16 ranks, added delay (simulated by the library: R2CCL_FAULT_FILE),
and a machine whose cores compile something else. Each condition has one quiet run, one run in which
a NIC falls silent (hole) and one in which its cable is pulled, each of some seconds.

The stall is the longest operation that the fault hits, less the median of the later operations. The
line is the TCP payload that the NICs of one host carry. The script skips a condition, and says so,
if this kernel lacks its TCP congestion control.
"""
import contextlib
import dataclasses
import pathlib
import subprocess
import sys

from lab import Failed, Lab, NICS, ROOT, machine, median, parser, progress, save, stop

FAULTY = (1, 1)
HEADERS = 66  # Ethernet, IP, TCP with timestamps
SIZES = {10: 256 << 10, 100: 1 << 20}
SIZE = 4 << 20
AVAILABLE = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclasses.dataclass
class Condition:
    mbit: int = 250
    hosts: int = 4
    nics: int = NICS
    cc: str = "cubic"
    mtu: int = 1500
    delay_ms: int = 0
    busy: bool = False

    def line_mbps(self):
        share = (self.mtu - HEADERS + 14) / (self.mtu + 14)
        return self.nics * self.mbit / 8 * share if self.mbit else None

    def text(self):
        return (f"{self.mbit or 'unshaped'}{' Mbit/s' if self.mbit else ''}, {self.hosts} ranks x {self.nics} NICs, "
                f"{self.cc}, MTU {self.mtu}"
                + (f", {self.delay_ms} ms added" if self.delay_ms else "")
                + (", busy" if self.busy else ""))


# 16 hosts with four NICs and the management network need 1,200 neighbour entries, but the kernel
# has 1,024 for all namespaces together (net.ipv4.neigh.default.gc_thresh3), so some never connect.
CONDITIONS = [
    *(Condition(mbit=mbit, cc=cc) for mbit in (10, 100, 250, 1000, 0) for cc in ("cubic", "bbr")),
    Condition(mtu=9000), Condition(mbit=1000, mtu=9000), Condition(mbit=0, mtu=9000),
    Condition(hosts=2), Condition(hosts=8), Condition(hosts=16, nics=2, mbit=100),
    Condition(delay_ms=1), Condition(delay_ms=5), Condition(delay_ms=12), Condition(mbit=10, delay_ms=5),
    Condition(busy=True), Condition(mbit=10, busy=True), Condition(mbit=0, busy=True),
    Condition(hosts=8, mbit=100, busy=True),
]
QUICK = [Condition(), Condition(mbit=100, delay_ms=5)]


@contextlib.contextmanager
def compilers(wanted):
    """Runs one compiler for each core, again and again."""
    loop = "while g++ -std=c++20 -O2 -Isrc -Iinclude -c src/sim/fabric.cc -o /dev/null; do :; done"
    processes = [subprocess.Popen(["sh", "-c", loop], cwd=ROOT, start_new_session=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for _ in range(2 if wanted else 0)]
    try:
        yield
    finally:
        for process in processes:
            stop(process)


def environment(lab, condition):
    if not condition.delay_ms:
        return {}
    faults = lab.directory / "faults"
    faults.write_text("".join(f"nic{k} delay {condition.delay_ms} queue {4 << 20}\n" for k in range(condition.nics)))
    return {"R2CCL_FAULT_FILE": str(faults)}


def stall_ms(operations, begin):
    """Returns the stall; None if too few operations ran before or after the fault."""
    hit = [o.seconds for o in operations if o.end > begin and o.start < begin + 0.7]
    later = [o.seconds for o in operations if o.start >= begin + 0.7]
    return 1e3 * (max(hit) - median(later)) if hit and later else None


def one_run(lab, condition, seconds, kind=None):
    size = SIZES.get(condition.mbit, SIZE)
    run = lab.start_bench("-b", size, "-w", 3, "--duration", seconds, "-c", 1,
                          environment=environment(lab, condition))
    begin = None
    if kind and run.wait_for_traffic(*FAULTY):
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.process.wait(timeout=seconds / 3)
        begin, _ = lab.fault(*FAULTY, kind)
    try:
        run.wait(seconds + 60)
    finally:
        if kind:
            lab.fix(*FAULTY)
    result = run.result
    sent = sum(count["tx"] for nics in result["nic_bytes"].values() for count in nics.values())
    bus = result["results"][0]["busbw_MBps"]
    line = condition.line_mbps()
    return {"kind": kind, "bench": run.text, "size": size, "busbw_MBps": bus,
            "line_percent": 100 * bus / line if line else None,
            "mirrored_percent": 100 * result["mirrored_bytes"] / max(sent, 1),
            "stall_ms": stall_ms(run.operations, begin) if begin else None,
            "verdicts": len(result["verdicts"]),
            **{name: result[name] for name in ("op_ms", "suspicions", "checked_elements",
                                               "wrong_elements")}}


def measure(options, condition):
    entry = {**dataclasses.asdict(condition), "text": condition.text(), "runs": [], "skipped": None}
    if condition.cc not in AVAILABLE.read_text().split():
        entry["skipped"] = f"this kernel has no {condition.cc}"
        return entry
    up = ("--cc", condition.cc, "--mtu", condition.mtu)
    try:
        with Lab(options.r2ccl, options.name, condition.hosts, condition.nics, condition.mbit, up) as lab, \
                compilers(condition.busy):
            for kind in (None, "hole", "pull"):
                entry["runs"].append(one_run(lab, condition, options.seconds, kind))
    except Failed as error:
        entry["error"] = str(error)[-400:]
    return entry


def main():
    p = parser(__doc__)
    p.add_argument("--seconds", type=int, default=4, help="of each run")
    p.add_argument("--only", type=int, nargs="*", help="indices of the conditions to run")
    options = p.parse_args()
    wanted = QUICK if options.quick else CONDITIONS
    if options.only is not None:
        wanted = [wanted[index] for index in options.only]
    document = {"what": "conditions", "machine": machine(), "conditions": []}
    for condition in wanted:
        entry = measure(options, condition)
        document["conditions"].append(entry)
        progress(entry["text"] + ": " + (entry["skipped"] or entry.get("error") or " | ".join(
            f"{run['kind'] or 'quiet'} {run['line_percent'] or run['busbw_MBps']:.1f}"
            f"{' %' if run['line_percent'] else ' MB/s'}, p50 {run['op_ms']['p50']:.1f} p99 "
            f"{run['op_ms']['p99']:.1f} ms, {run['suspicions']} susp, {run['verdicts']} verdicts, "
            f"{run['mirrored_percent']:.2f} % mirrored, stall {run['stall_ms'] or 0:.0f} ms, "
            f"{run['wrong_elements']} wrong" for run in entry["runs"])))
    runs = [run for entry in document["conditions"] for run in entry["runs"]]
    document["wrong_elements"] = sum(run["wrong_elements"] for run in runs)
    document["false_verdicts"] = sum(run["verdicts"] for run in runs if run["kind"] is None)
    document["failed"] = sum("error" in entry for entry in document["conditions"])
    print(f"{len(document['conditions'])} conditions, {document['failed']} failed, "
          f"{document['wrong_elements']} of {sum(run['checked_elements'] for run in runs)} elements "
          f"wrong, {document['false_verdicts']} verdicts without a fault")
    save(options.json, document)
    bad = document["wrong_elements"] or document["false_verdicts"] or document["failed"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
