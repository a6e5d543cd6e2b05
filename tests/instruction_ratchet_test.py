#!/usr/bin/env python3
"""Tests of bench/instruction_ratchet.py: which counts it accepts, and how it reads a profile."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import instruction_ratchet as ratchet  # noqa: E402
from callgrind import Profile  # noqa: E402

HERE = "this machine"
PROFILE = """events: Ir
fn=(1) r2ccl::Link::progress(long)
1 100
cfn=(2) operator new(unsigned long)
calls=3 0
1 60
fn=(3) r2ccl::sim::Stream::write()
1 1000
cfn=(2)
calls=5 0
1 100
fn=(2)
1 160
"""


class Counts(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        stored = mock.patch.object(ratchet, "STORED", pathlib.Path(directory.name) / "counts.json")
        stored.start()
        self.addCleanup(stored.stop)
        ratchet.update(HERE, {"1 KB": 10000})

    def outcome(self, instructions):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = ratchet.compare(HERE, {"1 KB": instructions})
        return code, out.getvalue()

    def test_growth_of_one_percent_passes_and_more_fails(self):
        self.assertEqual(self.outcome(10100)[0], 0)
        code, text = self.outcome(10101)
        self.assertEqual(code, 1)
        self.assertIn(ratchet.UPDATE, text)

    def test_a_gain_passes_and_names_the_command_that_keeps_it(self):
        code, text = self.outcome(9000)
        self.assertEqual(code, 0)
        self.assertIn(ratchet.UPDATE, text)

    def test_a_workload_without_a_stored_count_fails(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(ratchet.compare(HERE, {"64 KB": 1}), 1)

    def test_an_update_keeps_the_counts_of_other_environments(self):
        ratchet.update("another machine", {"1 KB": 5})
        self.assertEqual(self.outcome(10000)[0], 0)

    def test_an_unknown_environment_is_skipped(self):
        out = io.StringIO()
        with mock.patch.object(ratchet, "environment", return_value="elsewhere"), \
                mock.patch.object(ratchet.subprocess, "run"), \
                mock.patch.object(ratchet.shutil, "which", return_value="valgrind"), \
                mock.patch.object(sys, "argv", ["ratchet"]), contextlib.redirect_stdout(out):
            self.assertEqual(ratchet.main(), ratchet.SKIPPED)
        self.assertIn("elsewhere", out.getvalue())


class Reading(unittest.TestCase):
    def test_the_simulators_own_instructions_and_allocations_are_left_out(self):
        with tempfile.NamedTemporaryFile("w", suffix=".out") as file:
            file.write(PROFILE)
            file.flush()
            cost = Profile(file.name)
        empty = Profile()
        events = {ratchet.ALLOCATIONS: "operator new("}
        with mock.patch.object(ratchet, "profile", side_effect=[cost, empty]), \
                mock.patch.object(ratchet, "EVENTS", events):
            counts, _ = ratchet.measure((2, 2, 1024, 10, 20))
        self.assertEqual(counts, {"instructions": 26, "allocations": 0.3})


if __name__ == "__main__":
    unittest.main()
