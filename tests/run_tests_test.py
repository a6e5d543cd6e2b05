#!/usr/bin/env python3
"""Tests of the counts of scripts/run-tests.py: a wrong sum there would hide every other failure."""

import importlib.util
import pathlib
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "run-tests.py"
spec = importlib.util.spec_from_file_location("run_tests", SCRIPT)
run_tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run_tests)

JUNIT = """<testsuite>
  <testcase name="a" status="run"/>
  <testcase name="b" status="run"/>
  <testcase name="c" status="fail"><failure message="Failed"/></testcase>
  <testcase name="d" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
</testsuite>"""


class Counting(unittest.TestCase):
    def test_each_outcome_is_counted_once(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as junit:
            junit.write(JUNIT)
            junit.flush()
            self.assertEqual(run_tests.read_junit(junit.name), run_tests.Tally(2, 1, 1, ["c"]))

    def test_the_line_names_skipped_tests_only_when_there_are_any(self):
        self.assertEqual(str(run_tests.Tally(3, 0, 0)), "3 passed, 0 failed")
        self.assertEqual(str(run_tests.Tally(3, 1, 2)), "3 passed, 1 failed, 2 skipped")

    def test_a_build_that_fails_is_a_failed_test(self):
        with mock.patch.object(run_tests, "build", return_value=False):
            self.assertEqual(run_tests.run_config("release", 1).failed, 1)

    def test_a_ctest_that_leaves_no_result_is_a_failed_test(self):
        with mock.patch.object(run_tests, "run", return_value=8), \
                tempfile.TemporaryDirectory() as directory:
            config = run_tests.Config("x", directory, "all", ())
            self.assertEqual(run_tests.run_ctest(config, (), [], 1, {}).failed, 1)

    def test_a_run_without_any_test_is_a_failed_test(self):
        with mock.patch.object(run_tests, "build", return_value=True), \
                mock.patch.object(run_tests, "run_ctest", return_value=run_tests.Tally()):
            self.assertEqual(run_tests.run_config("asan", 1).failed, 1)


if __name__ == "__main__":
    unittest.main()
