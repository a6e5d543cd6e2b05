#!/usr/bin/env python3
"""Builds and runs tests: the suite `test`, `check`, `ci` or `nightly`, or the steps that are named.

The output ends with a row for each step, each failed test with the command that runs it alone and
the end of its output, and the tests that the suite leaves out. The last line is "N passed, N failed"
(and ", N skipped" when any were), the sum over all steps; the exit code is 0 only when nothing
failed. A build or a script that fails counts as one failed test, so that its absence can never read
as success. Each row has the seconds that the step took, and the processor seconds, which another
program on the machine changes less; tests/step_seconds.json keeps these (docs/testing.md).

Some steps run beside each other: a process test waits most of its time, and a compiler never does.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from test_results import Tally, read_junit

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77  # the exit code of a script that cannot run on this machine
RECORD = ROOT / "tests" / "step_seconds.json"
GROWTH = 1.5  # a step that needs this many times its share of the recorded seconds is named


@dataclasses.dataclass(frozen=True)
class Config:
    """A build and the ctest run in it, or a build alone."""
    preset: str
    build_dir: str
    targets: tuple
    ctest: tuple = None  # arguments
    fixed_addresses: bool = False


@dataclasses.dataclass(frozen=True)
class Script:
    """Commands that pass or fail as a whole; each counts as one test."""
    commands: tuple
    targets: tuple = ()  # the commands need these of the release build


def command(line):
    return tuple(shlex.split(line))


def script(*lines, targets=()):
    return Script(tuple(map(command, lines)), targets)


def release(*ctest, targets=("all",)):
    return Config("release", "build", targets, ctest)


COMMAND = ("r2ccl_command",)
STEPS = {
    "command": Config("release", "build", ("process_tests",)),
    # These steps run beside another that compiles in the same folder, so they compile nothing.
    "process": release("-LE", "unit|long|nightly", targets=()),
    "torch_beside": script("scripts/torch-test.sh"),
    # The others run under sanitizers, in which they find more (step asan).
    "units": release("-L", "unit", "-LE", "long|sanitized", targets=("sim_test", "tools_test")),
    "long": release("-L", "long"),
    "rare": release("-L", "nightly", "-E", "^install"),
    "packages": release("-R", "^install", targets=("r2ccl_command",)),
    "collective_fault": release("-R", r"^process\.(collective_fault|many_ranks)$",
                                targets=("r2ccl_command", "collective_rounds")),
    "mismatches": release("-R", "^process.collective_mismatch$", targets=COMMAND),
    "unit": release("-L", "unit"),
    "format": script("scripts/lint.sh format"),
    "lint": script("scripts/lint.sh clang-tidy"),
    "asan": Config("dev", "build-dev", ("sanitized_tests",), ("-L", "sanitized")),
    "asan_sim": Config("dev", "build-dev", ("sim_test",), ("-L", "unit", "-LE", "sanitized")),
    # gcc 12's TSan cannot map its shadow where the kernel randomises more bits than it knew of.
    "tsan": Config("tsan", "build-tsan", ("sanitized_tests",), ("-L", "sanitized"),
                   fixed_addresses=True),
    "fuzz": script("scripts/run-fuzzers.sh"),
    "instructions": script("python3 -B bench/instruction_ratchet.py",
                           targets=("simulated_transfer", "simulated_scale",
                                    "simulated_communicators")),
    "simgrid": script("python3 -B tests/simgrid/compare.py build/r2ccl", targets=COMMAND),
    "nccl": script("python3 -B tests/nccl/run.py --tables", targets=("nccl_tests",)),
    # without NCCL's own sockets
    "nccl_plugin": script("python3 -B tests/nccl/run.py --only-plugin --tables",
                          targets=("nccl_tests",)),
    "torch": script("scripts/torch-test.sh", targets=("r2ccl",)),
    "torch_recorded": script("scripts/torch-suite.sh --recorded", targets=("r2ccl",)),
    # torch 2.14 and torchft
    "torch_members": script("scripts/torch-members.sh", targets=("r2ccl",)),
    "torch_suite": script("scripts/torch-suite.sh", targets=("r2ccl",)),
    "seeds": script("build/r2ccl sim fuzz --seeds 1001..100000",
                    "build/r2ccl sim fuzz --seeds 101251..103500",
                    "build/r2ccl sim fuzz --seeds 103701..112000",
                    "build/r2ccl sim fuzz --seeds 200301..202300", targets=COMMAND),
    "conditions": script("python3 -B bench/conditions.py --r2ccl build/r2ccl", targets=COMMAND),
    "soak": script("python3 -B bench/soak.py --r2ccl build/r2ccl", targets=COMMAND),
    "mutants": script("scripts/mutants.py"),
    # `make slice`: 4 minutes of the above (scripts/nightly.py).
    "slice": script("python3 -B scripts/nightly.py --write"),
}

# The unit tests of one program, the long cases too.
PROGRAMS = ("base", "protocol", "plan", "transport", "runtime", "sim", "tools", "job", "corpus")
STEPS |= {f"unit_{name}": release("-R", rf"^(long_)?{name}_test\.", targets=(f"{name}_test",))
          for name in PROGRAMS}

# A tuple within a suite holds lists of steps that run beside each other.
SUITES = {
    "test": ("command", (("process",), ("units",))),
    "check": ("long", "format", "lint", "instructions", "nccl", "torch", "asan", "asan_sim", "tsan"),
    # `.ci/run` runs these after "test".
    "ci": ((("torch_beside", "format"), ("asan", "tsan")), "nccl_plugin", "slice"),
    "nightly": ("rare", "packages", "fuzz", "simgrid", "seeds", "conditions", "soak", "torch_suite",
                "torch_members", "mutants"),
}

LEFT_OUT = {
    "test": "Left out: the unit tests of the library's parts and all else under sanitizers, most "
            "simulated seeds,\nclang-format, clang-tidy, the count of instructions, tests that take "
            "long, the torch backend, NCCL.\n`make check` runs these.",
    "check": "Left out: the fuzzers, SimGrid's times of plans, the installed files, 111,550 simulated "
             "seeds, all conditions,\nthe soak, all mutants, torch's own tests, other versions of "
             "NCCL, sizes beyond 32 bits,\nmost places of a failed allocation.\n`make nightly` runs "
             "these.",
    "ci": "Left out, but for a slice: the nightly steps. docs/testing.md says when each ran.",
}


class Output:
    """Where a thread's steps write: standard output, or a file that is shown when the thread ends."""

    def __init__(self):
        self.own = threading.local()

    def file(self):
        return getattr(self.own, "file", None)

    def print(self, text):
        print(text, file=self.file() or sys.stdout, flush=True)


OUTPUT = Output()


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
    """Returns the exit code, and counts the processor seconds of the command and its children."""
    OUTPUT.print("+ " + shlex.join(command_line))
    with subprocess.Popen(command_line, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                          stdout=OUTPUT.file(),
                          stderr=subprocess.STDOUT if OUTPUT.file() else None) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    OUTPUT.own.processor_s = (getattr(OUTPUT.own, "processor_s", 0) + usage.ru_utime +
                              usage.ru_stime)
    return process.returncode


def build(preset, targets, prefix, jobs, env):
    configure = ["cmake", "--preset", preset]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        configure.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    compile_all = [*prefix, "cmake", "--build", "--preset", preset, f"-j{jobs}", "--target",
                   *targets]
    return run(configure, env) == 0 and run(compile_all, env) == 0


def run_ctest(name, config, prefix, jobs, env):
    """Runs ctest once. A crash, and a run that finds no test, count as a failure."""
    junit = ROOT / config.build_dir / f"junit-{name}.xml"
    junit.unlink(missing_ok=True)
    began = time.time()
    # Half a processor for a test that has no PROCESSORS (tests/CMakeLists.txt).
    ctest = [*prefix, "ctest", "--test-dir", config.build_dir, f"-j{2 * jobs}", *config.ctest]
    code = run([*ctest, "--output-junit", str(junit)], env)
    tally = read_junit(junit, config.build_dir, prefix, began) if junit.exists() else Tally()
    if tally.failed == 0 and (code != 0 or tally.passed + tally.skipped == 0):
        tally.fail(f"ctest ended with {code} and no failed test: {shlex.join(ctest)}")
    return tally


def run_config(name, jobs):
    config = STEPS[name]
    env = test_environment()
    prefix = without_randomised_addresses() if config.fixed_addresses else []
    if config.targets and not build(config.preset, config.targets, prefix, jobs, env):
        return Tally(failed=1, names=[f"the build: make check STEPS={name}"])
    return run_ctest(name, config, prefix, jobs, env) if config.ctest else Tally()


def run_script(name, jobs):
    step = STEPS[name]
    env = test_environment()
    if step.targets and not build("release", step.targets, [], jobs, env):
        return Tally(failed=1, names=[f"the build: make check STEPS={name}"])
    tally = Tally()
    for command_line in step.commands:
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
    OUTPUT.print(f"\n=== {name}")
    return (run_config if isinstance(STEPS[name], Config) else run_script)(name, jobs)


@dataclasses.dataclass
class Done:
    """A step that has ended."""
    name: str
    tally: Tally
    seconds: float
    processor_s: float

    def rows(self):
        row = f"{self.name:12} {self.tally} ({self.seconds:.0f} s, {self.processor_s:.0f} s of processors)"
        return [row, *(f"             failed: {failure}" for failure in self.tally.names)]


def run_one(name, jobs):
    started, OUTPUT.own.processor_s = time.monotonic(), 0
    tally = run_step(name, jobs)
    done = Done(name, tally, time.monotonic() - started, OUTPUT.own.processor_s)
    OUTPUT.print(f"=== step {done.rows()[0]}")
    return done


def run_beside(lists, jobs):
    """Runs each list of steps in a thread; the output of one stays together."""
    done = [[] for _ in lists]

    def work(number):
        for name in lists[number]:
            print(f"=== {name} begins; its output follows when it has ended", flush=True)
            with tempfile.TemporaryFile("w+", errors="replace") as file:
                OUTPUT.own.file = file
                try:
                    done[number].append(run_one(name, jobs))
                except Exception as error:  # an absent step must not read as success
                    done[number].append(Done(name, Tally(failed=1, names=[f"{name}: {error!r}"]), 0, 0))
                file.seek(0)
                with printing:
                    shutil.copyfileobj(file, sys.stdout)
                    sys.stdout.flush()

    printing = threading.Lock()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(lists))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [each for steps in done for each in steps]


def run_steps(steps, jobs):
    """Returns the steps that have ended. One of `steps` is a name, or a tuple of lists of names."""
    done = []
    for step in steps:
        done += [run_one(step, jobs)] if isinstance(step, str) else run_beside(step, jobs)
    return done


def growth(done, record):
    """Returns a line for each step that took far more of the processor seconds of all these steps
    than recorded. A share, because another machine's seconds are others; no test fails by it."""
    both = [each for each in done if record.get(each.name) and each.processor_s]
    now, then = sum(each.processor_s for each in both), sum(record[each.name] for each in both)
    return [f"Grown: {each.name} took {each.processor_s:.0f} of {now:.0f} s of processors; recorded "
            f"are {record[each.name]} of {then} (tests/step_seconds.json)"
            for each in both if each.processor_s * then > GROWTH * record[each.name] * now]


def write_record(done):
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record |= {each.name: round(each.processor_s) for each in done}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SUITE|STEP", default=["test"],
                        help=f"of the suites {', '.join(SUITES)} and the steps {', '.join(STEPS)}")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--record", action="store_true",
                        help=f"write the steps' processor seconds into tests/{RECORD.name}")
    args = parser.parse_args(arguments)
    unknown = set(args.names) - set(STEPS) - set(SUITES)
    if unknown:
        parser.error(f"no such suite or step: {', '.join(sorted(unknown))}")

    done = run_steps([step for name in args.names for step in SUITES.get(name, (name,))], args.jobs)
    total = Tally()
    print()
    for each in done:
        total.add(each.tally)
        print("\n".join(each.rows()))
    for line in growth(done, json.loads(RECORD.read_text()) if RECORD.exists() else {}):
        print(line)
    if args.record:
        write_record(done)
    for name in args.names:
        if name in LEFT_OUT:
            print(LEFT_OUT[name])
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
