#!/usr/bin/env python3
"""Runs stock NCCL on a machine without a GPU, over its own sockets and over a network plugin.

    run.py [TEST...] [--ranks 2,4] [--plugin PATH --net NAME | --only-sockets | --only-plugin]
           [--tables] [--version 2.30.7] [--sanitizer address|thread]
    run.py loop --ranks 2 --bytes 1048576 --seconds 10 [--plugin PATH]

NCCL is the library of a wheel of PyPI, unchanged, which this script downloads once into a cache
(build/nccl-wheels, or R2CCL_NCCL_CACHE). CUDA's runtime is linked into that library. The emulator
(emulator/, libemulated_cuda.so) redirects the runtime's functions to its own in the memory of the
process: device memory is then host memory, a stream is a thread, and a launch of one of NCCL's
kernels does the kernel's work on the CPU, over the same structs, buffers and flags that a GPU would
use. NCCL's other code runs as it is: its topology search, its proxy threads, its transports, and
the plugin. gdb prints the layout of the structs from the library's debug information (layout.py).

The driver (driver/, nccl_driver) is one rank; its tests check every element:

    collectives  all collectives, Send and Recv, groups: 0 to 1,048,576 elements
    splits       communicators that are parts of others
    cycles       communicators made and destroyed again and again; no descriptor or thread stays
    abort        the program aborts an operation that cannot end, and makes a new communicator
    leave        a rank leaves; the others get an error and can abort
    crowd        four communicators of two ranks reduce at the same time, again and again, with
                 sizes at which messages meet in one read (docs/decisions/0040)
    loop         AllReduce for --seconds or --iterations; prints a line of JSON for each rank

The loop runs only when it is named. Without --plugin the tests run over sockets and, if it is
built, over the build's own plugin. --sanitizer takes the plugin of build-dev or build-tsan, and
NCCL without instruments. --tables adds the collectives over each of the plugin's tables,
by builds that have no other one, and over a build that takes the memory of the emulated GPUs. Each
test is a line, "ok" or "FAIL", the number of ranks, its name, the network, and its time; the last
line is the sum. After a failure the logs stay: those of the ranks, NCCL's own (NCCL_DEBUG=INFO),
and the stacks of ranks that did not end. EMULATED_CUDA_LOG=2 logs each launch.

Without a network or gdb the tests fail; with R2CCL_ALLOW_SKIP=1 they are skipped (status 77).
Variables NCCL_* of the environment reach the ranks, except where the emulator needs other values
(job.py).
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import job
import wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77
PACKAGES = {12: "nvidia-nccl-cu12", 13: "nvidia-nccl-cu13"}
VERSION = "2.30.7"
TESTS = ("collectives", "splits", "cycles", "abort", "leave", "crowd")
# The test crowd is the driver's loop. Without the order of bytes most runs of 20 s had an error.
CROWD = ("--communicators", 4, "--bytes", 11_200, "--iterations", 10_000)
# A test takes a few seconds. The driver gives up an operation earlier than the runner the test.
LIMIT_S, PATIENCE_S = 120, 60
# For each: the folder of the plugin's build, the library to load first, and its settings. NCCL has
# leaks and races of its own.
SANITIZERS = {
    "address": ("build-dev", "libasan.so", {"ASAN_OPTIONS": "detect_leaks=0"}),
    "thread": ("build-tsan", "libtsan.so",
               {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1:halt_on_error=1"}),
}
# The versions of NCCL's interface that the plugin has a table for.
TABLES = range(6, 13)


def driver_arguments(test, args):
    if test == "crowd":
        return ["--patience", PATIENCE_S, *CROWD]
    if test != "loop":
        return ["--patience", PATIENCE_S, "--largest", args.largest, "--cycles", args.cycles]
    given = (("--bytes", args.bytes), ("--seconds", args.seconds),
             ("--iterations", args.iterations), ("--communicators", args.communicators),
             ("--stall-ms", args.stall_ms))
    return ["--patience", LIMIT_S, *(word for option in given if option[1] for word in option)]


def run_test(setup, test, ranks, args):
    """Runs a test and prints its line. Returns whether it has passed."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"nccl-{test}-"))
    started = time.monotonic()
    more = {"LD_PRELOAD": args.preload} if args.preload else {}
    prefix = ()
    if args.sanitizer:
        more |= SANITIZERS[args.sanitizer][2]
        # gcc 12's libraries cannot map their shadow where the kernel randomises more bits.
        prefix = ("setarch", os.uname().machine, "-R")
    running = job.Job(setup, folder, "loop" if test == "crowd" else test, ranks,
                      driver_arguments(test, args),
                      prefix=lambda rank: prefix, environment=lambda rank: more)
    try:
        codes = running.wait(args.limit + (args.seconds or 0))
    finally:
        running.end()
    network = running.network()
    wanted = setup.environment(0)["NCCL_NET"].lower()
    passed = (codes == [0] * ranks and network.lower().startswith(wanted) and
              network.endswith("GPU") == setup.gpu_memory)
    print(f"{'ok  ' if passed else 'FAIL'} {ranks} ranks {test} over {network or 'no network'} "
          f"({time.monotonic() - started:.2f} s)", flush=True)
    if passed:
        if test == "loop":
            print_json(running, ranks)
        shutil.rmtree(folder, ignore_errors=True)
        return True
    print(f"     the ranks ended with {codes} (None: ended by this script); logs in {folder}")
    for rank in range(ranks):
        for line in running.output(rank).splitlines()[-8:]:
            print(f"     {rank}: {line}")
    return False


def print_json(running, ranks):
    for rank in range(ranks):
        for line in running.output(rank).splitlines():
            if line.startswith("{"):
                print(line)


def setups(args, folder):
    """Returns a job.Setup for each network, and one for each table and for GPU memory. Raises
    wheel.Missing."""
    programs = args.build / "tests" / "nccl"
    if not (programs / "nccl_driver").exists():
        raise wheel.Missing(f"{programs} has no nccl_driver: build the target nccl_tests")
    cache = pathlib.Path(os.environ.get("R2CCL_NCCL_CACHE") or args.build / "nccl-wheels")
    library = wheel.library(PACKAGES[args.cuda], args.version, cache.resolve())
    layout = folder / "layout.txt"
    layout.write_text(wheel.layout(library))
    plugin = args.plugin
    built = args.build / "libnccl-net-r2ccl.so"
    if plugin is None and built.exists() and not args.only_sockets:
        plugin = built
    result = []
    if args.plugin is None and not args.only_plugin:
        result.append(job.Setup(programs, library, layout))
    if plugin is not None:
        result.append(job.Setup(programs, library, layout, plugin.resolve(), args.net))
    if args.only_plugin and plugin is None:
        raise wheel.Missing(f"there is no {built}")
    tables = []
    if args.tables:
        tables = [job.Setup(programs, library, layout, programs / f"libnccl-net-table_v{version}.so",
                            args.net) for version in TABLES]
        tables.append(job.Setup(programs, library, layout, programs / "libnccl-net-gpu.so", args.net,
                                gpu_memory=True))
    return result, tables


def read_command_line():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="*", metavar="TEST",
                        help=f"of {', '.join(TESTS)}, loop; default: all but the loop")
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (default: 2,4)")
    parser.add_argument("--plugin", type=pathlib.Path, help="a network plugin; no test over sockets")
    parser.add_argument("--net", default="r2ccl", help="the name of the plugin's network")
    parser.add_argument("--only-sockets", action="store_true", help="no test over a plugin")
    parser.add_argument("--only-plugin", action="store_true", help="no test over sockets")
    parser.add_argument("--tables", action="store_true",
                        help="also the collectives over each of the plugin's tables, and in GPU memory")
    parser.add_argument("--version", default=VERSION, help=f"of NCCL (default: {VERSION})")
    parser.add_argument("--cuda", type=int, default=13, choices=sorted(PACKAGES),
                        help="the CUDA that the wheel is for")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--preload", help="a library for LD_PRELOAD, such as libasan.so")
    parser.add_argument("--sanitizer", choices=sorted(SANITIZERS),
                        help="a plugin that is built with it")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for a test")
    parser.add_argument("--largest", type=int, default=1 << 20,
                        help="the most elements of a collective")
    parser.add_argument("--cycles", type=int, default=3, help="communicators of the test cycles")
    parser.add_argument("--bytes", type=int, help="of an operation of the loop")
    parser.add_argument("--seconds", type=float, help="of the loop")
    parser.add_argument("--iterations", type=int, help="of the loop")
    parser.add_argument("--communicators", type=int,
                        help="of the loop, which reduce at the same time (default: 1)")
    parser.add_argument("--stall-ms", type=float, help="an operation of the loop that takes as long "
                        "is a stall (default: 100)")
    args = parser.parse_args()
    for test in args.tests:
        if test not in (*TESTS, "loop"):
            parser.error(f"there is no test {test}")
    if args.sanitizer:
        folder, library, _ = SANITIZERS[args.sanitizer]
        args.plugin = args.plugin or ROOT / folder / "libnccl-net-r2ccl.so"
        args.preload = subprocess.run(["g++", f"-print-file-name={library}"], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout.strip()
    return args


def main():
    args = read_command_line()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            networks, tables = setups(args, pathlib.Path(folder))
        except wheel.Missing as error:
            print(f"nccl: {error}", file=sys.stderr)
            allowed = os.environ.get("R2CCL_ALLOW_SKIP") == "1"
            print("SKIPPED" if allowed else "0 passed, 1 failed")
            return SKIPPED if allowed else 1
        runs = [(setup, test, ranks) for setup in networks
                for ranks in map(int, args.ranks.split(",")) for test in args.tests or TESTS
                if test != "crowd" or ranks == 2]
        runs += [(setup, "collectives", 2) for setup in tables]
        for run in runs:
            is_good = run_test(*run, args)
            passed, failed = passed + is_good, failed + (not is_good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
