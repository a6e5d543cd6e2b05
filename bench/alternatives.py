#!/usr/bin/env python3
"""One host sends to another over four NICs, by ECMP, by MPTCP and by r2ccl, and one NIC fails under
it. Prints the table of docs/alternatives.md.

ECMP is the kernel's multipath route between addresses on lo, which hashes addresses and ports; one
TCP connection, and four at once. MPTCP is the kernel's, one connection with a subflow for each NIC.
r2ccl runs Broadcast of 1 MB. The fault hits the NIC that carries most, for --out seconds, and is
then mended. An operation is 1 MB, spread evenly over the flows. The stall is the longest operation
while the fault lasts and the second after it, less the median of those before. A flow that gets on
only once the NIC is back stalls for as long as the fault.
"""
import json
import pathlib
import sys
import time

from lab import Failed, Lab, machine, median, output_of, parser, progress, save

MBIT, NICS = 250, 4
BYTES = 1 << 20
HEALTHY_S, AFTER_S = 2.0, 1.0
TRANSFER = pathlib.Path(__file__).resolve().parent / "peers" / "transfer.py"
WAYS = {"ECMP, one connection": ("10.99.0.2", 1, False),
        "ECMP, four connections": ("10.99.0.2", 4, False),
        "MPTCP": ("10.77.0.2", 1, True), "r2ccl": None}


def prepare(lab):
    """Gives the hosts multipath routes and MPTCP endpoints."""
    for host, peer in ((0, 1), (1, 0)):
        hops = " ".join(f"nexthop via 10.77.{nic}.{peer + 1} dev nic{nic}" for nic in range(NICS))
        lines = [f"ip address add 10.99.0.{host + 1}/32 dev lo",
                 f"ip route add 10.99.0.{peer + 1} src 10.99.0.{host + 1} {hops}",
                 "sysctl -q net.ipv4.fib_multipath_hash_policy=1",
                 "sysctl -q net.ipv4.conf.all.rp_filter=0",
                 "ip mptcp limits set subflow 8 add_addr_accepted 8"]
        lines += [f"ip mptcp endpoint add 10.77.{nic}.2 dev nic{nic} signal"
                  for nic in range(1, NICS) if host == 1]
        lab.command("run", f"h{host}", "sh", "-ec", "\n".join(lines))


def busiest_nic(lab, seconds):
    """Returns the NIC of h0 that sends most during that time, and how many carry a tenth of it."""
    before = lab.sent_bytes()["h0"]
    time.sleep(seconds)
    sent = {nic: count - before[nic] for nic, count in lab.sent_bytes()["h0"].items()}
    used = sum(count > max(sent.values()) / 10 for count in sent.values())
    return int(max(sent, key=sent.get).removeprefix("nic")), used


def rate(points, begin, end):
    """Returns the MB/s of a flow between two times."""
    inside = [point for point in points if begin <= point[0] <= end]
    if len(inside) < 2:
        return 0.0
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) / 1e6


def operations(points, size):
    """Returns (start, end) of each `size` bytes of a flow; the last one may be unfinished."""
    ends, wanted = [points[0][0]], size
    for at, count in points:
        while count >= wanted:
            ends.append(at)
            wanted += size
    return [*zip(ends, ends[1:]), (ends[-1], float("inf"))]


def stall_ms(times, began, until):
    """Returns the longest of these operations under the fault, less the median before it."""
    healthy = median([end - start for start, end in times if end < began])
    under = [min(end, until) - start for start, end in times if end > began and start < until]
    return 1e3 * (max(under) - healthy)


def hit(lab, fault, out_s):
    """Breaks and mends the NIC that carries most. Returns when the fault began, and the number of
    NICs that were used."""
    nic, used = busiest_nic(lab, HEALTHY_S)
    began, _ = lab.fault(0, nic, fault)
    time.sleep(out_s)
    lab.fix(0, nic)
    time.sleep(AFTER_S)
    return began, used


def run_transfer(lab, way, fault, out_s, port):
    address, flows, mptcp = WAYS[way]
    options = ["--mptcp"] if mptcp else []
    seconds = HEALTHY_S + out_s + AFTER_S + 1.5

    def start(host, *words):
        return lab.start([lab.r2ccl, "lab", "run", f"h{host}", sys.executable, TRANSFER, *words,
                          *options])
    receiver = start(1, "receive", address, port, flows, seconds)
    sender = start(0, "send", address, port, flows)
    time.sleep(0.7)
    began, used = hit(lab, fault, out_s)
    lines = output_of(receiver, seconds + 10).splitlines()
    output_of(sender, 10)
    points = [json.loads(line) for line in lines]
    until = began + out_s + AFTER_S
    return {"nics": used, "MBps": sum(rate(own, began - HEALTHY_S + 0.5, began) for own in points),
            "stall_ms": max(stall_ms(operations(own, BYTES // flows), began, until)
                            for own in points)}


def run_r2ccl(lab, fault, out_s):
    run = lab.start_bench("--collective", "broadcast", "-b", BYTES, "--duration",
                          HEALTHY_S + out_s + AFTER_S + 2, "-c", 0, "--out-of-place")
    if not run.wait_for_traffic(0, 0):
        raise Failed("no traffic")
    began, used = hit(lab, fault, out_s)
    run.wait(60)
    times = [(each.start, each.end) for each in run.operations]
    healthy = median([end - start for start, end in times if end < began])
    return {"nics": used, "MBps": BYTES / healthy / 1e6,
            "stall_ms": stall_ms(times, began, began + out_s + AFTER_S)}


def print_table(results):
    print("| | NICs used | MB/s | pulled: stall ms, median (largest) | silent: the same |")
    print("|---|---|---|---|---|")
    for way in WAYS:
        own = [each for each in results if each["way"] == way]
        stalls = {fault: [each["stall_ms"] for each in own if each["fault"] == fault]
                  for fault in ("pull", "hole")}
        print(f"| {way} | {median([each['nics'] for each in own]):.0f} "
              f"| {median([each['MBps'] for each in own]):.0f} " +
              "".join(f"| {median(own):,.0f} ({max(own):,.0f}) " for own in stalls.values()) + "|")


def main():
    p = parser(__doc__)
    p.add_argument("--trials", type=int, default=5)
    p.add_argument("--out", type=float, default=3.0, help="seconds that a fault lasts")
    args = p.parse_args()
    document = {"machine": machine(), "out_s": args.out, "results": []}
    with Lab(args.r2ccl, args.name, hosts=2, nics=NICS, mbit=MBIT) as lab:
        prepare(lab)
        for trial in range(1 if args.quick else args.trials):
            for number, way in enumerate(WAYS):
                for fault in ("pull", "hole"):
                    progress(f"trial {trial + 1}, {way}, {fault}")
                    port = 5000 + 100 * trial + 10 * number + (fault == "hole")
                    result = (run_transfer(lab, way, fault, args.out, port) if WAYS[way]
                              else run_r2ccl(lab, fault, args.out))
                    document["results"].append({"way": way, "fault": fault, **result})
    print_table(document["results"])
    save(args.json, document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
