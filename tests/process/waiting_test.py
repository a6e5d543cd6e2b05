#!/usr/bin/env python3
"""Calls that wait for a rank: the timeout error, the status, the report and one line of the log name
it, and say whether it computes, sleeps or is stopped. Needs nothing but the loopback interface.

On a busy machine another rank may be late, too, and the one line of a call names that. Then a test
begins again with a new job. The times proper are tested in the simulator.

usage: waiting_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import re
import select
import signal
import tempfile
import time

import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, rank_number, telling

COUNT = 262_144
JOBS_MAX = 8


class AnotherRankWasLate(Exception):
    """The machine is busy: the line of the call names another rank than the test awaits."""


class WaitingCase(LocalJobCase):
    def setUp(self):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.files = files.name

    def start_logged(self, count, body, **environment):
        return self.start(count, body, {
            "R2CCL_DEBUG": "WARN", "R2CCL_DEBUG_FILE": os.path.join(self.files, "log.%p"),
            "XDG_RUNTIME_DIR": self.files} | environment)

    def warnings(self, process, call):
        """Returns the lines of this rank's log that say which rank the call waits for."""
        name = os.path.join(self.files, f"log.{process.pid}")
        if not os.path.exists(name):
            return []
        with open(name, encoding="utf-8") as log:
            return [line for line in log if f" {call} (" in line and "waiting for" in line]

    def wait_for_warning(self, process, call, words):
        """Waits for the line of the call, and checks that it has these words."""
        deadline = time.monotonic() + BUSY_S
        while not self.warnings(process, call):
            self.assertLess(time.monotonic(), deadline, f"rank {process.rank} has not warned")
            time.sleep(0.05)
        line = self.warnings(process, call)[0]
        if not re.search(words, line):
            raise AnotherRankWasLate(line)

    def with_new_jobs(self, scenario):
        """Runs the scenario until it has had the processors that it needs."""
        lines = []
        for _ in range(JOBS_MAX):
            try:
                return scenario()
            except AnotherRankWasLate as late:
                lines.append(str(late))
        return self.fail(f"{JOBS_MAX} jobs had lines about other ranks: {lines}")

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


def compute_until_told(lines):
    """Computes, and leaves a processor only when the kernel takes it away."""
    numbers = 0
    while not select.select([lines.read_fd], [], [], 0)[0]:
        numbers += sum(range(10_000))
    lines.hear()
    return numbers


def wait_in_all_reduce(lib, lines):
    """Runs two AllReduces, and a third that rank 2 begins when the test says so."""
    comm = api.Comm.from_environment(lib)
    data = api.buffer(api.FLOAT32, [1.0] * COUNT)
    for _ in range(2):
        comm.all_reduce(data, data, COUNT)
    lines.say(event="started")
    lines.hear()
    if rank_number() == 2 and "COMPUTES" in os.environ:
        compute_until_told(lines)
    elif rank_number() == 2:
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


COMPUTES = ", which is at 2"
STOPPED = (", which does not answer, though its host's kernel does: it is stopped, swapping, or has "
           "no CPU time")
THIRD = "AllReduce 3"


class LateRankTest(WaitingCase):
    def begin(self, late, **environment):
        job = self.start_logged(3, wait_in_all_reduce, AWAITED=late, **environment)
        self.hear_all(job, "started")
        return job

    def check_texts(self, job, late):
        """Requires that rank 2 is late. Lets the other ranks make their calls."""
        waiting = {rank: process for rank, process in job.items() if rank != 2}
        for process in waiting.values():
            self.assertEqual(self.warnings(process, THIRD), [])
        self.tell_all(waiting, go=True)
        words = (r"AllReduce 3 \(262144 float32, sum\): waiting for rank 2 "
                 rf"\(host [^ ]+, pid {job[2].pid}\)" + late)
        for process in waiting.values():
            self.wait_for_warning(process, THIRD, words + r" \(\d+\.\d s so far\)$")
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

    def end(self, job):
        """Requires that rank 2 goes on."""
        self.hear(job[2], "report")
        self.hear_all(job, "done")
        self.tell_all(job, go=True)
        self.expect_end(job)
        for rank in (0, 1):
            self.assertEqual(len(self.warnings(job[rank], THIRD)), 1, "once for each call")

    def late_rank(self, **environment):
        job = self.begin(COMPUTES, **environment)
        job[2].lines.say(go=True)  # to compute, or to sleep
        self.check_texts(job, COMPUTES)
        job[2].lines.say(go=True)
        self.end(job)

    def test_a_rank_that_sleeps_is_named_everywhere(self):
        self.with_new_jobs(self.late_rank)

    def test_a_rank_that_computes_is_named_everywhere(self):
        self.with_new_jobs(lambda: self.late_rank(COMPUTES="1"))

    def test_a_stopped_rank_is_named_as_one_whose_kernel_answers(self):
        def scenario():
            job = self.begin(STOPPED)
            job[2].kill(signal.SIGSTOP)
            self.check_texts(job, STOPPED)
            job[2].kill(signal.SIGCONT)
            for _ in range(2):
                job[2].lines.say(go=True)
            self.end(job)
        self.with_new_jobs(scenario)


class SendRecvTest(WaitingCase):
    def test_two_recvs_that_wait_for_each_other_are_both_named(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1.0] * 250)
            lines.say(event="started")
            other = 1 - rank_number()
            request = comm.recv(data, 250, other, wait=False)
            with telling(lines, "timeout"):
                request.wait(8000)
            lines.hear()
            comm.send(data, 250, other)
            request.wait()
            comm.destroy()

        def scenario():
            job = self.start_logged(2, body)
            self.hear_all(job, "started")
            for rank, process in job.items():
                other = 1 - rank
                words = (rf"Recv 1 \(250 float32\) from rank {other}: waiting for rank {other} "
                         rf"\(host [^ ]+, pid {job[other].pid}\), which has made 0 Sends to rank "
                         rf"{rank}")
                self.wait_for_warning(process, "Recv 1", words + f" and waits for rank {rank} ")
                # The bounds end together, and a rank whose wait has ended waits no longer.
                message = self.hear(process, "timeout", 8 + BUSY_S)
                self.assertRegex(message["text"], words)
            self.tell_all(job, go=True)
            self.expect_end(job)
            for process in job.values():
                self.assertEqual(len(self.warnings(process, "Recv 1")), 1)
        self.with_new_jobs(scenario)


if __name__ == "__main__":
    program.main(__doc__)
