#!/usr/bin/env python3
"""A NIC's first outage: how soon after the repair operations run at full speed again. Back-to-back
AllReduce of 1 MB on 4 hosts x 4 NICs x 250 Mbit/s; each trial is a job of its own, with the default
damping, in which one NIC is gone for --out seconds, once.

A repaired NIC is usable when the kernel reports that it runs (interface up, with carrier). The
script counts the operations that start AFTER_S later, until the job ends: their rate beside the
line and beside the rate of the same job before the fault. "none" breaks nothing and counts the same
seconds.
"""
import ctypes
import fcntl
import os
import random
import socket
import struct
import sys
import time

from lab import (Failed, HOSTS, Lab, LINE_MBPS, NICS, bus_mbps, machine, median, parser, percentile,
                 progress, save, spread, trials_of)

BYTES = 1 << 20
KINDS = ["none", "pull", "down"]
HEALTHY_S = 1.5
AFTER_S = 1.0
COUNTED_S = 2.0
# The kernel reports a carrier at most once a second, so "usable" is late by up to that time.
USABLE_MAX_S = 3.0
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
IFF_UP, IFF_RUNNING = 0x1, 0x40


def socket_inside(holder):
    """Returns a socket of the host's network namespace, for queries to its kernel."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(namespace):
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    with open("/proc/self/ns/net") as own, open(f"/proc/{holder}/ns/net") as host:
        enter(host)
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            enter(own)


def runs(asking, nic):
    answer = fcntl.ioctl(asking, SIOCGIFFLAGS, struct.pack("16sh14x", f"nic{nic}".encode(), 0))
    flags = struct.unpack_from("16sh", answer)[1]
    return flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING


def wait_until_usable(lab, host, nic):
    deadline = time.monotonic() + USABLE_MAX_S
    with socket_inside(lab.holders[host]) as asking:
        while time.monotonic() < deadline:
            if runs(asking, nic):
                return time.monotonic()
            time.sleep(0.002)
    raise Failed(f"nic{nic} of h{host} does not run {USABLE_MAX_S:g} s after its repair")


def rate(operations):
    seconds = [o.seconds for o in operations]
    if not seconds:
        raise Failed("no operation to count")
    return {"operations": len(seconds), "MBps": bus_mbps(BYTES, sum(seconds) / len(seconds)),
            "median_ms": median(seconds) * 1e3, "p99_ms": percentile(seconds, 0.99) * 1e3}


def trial(lab, kind, options, rng):
    host, nic = rng.randrange(HOSTS), rng.randrange(NICS)
    run = lab.start_bench("-b", BYTES, "-w", 20, "--duration", HEALTHY_S + options.out
                          + USABLE_MAX_S + AFTER_S + COUNTED_S, "-c", 0)
    try:
        run.wait_for_traffic(host, nic)
        time.sleep(HEALTHY_S)
        broken = time.monotonic() if kind == "none" else lab.fault(host, nic, kind)[0]
        time.sleep(options.out)
        fixed = time.monotonic()
        if kind != "none":
            lab.fix(host, nic)
        usable = wait_until_usable(lab, host, nic)
        returned = run.wait_for_traffic(host, nic, timeout=USABLE_MAX_S)
        returned_s = time.monotonic() - usable if returned else None
        run.wait(60)
    finally:
        lab.command("fix")
    before = rate([o for o in run.operations if o.end < broken])
    begin = usable + AFTER_S
    after = rate([o for o in run.operations if begin <= o.start <= begin + COUNTED_S])
    return {"kind": kind, "host": host, "nic": nic, "usable_s": usable - fixed,
            "returned_s": returned_s, "before": before, "after": after,
            "line_percent": 100 * after["MBps"] / LINE_MBPS,
            "before_line_percent": 100 * before["MBps"] / LINE_MBPS,
            "before_percent": 100 * after["MBps"] / before["MBps"],
            "verdicts": run.result["verdicts"]}


def summarize(trials):
    return {"trials": len(trials),
            **{name: spread([t[name] for t in trials]) for name in (
                "line_percent", "before_line_percent", "before_percent", "usable_s")},
            "returned_s": spread([t["returned_s"] for t in trials if t["returned_s"] is not None]),
            "not_returned": sum(t["returned_s"] is None for t in trials)}


def main():
    p = parser(__doc__)
    p.add_argument("--trials", type=int, default=5, help="of each kind (default 5)")
    p.add_argument("--out", type=float, default=2.0, help="seconds that the NIC is gone")
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    if options.quick:
        options.trials = 1
    rng = random.Random(options.seed)
    document = {"what": "first_return", "machine": machine(), "bytes": BYTES, "out_s": options.out,
                "after_s": AFTER_S, "counted_s": COUNTED_S, "line_MBps": LINE_MBPS, "errors": []}
    trials = []
    with Lab(options.r2ccl, options.name) as lab:
        for done in trials_of(lambda kind: trial(lab, kind, options, rng), options.trials, KINDS,
                              rng, document["errors"]):
            trials.append(done)
            progress(f"{done['line_percent']:.1f} % of line, {done['before_percent']:.1f} % of before")
    document["kinds"] = {kind: summarize([t for t in trials if t["kind"] == kind]) for kind in KINDS}
    document["trials"] = trials
    for kind, row in document["kinds"].items():
        if row["trials"]:
            print(f"{kind:5} {row['trials']:3} trials: after {row['line_percent']['median']:.1f} % of "
                  f"line (at least {row['line_percent']['min']:.1f}), "
                  f"{row['before_percent']['median']:.1f} % of before (at least "
                  f"{row['before_percent']['min']:.1f}); usable {row['usable_s']['median']:.2f} s "
                  f"after the repair, data {row['returned_s']['median'] or 0:.2f} s later, "
                  f"{row['not_returned']} not returned")
    save(options.json, document)
    return 1 if document["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
