#!/usr/bin/env python3
"""`r2ccl sim plan`: times, the table, JSON, the picture, and errors that name the option.

usage: sim_plan_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import pathlib
import resource
import tempfile
import unittest

import program

TIME_S = 120

TABLE = """\
                 ms         % over the fault-free ring
ring             28.000000  100.00
floor            16.000000  14.29
fault-free ring  14.000000  0.00
448 messages
"""


def simulate(*words, **options):
    return program.run("sim", "plan", *words, timeout=TIME_S, **options)


def result_of(*words):
    done = simulate(*words, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# A vector takes 8 ms of the whole network's rate.
SMALL = ("all_reduce", "--hosts", "8", "--bytes", "8000000", "--nic-rate", "8G", "--latency-us", "0")


class SimPlanTest(unittest.TestCase):
    def test_the_table_compares_the_plan_with_the_floor_and_the_ring(self):
        done = simulate(*SMALL, "--loss", "50", "--algorithm", "ring")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, TABLE, ""))

    def test_json_has_the_times(self):
        result = result_of(*SMALL, "--loss", "50", "--algorithm", "ring")
        self.assertAlmostEqual(result["time_s"], 0.028)
        self.assertAlmostEqual(result["floor_s"], 0.016)
        self.assertAlmostEqual(result["faultfree_ring_s"], 0.014)
        self.assertAlmostEqual(result["overhead_pct"], 100)
        self.assertAlmostEqual(result["floor_overhead_pct"], 100 / 7)
        self.assertEqual((result["algorithm"], result["messages"]), ("ring", 448))

    def test_no_plan_is_faster_than_the_floor(self):
        for collective in ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter",
                           "gather", "scatter", "all_to_all", "barrier"):
            for fabric in ("flat", "rails", "spine"):
                with self.subTest(collective=collective, fabric=fabric):
                    result = result_of(collective, "--hosts", 6, "--nics", 4, "--bytes", "4M",
                                       "--loss", "25,50", "--fabric", fabric)
                    self.assertGreaterEqual(result["time_s"], result["floor_s"] * (1 - 1e-9))
                    self.assertGreater(result["time_s"], 0)

    def test_hosts_that_have_all_lost_the_same_have_its_floor(self):
        result = result_of(*SMALL[:1], "--hosts", 2, *SMALL[3:], "--loss", "50,50")
        self.assertAlmostEqual(result["floor_s"], 0.016)
        self.assertAlmostEqual(result["faultfree_ring_s"], 0.008)

    def test_a_host_can_have_several_ranks(self):
        result = result_of("all_reduce", "--hosts", 4, "--ranks-per-host", 8, "--bytes", "16M")
        self.assertLess(result["time_s"], 0.1)

    def test_a_failure_costs_its_detection(self):
        healthy = result_of(*SMALL, "--nics", 2)["time_s"]
        failing = result_of(*SMALL, "--nics", 2, "--fail", "1,3,0", "--detection-ms", "40")["time_s"]
        self.assertGreater(failing, healthy + 0.04)
        self.assertLess(failing, 2 * healthy + 0.05)

    def test_no_plan_is_faster_than_the_floor_where_a_nic_returns(self):
        for view, change in (("500/7*1000", "0,0,0,1000"), ("8*500", "0,1,0,750")):
            result = result_of(*SMALL, "--view", view, "--fail", change, "--algorithm", "ring")
            self.assertLessEqual(result["floor_s"], result["time_s"])
        returned = result_of("broadcast", "--hosts", 2, "--nics", 2, "--fabric", "rails", "--view",
                             "0,1000/1000,0", "--fail", "0,0,0,1000")
        self.assertLessEqual(returned["floor_s"], returned["time_s"])

    def test_a_view_has_the_rates_of_all_hosts(self):
        result = result_of(*SMALL, "--view", "1000/500/4*1000/250:1000/1000", "--algorithm", "ring")
        self.assertAlmostEqual(result["time_s"], 0.056)

    def test_the_picture_has_a_row_for_each_host(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "usage.svg"
            done = simulate(*SMALL, "--loss", "50", "--svg", picture)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = picture.read_text(encoding="utf-8")
            self.assertIn("host 7", text)
            self.assertTrue(text.rstrip().endswith("</svg>"))

    def test_a_plan_of_too_much_memory_is_refused(self):
        done = simulate("all_reduce", "--hosts", 64, "--bytes", "1G", "--memory", "1M")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"--memory: the plan needs 4.\d MB of memory, and 1.0 MB are "
                                      "allowed; take larger segments, fewer bytes or fewer ranks")

    def test_a_limit_of_the_system_is_not_that_of_the_option(self):
        done = simulate("all_reduce", "--hosts", 64, "--bytes", "1G", preexec_fn=lambda:
                        resource.setrlimit(resource.RLIMIT_AS, (60 << 20, 60 << 20)))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "r2ccl( sim plan)?: (the fault-free ring: )?out of memory")

    def test_one_message_is_counted_as_one(self):
        self.assertTrue(simulate("broadcast", "--hosts", 2, "--bytes", 64).stdout
                        .endswith("\n1 message\n"))

    def test_rails_without_a_common_one_are_named(self):
        done = simulate("broadcast", "--hosts", 2, "--nics", 2, "--fabric", "rails",
                        "--view", "0,1000/1000,0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no pair of NICs carries a message from rank 0 to rank 1", done.stderr)

    def test_a_wrong_option_is_an_error(self):
        for words, part in ((("--hosts", "0"), "--hosts"), (("--nics", "65"), "--nics"),
                            (("--loss", "120"), "--loss: '120' is no percentage"),
                            (("--nic-rate", "0"), "--nic-rate: '0' is no rate"),
                            (("--json", "/nonexistent/x"), "--json /nonexistent/x"),
                            (("--svg", "/nonexistent/x"), "--svg /nonexistent/x")):
            with self.subTest(words=words):
                hosts = () if "--hosts" in words else ("--hosts", "4")
                done = simulate("all_reduce", *hosts, *words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    program.main(__doc__)
