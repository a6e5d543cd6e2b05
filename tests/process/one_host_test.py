#!/usr/bin/env python3
"""Ranks of one host: they use shared memory where both permit it, and leave nothing of it behind.
Needs nothing but the loopback interface. See rank_failure_test.py for ranks that die.

usage: one_host_test.py PATH_OF_R2CCL [unittest arguments]
"""
import ctypes
import json
import os
import struct
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


def array_of(value):
    return (ctypes.c_float * COUNT).from_buffer_copy(struct.pack("f", value) * COUNT)


def send_to_two(lib, lines):
    """Rank 0 sends to both others at the same time, and overwrites its buffer after each round."""
    comm = api.Comm.from_environment(lib)
    wrong = 0
    for number in range(20):
        data = array_of(number)
        if rank_number() == 0:
            for sent in [comm.send(data, COUNT, peer, wait=False) for peer in (1, 2)]:
                sent.wait()
            ctypes.memset(data, 0xff, ctypes.sizeof(data))
        else:
            out = array_of(-1)
            comm.recv(out, COUNT, 0)
            wrong += bytes(out) != bytes(data)
    lines.say(event="done", wrong=wrong)
    comm.barrier()
    comm.destroy()


def abort_while_sending_to_two(lib, lines):
    """Rank 0 aborts and overwrites its buffers while the others read."""
    comm = api.Comm.from_environment(lib)
    received = wrong = 0
    try:
        comm.barrier()
        if rank_number() == 0:
            data = [array_of(number) for number in range(8)]
            kept = [comm.send(one, COUNT, peer, wait=False) for one in data for peer in (1, 2)]
            time.sleep(0.002)
            comm.abort()
            for one in data:
                ctypes.memset(one, 0xff, ctypes.sizeof(one))
            del kept
        else:
            for number in range(8):
                out = array_of(-1)
                comm.recv(out, COUNT, 0)
                received += 1
                wrong += bytes(out) != bytes(array_of(number))
    except api.R2cclError:
        pass
    lines.say(event="done", received=received, wrong=wrong)


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

    def expect_no_wrong_message(self, body, **environment):
        job = self.start(3, body, environment)
        for report in self.hear_all(job, "done").values():
            self.assertEqual(report["wrong"], 0)

    def test_messages_to_several_ranks_are_right_read_directly_or_through_rings(self):
        self.expect_no_wrong_message(send_to_two)
        self.expect_no_wrong_message(send_to_two, R2CCL_SHM_DIRECT="0")

    def test_a_sender_that_aborts_and_overwrites_its_buffers_spoils_no_message(self):
        for _ in range(5):
            self.expect_no_wrong_message(abort_while_sending_to_two)

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
