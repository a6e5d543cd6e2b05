#!/usr/bin/env python3
"""Builds and runs tests: the suite `test`, `check` or `nightly`, or the steps that are named.

The output ends with a row for each step, each failed test with the command that runs it alone and
the end of its output, and the tests that the suite leaves out. The last line is "N passed, N failed"
(and ", N skipped" when any were), the sum over all steps; the exit code is 0 only when nothing
failed. A build or a script that fails counts as one failed test, so that its absence can never read
as success.
"""

import argparse
import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT_LINES = 25  # of a failed test, repeated at the end
SKIPPED = 77  # the exit code of a script that cannot run on this machine

# Labels of tests that only run in release: `process` runs real programs in network namespaces with
# time bounds that a sanitizer would stretch, `repo` looks at the tree and the installed files, and
# `long` runs in `make check`, `nightly` in `make nightly`.
RELEASE_ONLY = "process|repo|long|nightly"
# These simulate long jobs to measure the cost of a fault, prove many plans or orders of messages, or
# bound the roundings of many sums. Under a sanitizer they take minutes, and other tests run the same
# code in seconds.
# tests/run_tests_test.py holds each of these names to the tests that exist.
LONG_JOBS = (r"ConditionsTest|Grey|FanIn|Shaped|BlameTrial|DrainFault|HostClock\.ClockSteps|"
             r"ControlFrames\.ASilentNic|DrainOperators\.InACrowd|"
             r"Trial\.(OfASeedWithPeople|OfASeedWithBlocks)|"
             r"Cluster\.(ASlowNic|NoOperation|ANicThat|AHealedNic)|"
             r"Forest\.|RankOrder\.IsProved|PlanChecker\.Proves|ExecutorOrder\.(Reductions|Vectors)|"
             r"Executor\.AllReducesEvery|RateTrial|Training\.OnlyASmall|"
             r"RendezvousTest\.KeepsTheSecret|LossTrial|MeasuredViews|"
             r"Trial\.OfOneSeed|HalfSums\.|SharedEngine\.(SmallOperations|EqualWork)|"
             r"WidePlans\.|Collectives\.AreProved|HierarchicalBlocks\.AreProved|PlanTime\.TheChosen|"
             r"ViewAgreementWorld\.|LedgerWorld\.|Packing\.IsNear|PlanText\.EveryPlan|"
             r"ExecutorHalfTest\.|ExecutorTypes\.|PeriodicValues\.|RequestSet\.HoldsAHundred|"
             r"Relay\.TwoHosts|Heartbeat\.AnIdleJob")
# The same where threads take part, for ThreadSanitizer.
LONG_THREADED_JOBS = r"HalfSums\.AreWithin|RequestSet\.HoldsAHundred|PeriodicValues\."


@dataclasses.dataclass(frozen=True)
class Config:
    """A build and the ctest runs in it."""
    preset: str
    build_dir: str
    target: str
    ctest_runs: tuple  # each a tuple of ctest arguments
    fixed_addresses: bool = False


@dataclasses.dataclass(frozen=True)
class Script:
    """Commands that pass or fail as a whole; each counts as one test."""
    commands: tuple
    target: str = ""  # of the release build, which the commands need


def command(line):
    return tuple(shlex.split(line))


STEPS = {
    "release": Config("release", "build", "all", (
        ("-LE", "process|long|nightly"),
        # After the others: some of these measure time.
        ("-L", "process", "-LE", "long|nightly"))),
    "long": Config("release", "build", "all", (("-L", "long"),)),
    "rare": Config("release", "build", "all", (("-L", "nightly"),)),
    "format": Script((command("scripts/lint.sh format"),)),
    "lint": Script((command("scripts/lint.sh clang-tidy"),)),
    "asan": Config("dev", "build-dev", "sanitizer_tests", (("-LE", RELEASE_ONLY, "-E", LONG_JOBS),)),
    # gcc 12's TSan cannot map its shadow where the kernel randomises more bits than it knew of.
    "tsan": Config("tsan", "build-tsan", "sanitizer_tests",
                   (("-LE", RELEASE_ONLY, "-E", LONG_THREADED_JOBS),), fixed_addresses=True),
    "fuzz": Script((command("scripts/run-fuzzers.sh"),)),
    "instructions": Script((command("python3 -B bench/instruction_ratchet.py"),),
                           target="simulated_transfer"),
    "simgrid": Script((command("python3 -B tests/simgrid/compare.py build/r2ccl"),),
                      target="r2ccl_command"),
    "torch": Script((command("scripts/torch-test.sh"),
                     command("scripts/torch-suite.sh --recorded")), target="r2ccl_command"),
    "torch_suite": Script((command("scripts/torch-suite.sh"),), target="r2ccl"),
    "seeds": Script((command("build/r2ccl sim fuzz --seeds 1001..100000"),
                     command("build/r2ccl sim fuzz --seeds 101251..103500"),
                     command("build/r2ccl sim fuzz --seeds 103701..112000"),
                     command("build/r2ccl sim fuzz --seeds 200301..202300")),
                    target="r2ccl_command"),
    "conditions": Script((command("python3 -B bench/conditions.py --r2ccl build/r2ccl"),),
                         target="r2ccl_command"),
    "soak": Script((command("python3 -B bench/soak.py --r2ccl build/r2ccl"),),
                   target="r2ccl_command"),
    "mutants": Script((command("scripts/mutants.py"),)),
}

SUITES = {
    "test": ("release",),
    "check": ("long", "format", "lint", "instructions", "simgrid", "torch", "asan", "tsan",
              "fuzz"),
    "nightly": ("rare", "seeds", "conditions", "soak", "torch_suite", "mutants"),
}

LEFT_OUT = {
    "test": "Left out: AddressSanitizer, UndefinedBehaviorSanitizer, ThreadSanitizer, 1,750 more "
            "simulated seeds, the fuzzers,\nclang-format, clang-tidy, the count of instructions, "
            "SimGrid's times of plans, the\ninstalled files, the long process tests, the torch backend. `make check` runs these.",
    "check": "Left out: 111,550 simulated seeds, all conditions, the soak, all mutants, torch's own "
             "tests on Gloo,\nsizes beyond 32 bits, most places of a failed allocation. "
             "`make nightly` runs these.",
}


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: list = dataclasses.field(default_factory=list)  # of failures: "test: command"

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
    """Returns the prefix of a command that keeps its addresses from being randomised."""
    prefix = ["setarch", os.uname().machine, "-R"]
    works = shutil.which("setarch") and subprocess.run(
        prefix + ["true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return prefix if works else []


def run(command_line, env):
    print("+", shlex.join(command_line), flush=True)
    return subprocess.run(command_line, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                          check=False).returncode


def build(preset, target, prefix, jobs, env):
    configure = ["cmake", "--preset", preset]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        configure.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    compile_all = prefix + ["cmake", "--build", "--preset", preset, "--target", target, f"-j{jobs}"]
    return run(configure, env) == 0 and run(compile_all, env) == 0


def alone(config, prefix, name):
    """Returns the command that runs one test by itself."""
    escaped = "".join("\\" + char if char in ".+*?[](){}^$|\\" else char for char in name)
    return shlex.join([*prefix, "ctest", "--test-dir", config.build_dir, "-R", f"^{escaped}$",
                       "--output-on-failure"])


def end_of_output(case):
    """Returns the last lines that a test printed, indented below its name."""
    lines = (case.findtext("system-out") or "").rstrip().splitlines()
    return "".join(f"\n               | {line[:200]}" for line in lines[-OUTPUT_LINES:])


def read_junit(path, config, prefix=()):
    tally = Tally()
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        skip = case.find("skipped")
        # ctest calls a test skipped, too, whose program was not built.
        if skip is not None and skip.get("message", "").startswith("SKIP_"):
            tally.skipped += 1
        elif case.get("status") == "run":
            tally.passed += 1
        else:
            tally.fail(f"{case.get('name')}: {alone(config, prefix, case.get('name'))}"
                       f"{end_of_output(case)}")
    return tally


def run_ctest(config, arguments, prefix, jobs, env):
    """Runs ctest once. A crash, and a run that finds no test, count as a failure."""
    junit = ROOT / config.build_dir / "junit.xml"
    junit.unlink(missing_ok=True)
    ctest = [*prefix, "ctest", "--test-dir", config.build_dir, f"-j{jobs}", *arguments]
    code = run([*ctest, "--output-junit", str(junit)], env)
    tally = read_junit(junit, config, prefix) if junit.exists() else Tally()
    if tally.failed == 0 and (code != 0 or tally.passed + tally.skipped == 0):
        tally.fail(f"ctest ended with {code} and no failed test: {shlex.join(ctest)}")
    return tally


def run_config(name, jobs):
    config = STEPS[name]
    env = test_environment()
    prefix = without_randomised_addresses() if config.fixed_addresses else []
    if not build(config.preset, config.target, prefix, jobs, env):
        return Tally(failed=1, names=[f"the build: make check STEPS={name}"])
    tally = Tally()
    for arguments in config.ctest_runs:
        tally.add(run_ctest(config, arguments, prefix, jobs, env))
    return tally


def run_script(name, jobs):
    script = STEPS[name]
    env = test_environment()
    if script.target and not build("release", script.target, [], jobs, env):
        return Tally(failed=1, names=[f"the build: make check STEPS={name}"])
    tally = Tally()
    for command_line in script.commands:
        program = command_line[0]
        if program.startswith("scripts/") and not (ROOT / program).exists():
            tally.fail(f"{name}: {program} does not exist")
            continue
        code = run(list(command_line), env)
        if code == SKIPPED:
            tally.skipped += 1
        elif code != 0:
            tally.fail(f"{name}: {shlex.join(command_line)}")
        else:
            tally.passed += 1
    return tally


def run_step(name, jobs):
    print(f"\n=== {name}", flush=True)
    return (run_config if isinstance(STEPS[name], Config) else run_script)(name, jobs)


def run_steps(names, jobs):
    """Returns the sum, and the rows that the output ends with."""
    total = Tally()
    rows = []
    for number, name in enumerate(names, 1):
        started = time.monotonic()
        tally = run_step(name, jobs)
        row = f"{name:12} {tally} ({time.monotonic() - started:.0f} s)"
        print(f"=== step {number} of {len(names)}: {row}", flush=True)
        rows.append(row)
        rows += [f"             failed: {failure}" for failure in tally.names]
        total.add(tally)
    return total, rows


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SUITE|STEP", default=["test"],
                        help=f"of the suites {', '.join(SUITES)} and the steps {', '.join(STEPS)}")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args(arguments)
    unknown = set(args.names) - set(STEPS) - set(SUITES)
    if unknown:
        parser.error(f"no such suite or step: {', '.join(sorted(unknown))}")

    total, rows = run_steps([step for name in args.names for step in SUITES.get(name, (name,))],
                            args.jobs)
    print("\n" + "\n".join(rows))
    for name in args.names:
        if name in LEFT_OUT:
            print(LEFT_OUT[name])
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
