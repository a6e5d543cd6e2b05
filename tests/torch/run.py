#!/usr/bin/env python3
"""Runs the tests of the torch backend. Needs torch, and libr2ccl.so in build/ or R2CCL_LIBRARY.

    run.py [-k TEXT] [--sizes 1,2,4] [--device cuda] [MODULE...]

A module whose name ends with _test has cases for groups: they run in every rank of groups of 1, 2
and 4 processes on this host. One whose name ends with _process starts its own processes. Each test
is a line: "ok" or "FAIL", the number of ranks, its name and its time; or "left out", its name and
the reason. The last line is the sum. A test that is left out has not passed.

With --device cuda the groups' tensors are on the GPU, which the ranks of this host may share. The
tests of cuda_test run only where torch finds a GPU.
"""

import argparse
import functools
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT_S = 900


HELD_PORTS = []


def free_port():
    """Returns a port. The kernel gives it to no connection while this process lives.

    A socket that is bound and does not listen holds it: a listener with SO_REUSEADDR may share it.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    HELD_PORTS.append(held)
    return held.getsockname()[1]


@functools.lru_cache(maxsize=None)
def environment():
    """Returns the environment of a process that imports this tree's package."""
    env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    env.setdefault("R2CCL_TORCH_DUMP_PREFIX", os.path.join(tempfile.mkdtemp(), "dump_"))
    paths = [str(ROOT / "python"), str(HERE), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return env


def run_group(modules, size, pattern, device):
    """Runs the cases in a group. Prints their lines. Returns (passed, failed)."""
    env = dict(environment(), WORLD_SIZE=str(size), STORE_PORT=str(free_port()), DEVICE=device)
    command = [sys.executable, str(HERE / "rank.py"), pattern, *modules]
    others = [subprocess.Popen(command, env=dict(env, RANK=str(rank))) for rank in range(1, size)]
    first = subprocess.Popen(command, env=dict(env, RANK="0"), stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(LIMIT_S, lambda: [each.kill() for each in (first, *others)])
    watchdog.start()
    passed = failed = 0
    for line in first.stdout:
        print(line, end="", flush=True)
        passed += line.startswith("ok ")
        failed += line.startswith("FAIL ")
    codes = [process.wait() for process in (first, *others)]
    watchdog.cancel()
    if not failed and any(codes):
        print(f"FAIL {size} ranks: the processes ended with {codes}", flush=True)
        failed += 1
    return passed, failed


class Lines(unittest.TestResult):
    """Prints a line for each test of a module that starts its own processes."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def stopTest(self, test):
        texts = [text for bad, text in self.failures + self.errors
                 if getattr(bad, "test_case", bad) is test]  # the test, or a subtest of it
        reasons = [reason for left_out, reason in self.skipped if left_out is test]
        word = "FAIL" if texts else "left out" if reasons else "ok  "
        print(f"{word}         {test.id()} ({time.monotonic() - self.started:.2f} s)"
              + "".join(f": {reason}" for reason in reasons), flush=True)
        for text in texts:
            print(text, flush=True)
        super().stopTest(test)


def run_processes(modules, pattern):
    """Runs the cases of modules that start their own processes. Returns (passed, failed, left
    out)."""
    os.environ.update(environment())
    sys.path[:0] = [str(ROOT / "python"), str(HERE)]
    suite = unittest.TestSuite()
    for name in modules:
        for case in unittest.defaultTestLoader.loadTestsFromName(name):
            suite.addTests(test for test in case if pattern in test.id())
    result = Lines()
    suite.run(result)
    failed = len(result.failures) + len(result.errors)
    return result.passed, failed, len(result.skipped)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("-k", dest="pattern", default="", help="only tests with this text")
    parser.add_argument("--sizes", default="1,2,4", help="numbers of ranks")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"),
                        help="where the groups' tensors are")
    args = parser.parse_args()
    names = args.modules or sorted(path.stem for path in HERE.glob("*.py"))
    in_groups = [name for name in names if name.endswith("_test")]
    passed = failed = 0
    for size in map(int, args.sizes.split(",") if in_groups else ()):
        one = run_group(in_groups, size, args.pattern, args.device)
        passed, failed = passed + one[0], failed + one[1]
    one = run_processes([name for name in names if re.search("_process$", name)], args.pattern)
    passed, failed = passed + one[0], failed + one[1]
    print(f"{passed} passed, {failed} failed" + (f", {one[2]} skipped" if one[2] else ""),
          flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
