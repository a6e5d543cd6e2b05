#!/usr/bin/env python3
"""Tests of the counts of scripts/run-tests.py: a wrong sum there would hide every other failure."""

import contextlib
import fnmatch
import importlib.util
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "run-tests.py"
sys.path.insert(0, str(ROOT / "scripts"))
spec = importlib.util.spec_from_file_location("run_tests", SCRIPT)
run_tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run_tests)
import nightly  # noqa: E402
import test_results  # noqa: E402

Tally = test_results.Tally

JUNIT = """<testsuite>
  <testcase name="a" status="run"/>
  <testcase name="b" status="run"/>
  <testcase name="C.d/0" status="fail"><failure message="Failed"/></testcase>
  <testcase name="e" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
  <testcase name="f" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>"""
RUN_ALONE = ("C.d/0: ctest --test-dir x -R '^C\\.d/0$' --output-on-failure",
             "f: ctest --test-dir x -R '^f$' --output-on-failure")


SHARDS = """<testsuite>
  <testcase name="x_test.1" status="run"/>
  <testcase name="x_test.2" status="fail"><system-out>{}</system-out></testcase>
</testsuite>"""
CASES = """<testsuites><testsuite name="A">
  <testcase name="B" status="run" result="completed" classname="A"/>
  <testcase name="C/1" status="run" result="completed" classname="A">
    <failure message="no">it is 3</failure></testcase>
  <testcase name="D" status="run" result="skipped" classname="A"><skipped/></testcase>
  <testcase name="E" status="notrun" result="suppressed" classname="A"/>
</testsuite></testsuites>"""


def config(directory="x"):
    return run_tests.Config("x", directory, ("all",), ("-L", "unit"))


def flat(steps):
    return [name for step in steps for name in ([step] if isinstance(step, str) else flat(step))]


def script_step(*command_line, **options):
    return mock.patch.dict(run_tests.STEPS, {"s": run_tests.Script((command_line,), **options)})


def output_of(results, *arguments):
    """Returns the exit code and the output of main() when the steps end with `results`."""
    out = io.StringIO()
    with mock.patch.object(run_tests, "run_step", side_effect=results), \
            contextlib.redirect_stdout(out):
        code = run_tests.main(list(arguments))
    return code, out.getvalue()


class Counting(unittest.TestCase):
    def setUp(self):
        silence = contextlib.redirect_stdout(io.StringIO())
        silence.__enter__()
        self.addCleanup(silence.__exit__, None, None, None)

    def test_each_outcome_is_counted_once(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as junit:
            junit.write(JUNIT)
            junit.flush()
            self.assertEqual(test_results.read_junit(junit.name, "x"),
                             Tally(2, 2, 1, list(RUN_ALONE)))

    def test_a_failure_repeats_the_end_of_its_output(self):
        text = "\n".join(f"line {number}" for number in range(100))
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as junit:
            junit.write(f'<testsuite><testcase name="a" status="fail"><system-out>{text}\n'
                        "</system-out></testcase></testsuite>")
            junit.flush()
            name, *lines = test_results.read_junit(junit.name, "x").names[0].splitlines()
        self.assertIn("-R '^a$'", name)
        self.assertEqual([line.strip() for line in lines],
                         [f"| line {number}" for number in range(75, 100)])

    def shards(self, output, **cases):
        """Returns the tally of two shards, of which the second failed; `cases` are their files."""
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "gtest").mkdir()
            for name, text in cases.items():
                (folder / "gtest" / f"{name.replace('__', '.')}.xml").write_text(text)
            (folder / "junit.xml").write_text(SHARDS.format(output))
            return test_results.read_junit(folder / "junit.xml", "x")

    def test_each_case_of_a_shard_counts_and_a_failed_one_has_its_command(self):
        tally = self.shards("", x_test__1=CASES.replace("<failure message=\"no\">it is 3</failure>", ""),
                            x_test__2=CASES)
        self.assertEqual((tally.passed, tally.failed, tally.skipped), (3, 1, 2))
        self.assertIn("A.C/1: x/x_test --gtest_filter=A.C/1", tally.names[0])
        self.assertIn("it is 3", tally.names[0])

    def test_a_shard_that_passes_and_wrote_no_cases_is_a_failed_test(self):
        self.assertEqual(self.shards("", x_test__2=CASES).failed, 2)

    def test_a_shard_that_ends_in_the_middle_names_its_last_case(self):
        output = "[ RUN      ] A.B\n[       OK ] A.B (1 ms)\n[ RUN      ] A.C/1\nr2ccl: bug"
        tally = self.shards(output, x_test__1=CASES)
        self.assertEqual((tally.passed, tally.failed), (2, 2))
        self.assertIn("A.C/1 ended its process", tally.names[1])
        self.assertIn("--gtest_filter=A.C/1", tally.names[1])
        self.assertIn("r2ccl: bug", tally.names[1])

    def test_a_shard_that_fails_after_its_cases_is_a_failed_test(self):
        right = CASES.replace("<failure message=\"no\">it is 3</failure>", "")
        tally = self.shards("a leak", x_test__1=right, x_test__2=right)
        self.assertEqual((tally.passed, tally.failed), (4, 1))
        self.assertIn("a leak", tally.names[0])

    def test_the_line_names_skipped_tests_only_when_there_are_any(self):
        self.assertEqual(str(Tally(3, 0, 0)), "3 passed, 0 failed")
        self.assertEqual(str(Tally(3, 1, 2)), "3 passed, 1 failed, 2 skipped")

    def test_a_build_that_fails_is_a_failed_test(self):
        with mock.patch.object(run_tests, "build", return_value=False):
            self.assertEqual(run_tests.run_step("units", 1).failed, 1)
            self.assertEqual(run_tests.run_step("seeds", 1).failed, 1)

    def test_a_ctest_that_leaves_no_result_is_a_failed_test(self):
        with mock.patch.object(run_tests, "run", return_value=8), \
                tempfile.TemporaryDirectory() as directory:
            self.assertEqual(run_tests.run_ctest("s", config(directory), [], 1, {}).failed, 1)

    def test_a_ctest_that_finds_no_test_is_a_failed_test(self):
        with mock.patch.object(run_tests, "run", return_value=0), \
                tempfile.TemporaryDirectory() as directory:
            self.assertEqual(run_tests.run_ctest("s", config(directory), [], 1, {}).failed, 1)

    def test_a_script_is_one_test_and_77_skips_it(self):
        with script_step("true"):
            self.assertEqual(run_tests.run_step("s", 1), Tally(passed=1))
        with script_step("sh", "-c", "exit 3"):
            self.assertEqual(run_tests.run_step("s", 1),
                             Tally(failed=1, names=["s: sh -c 'exit 3'"]))
        with script_step("sh", "-c", "exit 77"):
            self.assertEqual(run_tests.run_step("s", 1), Tally(skipped=1))

    def test_a_script_that_does_not_exist_is_a_failed_test(self):
        with script_step("scripts/absent.sh"):
            self.assertEqual(run_tests.run_step("s", 1),
                             Tally(failed=1, names=["s: scripts/absent.sh does not exist"]))


class Output(unittest.TestCase):
    def test_the_last_line_is_the_sum(self):
        steps = len(run_tests.SUITES["check"])
        results = [Tally(passed=1) for _ in range(steps - 1)] + [Tally(2, 1, 3, ["d: run it"])]
        code, out = output_of(results, "check")
        self.assertEqual(out.splitlines()[-1], f"{steps + 1} passed, 1 failed, 3 skipped")
        self.assertEqual(code, 1)
        self.assertIn("failed: d: run it", out)

    def test_a_run_that_passes_exits_with_0_and_says_what_it_leaves_out(self):
        code, out = output_of([Tally(passed=4)] * 3)
        self.assertEqual(code, 0)
        self.assertIn("Left out: the unit tests", out)
        self.assertIn("`make check` runs these", out)

    def test_a_step_alone_runs_alone(self):
        code, out = output_of([Tally(passed=4)], "asan")
        self.assertEqual((code, out.splitlines()[-1]), (0, "4 passed, 0 failed"))
        self.assertNotIn("Left out", out)

    def test_an_unknown_step_is_refused(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            run_tests.main(["no_such_step"])


class Suites(unittest.TestCase):
    def test_each_long_job_names_a_test_that_exists(self):
        """A renamed test would silently run under the sanitizers again, for minutes."""
        sources = "\n".join(path.read_text() for folder in ("src", "tests", "tools")
                            for path in (ROOT / folder).rglob("*_test.cc"))
        known = re.findall(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", sources)
        names = [".".join(name) for name in known]
        lines = (ROOT / "tests" / "long_jobs.txt").read_text().splitlines()
        for line in lines:
            if not line.startswith("#"):
                pattern = line.split()[0]
                self.assertTrue(any(fnmatch.fnmatchcase(name, pattern) for name in names), pattern)

    def test_each_step_is_in_a_suite(self):
        steps = {step for suite in run_tests.SUITES.values() for step in flat(suite)}
        steps |= {word for number in range(len(nightly.UNIT_PIECES))
                  for commands in nightly.slices(number).values() for line in commands
                  for word in line.split()}
        self.assertEqual(set(run_tests.STEPS) - steps, {"unit", "unit_tools"})

    def test_each_nightly_step_has_a_slice(self):
        commands = " ".join(line for lines in nightly.slices(0).values() for line in lines)
        words = set(commands.replace("/", " ").replace(".", " ").split()) | {"seeds", "torch_suite"}
        self.assertEqual(set(run_tests.SUITES["nightly"]) - words, set())

    def test_the_suites_run_each_test_once(self):
        """Each set of labels is chosen by exactly one ctest run, apart from ThreadSanitizer's."""
        runs = [run_tests.STEPS[name].ctest
                for name in ("process", "units", "asan", "long", "rare", "packages")]
        for labels, name in ((["unit"], "x_test.1"), (["unit", "sanitized"], "x_test.1"),
                             (["unit", "long"], "long_x_test.1"), (["process"], "process.x"), (["process"], "process.x"),
                             (["repo"], "process.x"), (["process", "long"], "process.x"),
                             (["repo", "nightly"], "install.x"),
                             (["process", "nightly"], "process.x"), (["another"], "process.x")):
            def chosen(run, labels=labels, name=name):
                matches = {"L": lambda pattern: any(re.search(pattern, label) for label in labels),
                           "E": lambda pattern: re.search(pattern, name)}
                rules = {"-L": ("L", True), "-LE": ("L", False), "-R": ("E", True),
                         "-E": ("E", False)}
                return all(bool(matches[rules[flag][0]](pattern)) == rules[flag][1]
                           for flag, pattern in zip(run[::2], run[1::2]))
            self.assertEqual(sum(map(chosen, runs)), 1, labels)

    def test_a_file_of_an_earlier_run_does_not_count(self):
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "gtest").mkdir()
            (folder / "gtest" / "x_test.1.xml").write_text(CASES)
            (folder / "junit.xml").write_text(
                '<testsuite><testcase name="x_test.1" status="run"/></testsuite>')
            tally = test_results.read_junit(folder / "junit.xml", "x", (), time.time() + 10)
        self.assertEqual((tally.passed, tally.failed), (0, 1))

    def test_steps_beside_each_other_all_count(self):
        with script_step("sh", "-c", "echo it runs $((1 + 1)); exit 3"):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                done = run_tests.run_steps([(("s", "s"), ("s",))], 1)
        self.assertEqual(sum(each.tally.failed for each in done), 3)
        self.assertEqual(out.getvalue().count("it runs 2"), 3)

    def test_a_step_that_grew_is_named_and_a_slower_machine_is_not_growth(self):
        def done(*seconds):
            return [run_tests.Done(name, Tally(), 0, each) for name, each in zip("abc", seconds)]
        record = {"a": 100, "b": 100, "c": 100}
        self.assertEqual(run_tests.growth(done(300, 300, 300), record), [])
        self.assertEqual(len(run_tests.growth(done(100, 100, 400), record)), 1)


class Slices(unittest.TestCase):
    NAMES = ["a", "b", "c"]

    @staticmethod
    def row(name, day):
        return [name, "", f"2026-11-{day:02} 10:00", "", "", ""]

    def test_ten_runs_cover_each_slice_where_the_table_is_kept(self):
        names, rows, ran = list(nightly.slices(0)), {}, []
        for run in range(len(names)):
            ran.append(nightly.due(rows, names, 7919 * run, 1_795_860_000 + 3600 * run))
            rows[ran[-1]] = [ran[-1], "", f"2026-11-28 {run + 10}:00"]
        self.assertLessEqual(len(names), 10)
        self.assertEqual(sorted(ran), sorted(names))

    def test_where_nobody_keeps_the_table_the_hash_picks(self):
        rows = {name: self.row(name, 1 + number) for number, name in enumerate(self.NAMES)}
        self.assertEqual({nightly.due(rows, self.NAMES, number, 2e9) for number in range(9)},
                         set(self.NAMES))

    def test_a_row_is_written_and_read(self):
        text = f"before\n{nightly.BEGIN}\n{nightly.END}\nafter"
        first_pieces = {name: (f"run {name}",) for name in self.NAMES}
        text = nightly.written(text, first_pieces, "b", self.row("`b`", 3))
        self.assertTrue(text.startswith("before") and text.endswith("after"))
        rows = nightly.read_rows(text)
        self.assertEqual(list(rows), self.NAMES)
        self.assertGreater(nightly.seconds_of(rows["b"]), 0)
        self.assertEqual(nightly.seconds_of(rows["a"]), 0)

    def test_the_row_of_a_slice_that_never_ran_has_its_commands(self):
        text = f"{nightly.BEGIN}\n{nightly.HEAD[0]}\n{nightly.HEAD[1]}\n" \
               f"| `c` | an old command | not yet | | | |\n{nightly.END}"
        rows = nightly.read_rows(nightly.written(text, {"a": ("x", "y"), "b": ("z",), "c": ("w",)},
                                                 "b", self.row("`b`", 3)))
        self.assertEqual(rows["a"][1:3], ["`x`; `y`", "not yet"])
        self.assertEqual(rows["c"][1:3], ["`w`", "not yet"])


class Ci(unittest.TestCase):
    def ci(self, run, make='echo "3 passed, 0 failed"\n'):
        """Returns the exit code and last line of .ci/run when run-tests.py is that shell script, and
        `make test` passes three tests, or is the shell script `make`."""
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            for name, text in (("python3", run), ("make", make), (".ci/run", (ROOT / ".ci" / "run").read_text()),
                               ("scripts/install-deps.sh", "#!/bin/sh\n")):
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text if text.startswith("#!") else "#!/bin/sh\n" + text)
                path.chmod(0o755)
            done = subprocess.run([folder / ".ci" / "run"], text=True, capture_output=True,
                                  check=False, env={"PATH": f"{directory}:/usr/bin:/bin"})
        return done.returncode, done.stdout.splitlines()[-1]

    def test_its_last_line_is_the_summary(self):
        self.assertEqual(self.ci('echo "8 passed, 0 failed, 2 skipped"\n'),
                         (0, "11 passed, 0 failed, 2 skipped"))
        self.assertEqual(self.ci('echo "8 passed, 10 failed"; exit 1\n'), (1, "11 passed, 10 failed"))
        self.assertEqual(self.ci('echo "8 passed, 0 failed"\n', 'echo "1 passed, 2 failed"; exit 1\n'),
                         (1, "9 passed, 2 failed"))

    def test_a_run_without_a_summary_fails(self):
        for run in ("exit 0\n", "exit 2\n", "echo no\n", 'echo "5 passed, 0 failed"; exit 2\n'):
            self.assertRegex(str(self.ci(run)), r"\(1, '[38] passed, 1 failed'\)", run)


if __name__ == "__main__":
    unittest.main()
