#!/usr/bin/env python3
"""Counts the instructions of a simulated transfer with valgrind's callgrind, and fails (exit code 1)
when an operation takes over 1 % more of them than bench/instruction_counts.json says. `--update`
writes the counts of this machine's environment into that file.

The transfer is an AllReduce on the simulated network, with every rank of the job in one thread and
virtual time, so that each run executes the same instructions. The difference between a long run and
a short one leaves out the start and the end. Functions of the simulator are not counted. The counts
depend on the compiler, the C library and the vector instructions, so the file has them for each
environment. In an unknown one the exit code is 77: skipped.

The table gives the operations that are system calls on a real network, too. A row counts all ranks
together: per operation, and per MB (10^6 bytes) of payload that they send.
"""
import argparse
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from callgrind import Profile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "simulated_transfer"
STORED = ROOT / "bench" / "instruction_counts.json"
UPDATE = "python3 bench/instruction_ratchet.py --update"
SKIPPED = 77
GROWTH_MAX_PERCENT = 1
SHOWN = 8  # functions in each list
KIB, MIB = 1 << 10, 1 << 20
# Hosts, NICs, bytes, operations of the short and of the long run.
WORKLOADS = {"1 KB, 2 hosts x 2 NICs": (2, 2, KIB, 40, 440),
             "64 KB, 4 hosts x 2 NICs": (4, 2, 64 * KIB, 20, 120),
             "16 MB, 2 hosts x 2 NICs": (2, 2, 16 * MIB, 4, 8)}
SIMULATOR = "r2ccl::sim::"
ALLOCATIONS = "allocations"
# Calls of one function; the names are as callgrind prints them.
EVENTS = {"writes": "r2ccl::sim::SimConnection::write(",
          "reads": "r2ccl::sim::Flow::read(",
          "waits": "r2ccl::sim::SimPoller::wait(",
          "data frames": "r2ccl::ChunkSender::send_frame(",
          "control frames": "r2ccl::ControlStream::seal(",  # send() is inlined
          ALLOCATIONS: "operator new("}
# callgrind counts each byte that the C library copies with one instruction (rep movsb).
ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1000000000:"
                                 "glibc.cpu.x86_rep_stosb_threshold=1000000000"}


class Failed(Exception):
    """The counts cannot be taken."""


def first_line(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def environment():
    """Returns the things, in words, that the counts depend on beside the sources."""
    cache = (ROOT / "build" / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE).group(1)
    version = first_line(compiler, "--version").partition(" ")[2]
    vectors = "AVX2" if re.search(r"\bavx2\b", pathlib.Path("/proc/cpuinfo").read_text()) else "SSE"
    return ", ".join([f"compiler {version}", " ".join(platform.libc_ver()),
                      first_line("valgrind", "--version"), f"{platform.machine()} with {vectors}"])


def build():
    """Makes PROGRAM: the counts of one that is older than the sources mean nothing."""
    done = subprocess.run(["cmake", "--build", "--preset", "release", "--target", PROGRAM.name],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{PROGRAM.name} cannot be built: {done.stdout[-400:]}{done.stderr[-400:]}")


def profile(hosts, nics, size, operations):
    with tempfile.TemporaryDirectory(prefix="r2callgrind-") as directory:
        out = pathlib.Path(directory) / "out"
        done = subprocess.run(
            ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}", PROGRAM,
             *map(str, (hosts, nics, size, operations))],
            env=ENVIRONMENT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{PROGRAM.name} under callgrind: {done.stderr[-400:]}")
        return Profile(out)


def measure(workload):
    """Returns the counts of one operation, and the difference of the two profiles."""
    hosts, nics, size, few, many = workload
    cost = profile(hosts, nics, size, many).less(profile(hosts, nics, size, few))
    operations = many - few
    engine = sum(count for name, count in cost.own.items() if SIMULATOR not in name)
    counts = {"instructions": engine / operations}
    for event, prefix in EVENTS.items():
        calls = sum(count for (caller, name), count in cost.arcs.items()
                    if name.startswith(prefix) and (event != ALLOCATIONS or SIMULATOR not in caller))
        counts[event] = calls / operations
    return counts, cost


def check_names(counts):
    """Fails for an event that no workload has. In one of them an event may be rare."""
    for event, prefix in EVENTS.items():
        if all(each[event] == 0 for each in counts):
            raise Failed(f"no call of {prefix} was seen: has the function another name?")


def show(name, workload, counts, cost):
    hosts, _, size, few, many = workload
    megabytes = 2 * (hosts - 1) * size / 1e6
    print(f"{name}:")
    for what, count in counts.items():
        print(f"  {what:15} {count:14,.1f} per operation {count / megabytes:14,.1f} per MB")
    print("  most allocations per operation:")
    allocations = [(calls, caller) for (caller, callee), calls in cost.arcs.most_common()
                   if callee.startswith(EVENTS[ALLOCATIONS]) and SIMULATOR not in caller]
    for calls, caller in allocations[:SHOWN]:
        print(f"  {calls / (many - few):14,.1f} {caller[:90]}")
    print("  most instructions per operation:")
    shown = [(own, function) for function, own in cost.own.most_common() if SIMULATOR not in function]
    for own, function in shown[:SHOWN]:
        print(f"  {own / (many - few):14,.1f} {function[:90]}")


def judge(measured, stored):
    """Returns a line for each workload, and whether one of them grew beyond the limit."""
    lines, grew = [], False
    for name, instructions in measured.items():
        if name not in stored:
            lines.append(f"{name}: no stored count; `{UPDATE}` adds it")
            grew = True
            continue
        # In integers: exactly 1 % passes.
        growth = 100 * (instructions - stored[name])
        limit = GROWTH_MAX_PERCENT * stored[name]
        line = (f"{name}: {instructions:,} instructions per operation, stored {stored[name]:,} "
                f"({growth / stored[name]:+.2f} %)")
        if growth > limit:
            line += (f": more than {GROWTH_MAX_PERCENT} % above. Find the cause, or accept it "
                     f"with `{UPDATE}`")
            grew = True
        elif growth < -limit:
            line += f": `{UPDATE}` keeps the gain"
        lines.append(line)
    return lines, grew


def read_stored():
    return json.loads(STORED.read_text()) if STORED.exists() else {"environments": {}}


def update(where, measured):
    document = read_stored()
    document["environments"][where] = measured
    STORED.write_text(json.dumps({"update_with": UPDATE, **document}, indent=1) + "\n")


def compare(where, measured):
    lines, grew = judge(measured, read_stored()["environments"][where])
    print("\n".join(lines))
    return 1 if grew else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="store the counts of this environment")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is missing (apt-get install valgrind)")
        return SKIPPED
    if not (ROOT / "build" / "CMakeCache.txt").exists():
        print("the directory build is missing: cmake --preset release")
        return 1
    where = environment()
    if not options.update and where not in read_stored()["environments"]:
        print(f"skipped: no counts are stored for {where}; `{UPDATE}` adds them")
        return SKIPPED
    measured, all_counts = {}, []
    try:
        build()
        for name, workload in WORKLOADS.items():
            counts, cost = measure(workload)
            show(name, workload, counts, cost)
            measured[name] = round(counts["instructions"])
            all_counts.append(counts)
        check_names(all_counts)
    except Failed as failure:
        print(failure)
        return 1
    if options.update:
        update(where, measured)
        return 0
    return compare(where, measured)


if __name__ == "__main__":
    sys.exit(main())
