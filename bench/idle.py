#!/usr/bin/env python3
"""The cost of a job that does nothing: processor time, wake-ups and memory of each rank.

Each host of the lab runs one rank. It makes a communicator, runs some AllReduces, waits until the
job is quiet, and then reads its own processor time and the number of its wake-ups for some seconds.
The memory is the growth of its resident set since before the communicator. Unshaped NICs: an idle
job sends next to nothing.
"""
import ctypes
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

from lab import Failed, Lab, machine, median, output_of, parser, progress, save

SHAPES = ((2, 8), (4, 8), (8, 8), (16, 8), (16, 1))
FLOAT32, SUM = 7, 0
COUNT = 250_000
QUIET_S = 3  # the times that the kernel counts since the last operation have passed by then


def resident_kb():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["VmRSS"].split()[0])


def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"user_s": used.ru_utime, "system_s": used.ru_stime, "wakeups": used.ru_nvcsw}


def rank_program(library, seconds):
    lib = ctypes.CDLL(library)
    lib.r2cclGetLastError.restype = ctypes.c_char_p
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    lib.r2cclAllReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]

    def check(result):
        if result != 0:
            sys.exit(f"error {result}: {lib.r2cclGetLastError(None).decode()}")

    values = (ctypes.c_float * COUNT)()
    resident = resident_kb()
    comm = ctypes.c_void_p()
    check(lib.r2cclCommInitEnv(ctypes.byref(comm), None))
    ready = resident_kb()
    for _ in range(20):
        check(lib.r2cclAllReduce(values, values, COUNT, FLOAT32, SUM, comm, None))
    time.sleep(QUIET_S)
    before = spent()
    time.sleep(seconds)
    cost = {name: value - before[name] for name, value in spent().items()}
    cost["ready_kb"] = ready - resident
    cost["resident_kb"] = resident_kb() - resident
    os.write(1, json.dumps(cost).encode() + b"\n")  # in one write: other ranks write there too
    check(lib.r2cclCommDestroy(comm))


def make_neighbours_permanent(lab):
    """The kernel has a bounded table for the addresses that it learns, too small for 16 hosts with
    8 NICs. Entries that are given to it do not count."""
    def inside(host, *words, **options):
        return subprocess.run(["nsenter", "-t", str(lab.holders[host]), "-n", "ip", *words],
                              check=True, text=True, capture_output=True, **options).stdout

    nics = [(host, nic["ifname"], nic["address"], each["local"])
            for host in range(lab.hosts) for nic in json.loads(inside(host, "-j", "addr"))
            for each in nic["addr_info"] if each["family"] == "inet" and nic["ifname"] != "lo"]
    for host in range(lab.hosts):
        lines = [f"neigh replace {address} lladdr {hardware} dev {name} nud permanent"
                 for other, name, hardware, address in nics if other != host]
        inside(host, "-batch", "-", input="\n".join(lines))


def measure(args, hosts, nics):
    library = pathlib.Path(args.r2ccl).resolve().parent / "libr2ccl.so"
    with Lab(args.r2ccl, args.name, hosts, nics, 0) as lab:
        make_neighbours_permanent(lab)
        argv = ["python3", pathlib.Path(__file__).resolve(), "--rank", library, args.seconds]
        text = output_of(lab.start(lab.on_all(*argv)), 120 + args.seconds)
    ranks = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if len(ranks) != hosts:
        raise Failed(f"{len(ranks)} of {hosts} ranks answered: {text[-500:]}")
    core = [100 * (rank["user_s"] + rank["system_s"]) / args.seconds for rank in ranks]
    links = hosts - 1
    row = {"ranks": hosts, "nics": nics, "paths_of_a_rank": links * (nics + 1),
           "core_percent_median": round(median(core), 4), "core_percent_max": round(max(core), 4),
           "system_share": round(sum(rank["system_s"] for rank in ranks) /
                                 sum(rank["user_s"] + rank["system_s"] for rank in ranks), 2),
           "wakeups_per_s": round(median([rank["wakeups"] for rank in ranks]) / args.seconds, 1),
           "ready_kb_median": median([rank["ready_kb"] for rank in ranks]),
           "resident_kb_median": median([rank["resident_kb"] for rank in ranks])}
    row["core_percent_of_100_paths"] = round(
        100 * row["core_percent_median"] / row["paths_of_a_rank"], 4)
    return row


def main():
    if sys.argv[1:2] == ["--rank"]:
        return rank_program(sys.argv[2], float(sys.argv[3]))
    p = parser(__doc__)
    p.add_argument("--seconds", type=float, default=20, help="how long each job is watched")
    p.add_argument("--shape", action="append", metavar="RANKSxNICS", help="instead of all shapes")
    args = p.parse_args()
    shapes = [tuple(map(int, shape.split("x"))) for shape in args.shape or ()] or SHAPES
    if args.quick:
        shapes, args.seconds = [(2, 2)], 2
    document = {"machine": machine(), "seconds": args.seconds, "jobs": []}
    for hosts, nics in shapes:
        row = measure(args, hosts, nics)
        progress(json.dumps(row))
        document["jobs"].append(row)
    save(args.json, document)


if __name__ == "__main__":
    main()
