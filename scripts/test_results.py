"""Sums up the XML of ctest and GoogleTest for scripts/run-tests.py."""

import dataclasses
import pathlib
import re
import shlex
import xml.etree.ElementTree

OUTPUT_LINES = 25  # a failed test's last ones are repeated at the end


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


def end_of(text):
    """Returns the last lines of an output, indented below the name of its test."""
    lines = text.rstrip().splitlines()
    return "".join(f"\n               | {line[:200]}" for line in lines[-OUTPUT_LINES:])


def alone(build_dir, prefix, name):
    """Returns the command that runs one test of ctest by itself."""
    escaped = "".join("\\" + char if char in ".+*?[](){}^$|\\" else char for char in name)
    return shlex.join([*prefix, "ctest", "--test-dir", build_dir, "-R", f"^{escaped}$",
                       "--output-on-failure"])


def case_alone(build_dir, prefix, shard, case):
    """Returns the command that runs one case of a GoogleTest program by itself."""
    program = f"{build_dir}/{shard.rpartition('.')[0].removeprefix('long_')}"
    return shlex.join([*prefix, program, f"--gtest_filter={case}"])


def read_cases(path, shard, build_dir, prefix):
    """Counts the cases in the file that a GoogleTest program wrote at its end."""
    tally = Tally()
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        failures = [each.text or "" for each in case.findall("failure")]
        if failures:
            tally.fail(f"{name}: {case_alone(build_dir, prefix, shard, name)}"
                       f"{end_of(chr(10).join(failures))}")
        elif case.get("result") == "skipped" or case.find("skipped") is not None:
            tally.skipped += 1
        elif case.get("status") == "run":
            tally.passed += 1
    return tally


def read_end(output, shard, build_dir, prefix):
    """Counts the cases of a GoogleTest program that ended in the middle, by its output."""
    tally = Tally(passed=len(re.findall(r"^\[       OK \] ", output, re.MULTILINE)))
    for name in re.findall(r"^\[  FAILED  \] (\S+) \(\d+ ms\)", output, re.MULTILINE):
        tally.fail(f"{name}: {case_alone(build_dir, prefix, shard, name)}")
    begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    if not begun:
        tally.fail(f"{shard}: {alone(build_dir, prefix, shard)}{end_of(output)}")
    else:
        tally.fail(f"{begun[-1]} ended its process, and the cases of {shard} after it did not run: "
                   f"{case_alone(build_dir, prefix, shard, begun[-1])}{end_of(output)}")
    return tally


def read_shard(case, cases, build_dir, prefix):
    """Returns the tally of a ctest test that is a share of a GoogleTest program's cases."""
    name, output = case.get("name"), case.findtext("system-out") or ""
    failed = case.get("status") != "run"
    if cases is None:
        if failed:
            return read_end(output, name, build_dir, prefix)
        return Tally(failed=1, names=[f"{name} wrote no results: {alone(build_dir, prefix, name)}"])
    tally = read_cases(cases, name, build_dir, prefix)
    if failed and not tally.failed:  # such as a leak that the sanitizer finds at the end
        tally.fail(f"{name} failed after its cases: {alone(build_dir, prefix, name)}{end_of(output)}")
    return tally


def is_shard(case):
    """Whether a ctest test is a share of a GoogleTest program: these end with a number."""
    return re.search(r"_test\.\d+$", case.get("name")) is not None


def read_junit(path, build_dir, prefix=(), began=0):
    """Returns the tally of a file that ctest wrote. Each case of a GoogleTest program counts, by the
    file that it wrote after `began`."""
    tally = Tally()
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name, skip = case.get("name"), case.find("skipped")
        # ctest calls a test skipped, too, whose program was not built.
        if skip is not None and skip.get("message", "").startswith("SKIP_"):
            tally.skipped += 1
        elif is_shard(case) and skip is None:
            cases = pathlib.Path(path).parent / "gtest" / f"{name}.xml"
            written = cases.exists() and cases.stat().st_mtime >= began - 1  # file times may be coarse
            tally.add(read_shard(case, cases if written else None, build_dir, prefix))
        elif case.get("status") == "run":
            tally.passed += 1
        else:
            tally.fail(f"{name}: {alone(build_dir, prefix, name)}"
                       f"{end_of(case.findtext('system-out') or '')}")
    return tally
