#!/usr/bin/env python3
"""Hosts that sleep under a running job: their ranks do not run and their monotonic clocks stand
still, while the others' clocks run on; and clock steps. No verdict appears, no element is wrong,
and the job continues; the job still detects a rank that dies meanwhile. The clocks are
own_clock.c's. Runs in network namespaces; prints SKIPPED and exits with 77 where the machine
permits none.

usage: suspend_test.py PATH_OF_R2CCL PATH_OF_OWN_CLOCK [unittest arguments]
"""
import contextlib
import os
import shlex
import signal
import struct
import sys
import tempfile
import time

import network_lab
import proc
import program
from fault_test import FaultCase
from network_lab import lab

OWN_CLOCK = ""
CLOCK_STEP_S = 1000  # more than R2CCL_CUTOFF_S, after which the job gives up a missing host
CLOCK_ERROR_S = 1.5  # the greatest age of an event line, once the machine is not busy
ENDS_WITHIN_S = 60


class HostClock:
    """Sets how far the monotonic clock of one host's rank is behind the kernel's."""

    def __init__(self, name):
        self.name = name
        self.behind = 0.0
        self.set_back(0)

    def set_back(self, seconds):
        self.behind += seconds
        with open(self.name, "r+b" if os.path.exists(self.name) else "wb", buffering=0) as file:
            file.write(struct.pack("=q", int(self.behind * 1e9)))


class SuspendTest(FaultCase):
    shape = ("4", "2", "150")

    def start_job(self):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.clocks = [HostClock(os.path.join(files.name, f"h{i}"))
                       for i in range(int(self.shape[0]))]
        self.launcher = ("sh", "-c", f"LD_PRELOAD={shlex.quote(OWN_CLOCK)} "
                         f'OWN_CLOCK={shlex.quote(files.name)}/$HOST exec "$0" "$@"')
        job = self.start()
        self.pids = proc.children(job.process.pid)
        self.assertEqual(len(self.pids), len(self.clocks))
        return job

    @contextlib.contextmanager
    def suspended(self, *hosts):
        """During the block these hosts' ranks do not run, and no time passes on their clocks."""
        for host in hosts:
            os.kill(self.pids[host], signal.SIGSTOP)
        try:
            for host in hosts:
                self.wait_until_stopped(self.pids[host])
            begin = time.monotonic()
            yield
            for host in hosts:
                self.clocks[host].set_back(time.monotonic() - begin)
        finally:
            for host in hosts:
                with contextlib.suppress(ProcessLookupError):  # the process may have been killed
                    os.kill(self.pids[host], signal.SIGCONT)

    def wait_until_stopped(self, pid):
        deadline = time.monotonic() + ENDS_WITHIN_S
        while not proc.is_stopped(pid):
            self.assertLess(time.monotonic(), deadline, f"process {pid} does not stop")
            time.sleep(0.001)

    def suspend(self, job, seconds, *hosts):
        with self.suspended(*hosts):
            time.sleep(seconds)
        self.expect_operations(job)

    def expect_clocks(self, job):
        """Each rank reads its own clock: its last event line appears as old as that clock is
        behind."""
        def all_old_enough():
            ages = {lines[-1]["host"]: time.monotonic() - lines[-1]["t"] for lines in job.lines()}
            return all(abs(ages[f"h{host}"] - clock.behind) < CLOCK_ERROR_S
                       for host, clock in enumerate(self.clocks))
        self.wait(job, all_old_enough, "each host's clock is as far behind as set")

    def expect_checked(self, job):
        """Every rank checked every element of every operation so far, and found no error."""
        for lines in job.lines():
            self.assertGreater(lines[-1]["checked"], 100_000)
            self.assertEqual(lines[-1]["wrong"], 0)

    def expect_death(self, job, host):
        """The job has ended with the death of this host's rank, and no verdict names another
        component."""
        self.assertNotEqual(job.process.wait(ENDS_WITHIN_S), 0)
        self.assertRegex(job.text(), rf"rank {host} \(host h{host}, .*\) died")
        named = {(v["scope"], v["host"]) for v in job.verdicts()}
        self.assertEqual(named, {("process", f"h{host}")}, job.verdicts())
        self.expect_checked(job)

    def test_suspended_hosts_are_waited_for_without_a_verdict(self):
        job = self.start_job()
        self.suspend(job, 0.3, 1)
        self.suspend(job, 3, 1)
        self.suspend(job, 3, 0, 2)  # two at once, one of which is the fault localiser
        self.expect_clocks(job)
        self.assertEqual(self.expect_right(job, [])["verdicts"], [])

    def test_a_suspended_host_whose_networks_are_silent_too_is_waited_for(self):
        job = self.start_job()
        nics = ("nic0", "nic1", "mgmt")
        with self.suspended(1):
            for nic in nics:
                lab("fault", "h1", nic, "hole")
            time.sleep(2)
            for nic in nics:
                lab("fix", "h1", nic)
        self.expect_operations(job)
        # The host's kernel does not answer, so the job sees it as cut off.
        self.expect_right(job, [("h1", nic) for nic in ("", "nic0", "nic1")])

    def test_a_dead_rank_is_told_from_suspended_ones_and_from_clock_steps(self):
        job = self.start_job()
        self.suspend(job, 10, 1)
        for step in range(40):  # each in turn, the fault localiser's too
            self.clocks[step % len(self.clocks)].set_back(-CLOCK_STEP_S)
            time.sleep(0.05)
        self.expect_operations(job)
        self.expect_clocks(job)
        self.assertEqual(job.verdicts(), [])
        with self.suspended(1, 2):
            time.sleep(0.5)
            os.kill(self.pids[1], signal.SIGKILL)
            time.sleep(0.5)
        self.expect_death(job, 1)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        OWN_CLOCK = os.path.abspath(sys.argv.pop(2))
    program.main(__doc__, network_lab.obstacle)
