#!/usr/bin/env python3
"""Calls that wait for a rank: the timeout error, the status, the report and one warning name it.
Needs nothing but the loopback interface.

usage: waiting_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import signal
import tempfile
import time

import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, rank_number, telling

COUNT = 262_144
WARNED_AFTER_S = 10


class WaitingCase(LocalJobCase):
    def setUp(self):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.files = files.name

    def start_logged(self, count, body, **environment):
        return self.start(count, body, {
            "R2CCL_DEBUG": "WARN", "R2CCL_DEBUG_FILE": os.path.join(self.files, "log.%p"),
            "XDG_RUNTIME_DIR": self.files} | environment)

    def warnings(self, process):
        """Returns the lines of this rank's log that say which rank it waits for."""
        name = os.path.join(self.files, f"log.{process.pid}")
        if not os.path.exists(name):
            return []
        with open(name, encoding="utf-8") as log:
            return [line for line in log if "waiting for" in line]

    def wait_for_warning(self, process):
        deadline = time.monotonic() + WARNED_AFTER_S + BUSY_S
        while not self.warnings(process):
            self.assertLess(time.monotonic(), deadline, f"rank {process.rank} has not warned")
            time.sleep(0.1)
        return self.warnings(process)[0]

    def status(self, process, *words):
        done = program.run("status", "--pid", process.pid, *words,
                           env=os.environ | {"XDG_RUNTIME_DIR": self.files})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


def error_that_knows(request):
    """Waits for a second, again and again until the error tells of the late rank as the test awaits:
    a rank is asked, and answers when it gets a processor."""
    for _ in range(BUSY_S):
        try:
            request.wait(1000)
        except api.R2cclError as error:
            told = error
        if "waiting for rank 2" in told.text and told.text.endswith(os.environ["AWAITED"]):
            break
    return told


def wait_in_all_reduce(lib, lines):
    """Runs two AllReduces, and a third that rank 2 begins when the test says so."""
    comm = api.Comm.from_environment(lib)
    data = api.buffer(api.FLOAT32, [1.0] * COUNT)
    for _ in range(2):
        comm.all_reduce(data, data, COUNT)
    lines.say(event="started")
    if rank_number() == 2:
        lines.hear()
    request = comm.all_reduce(data, data, COUNT, wait=False)
    if rank_number() != 2:
        told = error_that_knows(request)
        lines.say(event="bound", code=told.code, text=told.text)
    lines.say(event="report", report=comm.report())
    request.wait()
    lines.say(event="done")
    lines.hear()
    comm.destroy()


class LateRankTest(WaitingCase):
    def check_texts(self, job, late):
        waiting = {rank: process for rank, process in job.items() if rank != 2}
        words = (r"AllReduce 3 \(262144 float32, sum\): waiting for rank 2 "
                 rf"\(host [^ ]+, pid {job[2].pid}\)" + late)
        for message in self.hear_all(waiting, "bound").values():
            self.assertEqual(message["code"], api.TIMEOUT, message["text"])
            self.assertRegex(message["text"], f"not complete after 1000 ms: {words}$")
        for message in self.hear_all(waiting, "report").values():
            flight = json.loads(message["report"])["in_flight"]
            self.assertEqual([call["call"] for call in flight],
                             ["AllReduce 3 (262144 float32, sum)"])
            self.assertEqual(flight[0]["waits_for_rank"], 2)
            self.assertRegex(flight[0]["waits_for"], late.lstrip())
        text = self.status(job[0])
        self.assertRegex(text, r"(?m)^0, 1  AllReduce 3 \(262144 float32, sum\)  \d+\.\d s +rank 2 "
                         rf"\(host [^ ]+, pid {job[2].pid}\){late}$")
        members = json.loads(self.status(job[0], "--json"))["jobs"][0]["members"]
        self.assertEqual([m.get("waits_for_rank") for m in members][:2], [2, 2])
        for process in waiting.values():
            self.assertRegex(self.wait_for_warning(process), words)

    def end(self, job):
        self.tell_all(job, go=True)
        self.hear(job[2], "report")
        self.hear_all(job, "done")
        self.tell_all(job, go=True)
        self.expect_end(job)
        for rank in (0, 1):
            self.assertEqual(len(self.warnings(job[rank])), 1)
        self.assertEqual(self.warnings(job[2]), [])

    def test_a_rank_that_comes_late_is_named_everywhere(self):
        late = ", which is at 2"
        job = self.start_logged(3, wait_in_all_reduce, AWAITED=late)
        self.hear_all(job, "started")
        self.check_texts(job, late)
        self.end(job)

    def test_a_stopped_rank_is_named_as_one_that_does_not_answer(self):
        late = ", which does not answer: it is stopped, very busy, or cut off"
        job = self.start_logged(3, wait_in_all_reduce, AWAITED=late)
        self.hear_all(job, "started")
        job[2].kill(signal.SIGSTOP)
        self.check_texts(job, late)
        job[2].kill(signal.SIGCONT)
        self.end(job)


class SendRecvTest(WaitingCase):
    def test_two_recvs_that_wait_for_each_other_are_both_named(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1.0] * 250)
            lines.say(event="started")
            other = 1 - rank_number()
            request = comm.recv(data, 250, other, wait=False)
            with telling(lines, "timeout"):
                request.wait((WARNED_AFTER_S + 5) * 1000)
            lines.hear()
            comm.send(data, 250, other)
            request.wait()
            comm.destroy()
        job = self.start_logged(2, body)
        self.hear_all(job, "started")
        for rank, process in job.items():
            other = 1 - rank
            words = (rf"Recv 1 \(250 float32\) from rank {other}: waiting for rank {other} "
                     rf"\(host [^ ]+, pid {job[other].pid}\), which has made 0 Sends to rank "
                     rf"{rank}")
            self.assertRegex(self.wait_for_warning(process), words + f" and waits for rank {rank}")
            # The bounds end together, and a rank whose wait has ended waits no longer.
            message = self.hear(process, "timeout", WARNED_AFTER_S + BUSY_S)
            self.assertRegex(message["text"], words)
        self.tell_all(job, go=True)
        self.expect_end(job)
        for process in job.values():
            self.assertEqual(len(self.warnings(process)), 1)


if __name__ == "__main__":
    program.main(__doc__)
