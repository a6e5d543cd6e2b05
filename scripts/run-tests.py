#!/usr/bin/env python3
"""Builds and runs every test: release, ASan+UBSan and TSan.

At the end stand the names of the tests that failed. The last line printed is "N passed, N failed"
(and ", N skipped" when any were), the sum over all runs; the exit code is 0 only when nothing
failed. A build that fails counts as one failed test, so that its absence can never read as success.
"""

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Labels of tests that only run in release: `process` runs real programs in network namespaces with
# time bounds that a sanitizer would stretch, `repo` looks at the tree and the installed files.
RELEASE_ONLY = "process|repo"
# Simulations of long jobs, for what a fault costs these. Others run the same code for seconds where
# these, under a sanitizer, take minutes.
LONG_JOBS = r"ConditionsTest|Grey|FanIn|HostClock\.LeapsAny|Cluster\.(ASlowNic|NoOperation|ANicThat)"


@dataclasses.dataclass(frozen=True)
class Config:
    preset: str
    build_dir: str
    target: str
    ctest_runs: tuple  # each a tuple of ctest arguments


CONFIGS = {
    "release": Config("release", "build", "all", (
        ("-LE", "process"),
        # After the others: some of these measure time.
        ("-L", "process"))),
    "asan": Config("dev", "build-dev", "sanitizer_tests", (("-LE", RELEASE_ONLY, "-E", LONG_JOBS),)),
    "tsan": Config("tsan", "build-tsan", "sanitizer_tests", (("-LE", RELEASE_ONLY),)),
}


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: list = dataclasses.field(default_factory=list)  # of what failed

    def fail(self, name):
        self.failed += 1
        self.names.append(name)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.names += other.names

    def __str__(self):
        line = f"{self.passed} passed, {self.failed} failed"
        return line + (f", {self.skipped} skipped" if self.skipped else "")


def test_environment():
    supp = ROOT / "tests" / "suppressions"
    env = dict(os.environ)
    env["ASAN_OPTIONS"] = f"suppressions={supp}/asan.supp:detect_stack_use_after_return=1"
    env["UBSAN_OPTIONS"] = f"suppressions={supp}/ubsan.supp:print_stacktrace=1"
    env["TSAN_OPTIONS"] = f"suppressions={supp}/tsan.supp:halt_on_error=1:second_deadlock_stack=1"
    env["CTEST_OUTPUT_ON_FAILURE"] = "1"
    return env


def without_randomised_addresses():
    """gcc 12's TSan cannot map its shadow where the kernel randomises more bits than it knew of."""
    prefix = ["setarch", os.uname().machine, "-R"]
    works = shutil.which("setarch") and subprocess.run(
        prefix + ["true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return prefix if works else []


def run(command, env):
    print("+", " ".join(command), flush=True)
    return subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                          check=False).returncode


def build(config, prefix, jobs, env):
    configure = ["cmake", "--preset", config.preset]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        configure.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    compile_all = prefix + ["cmake", "--build", "--preset", config.preset, "--target",
                            config.target, f"-j{jobs}"]
    return run(configure, env) == 0 and run(compile_all, env) == 0


def read_junit(path):
    tally = Tally()
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("skipped") is not None:
            tally.skipped += 1
        elif case.get("status") == "run":
            tally.passed += 1
        else:
            tally.fail(case.get("name"))
    return tally


def run_ctest(config, arguments, prefix, jobs, env):
    """One ctest run. Crashing or finding no test at all counts as a failure."""
    junit = ROOT / config.build_dir / "junit.xml"
    junit.unlink(missing_ok=True)
    code = run(prefix + ["ctest", "--test-dir", config.build_dir, f"-j{jobs}", "--output-junit",
                         str(junit), *arguments], env)
    tally = read_junit(junit) if junit.exists() else Tally()
    if code != 0 and tally.failed == 0:
        tally.fail(f"ctest, exit code {code}")
    return tally


def run_config(name, jobs):
    config = CONFIGS[name]
    env = test_environment()
    prefix = without_randomised_addresses() if name == "tsan" else []
    print(f"\n=== {name}: building", flush=True)
    if not build(config, prefix, jobs, env):
        print(f"=== {name}: the build failed", flush=True)
        return Tally(failed=1, names=["the build"])
    tally = Tally()
    for arguments in config.ctest_runs:
        tally.add(run_ctest(config, arguments, prefix, jobs, env))
    if tally.passed + tally.failed + tally.skipped == 0:
        print(f"=== {name}: no test was found", flush=True)
        return Tally(failed=1, names=["no test was found"])
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="*", metavar="CONFIG",
                        help=f"which of {', '.join(CONFIGS)} (all)")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    unknown = set(args.configs) - set(CONFIGS)
    if unknown:
        parser.error(f"no such configuration: {', '.join(sorted(unknown))}")

    total = Tally()
    rows = []
    for name in args.configs or CONFIGS:
        started = time.monotonic()
        tally = run_config(name, args.jobs)
        rows.append(f"{name:8} {tally} ({time.monotonic() - started:.0f} s)")
        rows += [f"         failed: {test}" for test in tally.names]
        total.add(tally)
    print("\n" + "\n".join(rows))
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
