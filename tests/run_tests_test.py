#!/usr/bin/env python3
"""Tests of the counts of scripts/run-tests.py: a wrong sum there would hide every other failure."""

import contextlib
import importlib.util
import io
import pathlib
import re
import subprocess
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "run-tests.py"
spec = importlib.util.spec_from_file_location("run_tests", SCRIPT)
run_tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run_tests)
Tally = run_tests.Tally

JUNIT = """<testsuite>
  <testcase name="a" status="run"/>
  <testcase name="b" status="run"/>
  <testcase name="C.d/0" status="fail"><failure message="Failed"/></testcase>
  <testcase name="e" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
  <testcase name="f" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>"""
RUN_ALONE = ("C.d/0: ctest --test-dir x -R '^C\\.d/0$' --output-on-failure",
             "f: ctest --test-dir x -R '^f$' --output-on-failure")


def config(directory="x"):
    return run_tests.Config("x", directory, "all", ())


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
            self.assertEqual(run_tests.read_junit(junit.name, config()),
                             Tally(2, 2, 1, list(RUN_ALONE)))

    def test_a_failure_repeats_the_end_of_its_output(self):
        text = "\n".join(f"line {number}" for number in range(100))
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as junit:
            junit.write(f'<testsuite><testcase name="a" status="fail"><system-out>{text}\n'
                        "</system-out></testcase></testsuite>")
            junit.flush()
            name, *lines = run_tests.read_junit(junit.name, config()).names[0].splitlines()
        self.assertIn("-R '^a$'", name)
        self.assertEqual([line.strip() for line in lines],
                         [f"| line {number}" for number in range(75, 100)])

    def test_the_line_names_skipped_tests_only_when_there_are_any(self):
        self.assertEqual(str(Tally(3, 0, 0)), "3 passed, 0 failed")
        self.assertEqual(str(Tally(3, 1, 2)), "3 passed, 1 failed, 2 skipped")

    def test_a_build_that_fails_is_a_failed_test(self):
        with mock.patch.object(run_tests, "build", return_value=False):
            self.assertEqual(run_tests.run_step("release", 1).failed, 1)
            self.assertEqual(run_tests.run_step("seeds", 1).failed, 1)

    def test_a_ctest_that_leaves_no_result_is_a_failed_test(self):
        with mock.patch.object(run_tests, "run", return_value=8), \
                tempfile.TemporaryDirectory() as directory:
            self.assertEqual(run_tests.run_ctest(config(directory), (), [], 1, {}).failed, 1)

    def test_a_ctest_that_finds_no_test_is_a_failed_test(self):
        with mock.patch.object(run_tests, "run", return_value=0), \
                tempfile.TemporaryDirectory() as directory:
            self.assertEqual(run_tests.run_ctest(config(directory), (), [], 1, {}).failed, 1)

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
        results = [Tally(passed=1)] * (steps - 1) + [Tally(2, 1, 3, ["d: run it"])]
        code, out = output_of(results, "check")
        self.assertEqual(out.splitlines()[-1], f"{steps + 1} passed, 1 failed, 3 skipped")
        self.assertEqual(code, 1)
        self.assertIn("failed: d: run it", out)
        self.assertIn(f"step {steps} of {steps}", out)

    def test_a_run_that_passes_exits_with_0_and_says_what_it_leaves_out(self):
        code, out = output_of([Tally(passed=4)])
        self.assertEqual(code, 0)
        self.assertIn("Left out: AddressSanitizer", out)
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
        for pattern in re.sub(r"(\w+\\\.)\((.*?)\)", lambda m: "|".join(
                m.group(1) + part for part in m.group(2).split("|")),
                run_tests.LONG_JOBS + "|" + run_tests.LONG_THREADED_JOBS).split("|"):
            self.assertTrue(any(re.search(pattern, name) for name in names), pattern)

    def test_each_step_is_in_one_suite(self):
        steps = [step for suite in run_tests.SUITES.values() for step in suite]
        self.assertEqual(sorted(steps), sorted(run_tests.STEPS))

    def test_the_suites_run_each_release_test_once(self):
        """Each set of labels is chosen by exactly one ctest run of the release build."""
        runs = [run for name in ("release", "long", "rare")
                for run in run_tests.STEPS[name].ctest_runs]
        for labels in (["unit"], ["process"], ["repo"], ["unit", "long"], ["process", "long"],
                       ["repo", "long"], ["process", "nightly"], ["another"]):
            def chosen(run, labels=labels):
                return all(any(re.search(pattern, label) for label in labels) == (flag == "-L")
                           for flag, pattern in zip(run[::2], run[1::2]))
            self.assertEqual(sum(map(chosen, runs)), 1, labels)


class Ci(unittest.TestCase):
    def ci(self, make):
        """Returns the exit code and last line of .ci/run when `make` is that shell script."""
        with tempfile.TemporaryDirectory() as directory:
            fake = pathlib.Path(directory) / "make"
            fake.write_text("#!/bin/sh\n" + make)
            fake.chmod(0o755)
            done = subprocess.run([ROOT / ".ci" / "run"], text=True, capture_output=True,
                                  check=False, env={"PATH": f"{directory}:/usr/bin:/bin"})
        return done.returncode, done.stdout.splitlines()[-1]

    def test_it_adds_test_and_check(self):
        make = 'if [ "$1" = test ]; then echo "5 passed, 0 failed, 2 skipped"; ' \
               'else echo "3 passed, 1 failed"; exit 2; fi\n'
        self.assertEqual(self.ci(make), (1, "8 passed, 1 failed, 2 skipped"))

    def test_it_passes_only_if_both_pass(self):
        self.assertEqual(self.ci('echo "5 passed, 0 failed"\n'), (0, "10 passed, 0 failed"))
        self.assertEqual(self.ci('[ "$1" = check ] && exit 2; echo "5 passed, 0 failed"\n'),
                         (1, "5 passed, 1 failed"))


if __name__ == "__main__":
    unittest.main()
