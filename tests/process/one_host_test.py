#!/usr/bin/env python3
"""Ranks of one host: they use shared memory where both permit it, and leave nothing of it behind.
Needs nothing but the loopback interface. See rank_failure_test.py for ranks that die.

usage: one_host_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import time
import unittest

import program
import r2ccl_api as api
from local_job import LocalJobCase, rank_number

COUNT = 500_000


def reduce_and_report(lib, lines):
    if rank_number() == 1 and (shm := os.environ.get("SHM_OF_RANK_1")):
        os.environ["R2CCL_SHM"] = shm
    comm = api.Comm.from_environment(lib)
    data = api.buffer(api.FLOAT32, [1.0] * COUNT)
    out = api.buffer(api.FLOAT32, [0.0] * COUNT)
    for _ in range(5):
        comm.all_reduce(data, out, COUNT)
    paths = json.loads(comm.report())["paths"]
    lines.say(event="report", right=list(out) == [2.0] * COUNT,
              used={path["nic"]: path["tx_bytes"] for path in paths},
              states={path["nic"]: path["state"] for path in paths})
    comm.destroy()


def reduce_for_ever(lib, lines):
    comm = api.Comm.from_environment(lib)
    data = api.buffer(api.FLOAT32, [1.0] * COUNT)
    out = api.buffer(api.FLOAT32, [0.0] * COUNT)
    lines.say(event="started")
    while True:
        comm.all_reduce(data, out, COUNT)


class OneHostTest(LocalJobCase):
    def reports(self, **environment):
        job = self.start(2, reduce_and_report, environment)
        reports = self.hear_all(job, "report")
        self.expect_end(job)
        for report in reports.values():
            self.assertTrue(report["right"])
        return reports.values()

    def test_data_goes_through_shared_memory(self):
        for report in self.reports():
            self.assertEqual(report["states"], {"shm": "up", "lo": "standby"})
            self.assertGreater(report["used"]["shm"], COUNT)
            # A rank that starts late may refuse the first attempt. Lo is then validated too.
            self.assertLess(report["used"]["lo"], 100_000)

    def test_a_setting_turns_it_off(self):
        for report in self.reports(R2CCL_SHM="0"):
            self.assertEqual(report["states"], {"lo": "up"})

    def test_one_rank_without_it_suffices_for_lo(self):
        for report in self.reports(SHM_OF_RANK_1="0"):
            self.assertEqual(report["states"], {"lo": "up"})

    def test_killed_ranks_leave_nothing_in_the_file_system(self):
        before = sorted(os.listdir("/dev/shm"))
        job = self.start(3, reduce_for_ever)
        self.hear_all(job, "started")
        time.sleep(0.2)  # into the middle of an operation
        for process in job.values():
            process.kill()
        for process in job.values():
            process.wait()
        self.assertEqual(sorted(os.listdir("/dev/shm")), before)


if __name__ == "__main__":
    program.main(__doc__)
