#!/usr/bin/env python3
"""A network fault under a running job: no element is wrong, operations continue, the verdict names
the NIC that failed and no other, and the NIC carries bytes again once it is repaired. Runs on real
kernels' sockets in network namespaces; prints SKIPPED and exits with 77 where the machine permits
none.

usage: fault_test.py PATH_OF_R2CCL [unittest arguments]
"""
import glob
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest

import network_lab
import program
from network_lab import lab

DURATION_S = 1_000_000  # a job's, beyond all steps of a clock: the test ends it
CARRIES_BYTES = 500_000  # more than probes and greetings
OPERATIONS_DURING_FAULT = 5


class Job:
    """`r2ccl bench` on every host of the lab, watched through its events files."""

    def __init__(self, directory, environment, launcher):
        self.directory = directory
        self.json_file = os.path.join(directory, "result.json")
        self.end_file = os.path.join(directory, "end")
        self.output = open(os.path.join(directory, "output"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [program.PATH, "lab", "all", "--name", network_lab.NAME, "--prefix",
             *launcher, program.PATH, "bench", "-b", "512K",
             "--duration", str(DURATION_S), "--until", self.end_file, "--json", self.json_file,
             "--events", os.path.join(directory, "events.%r")],
            env=dict(os.environ, R2CCL_SOCKET_IFNAME="nic", **environment),
            stdout=self.output, stderr=subprocess.STDOUT)

    def lines(self):
        """Returns every rank's complete event lines so far."""
        for name in glob.glob(os.path.join(self.directory, "events.*")):
            with open(name, encoding="utf-8") as events:
                yield [json.loads(line) for line in events.read().split("\n")[:-1]]

    def operations(self):
        """Returns the operations complete on every rank; 0 before all ranks run."""
        return min((lines[-1]["operations"] for lines in self.lines() if lines), default=0)

    def bytes_of(self, host, nic):
        return sum(sum(lines[-1]["nics"][nic].values()) for lines in self.lines()
                   if lines and lines[-1]["host"] == host)

    def verdicts(self):
        found = []
        for lines in self.lines():
            for verdict in (v for line in lines for v in line["verdicts"]):
                if verdict not in found:
                    found.append(verdict)
        return found

    def text(self):
        self.output.flush()
        with open(self.output.name, encoding="utf-8") as output:
            return output.read()

    def end(self):
        """The ranks end as if their time were over."""
        with open(self.end_file, "w", encoding="ascii"):
            pass

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        self.output.close()


class FaultCase(unittest.TestCase):
    shape = ("3", "3", "150")
    launcher = ()  # options of `lab all`, and words that start the program on each host

    @classmethod
    def setUpClass(cls):
        lab("up", *cls.shape)
        cls.addClassCleanup(lab, "down")

    def setUp(self):
        lab("fix")

    def start(self, **environment):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        job = Job(files.name, environment, self.launcher)
        self.addCleanup(job.stop)
        self.wait(job, lambda: job.operations() >= 3, "operations run")
        return job

    def wait(self, job, holds, what):
        deadline = time.monotonic() + program.PATIENCE_S
        while not holds():
            if job.process.poll() is not None:
                self.fail(f"the job ended before {what}: {job.text()}")
            if time.monotonic() > deadline:
                self.fail(f"not within {program.PATIENCE_S} s: {what}; verdicts: {job.verdicts()}")
            time.sleep(0.05)

    def expect_operations(self, job):
        before = job.operations()
        self.wait(job, lambda: job.operations() >= before + OPERATIONS_DURING_FAULT,
                  "operations go on")

    def expect_verdict(self, job, host, nic, kinds=None):
        def named():
            return any(v["host"] == host and v["nic"] == nic and not v["peer_host"]
                       and (kinds is None or v["kind"] in kinds) for v in job.verdicts())
        self.wait(job, named, f"a verdict on {host} {nic} of kind {kinds}")

    def expect_carries(self, job, host, nic):
        before = job.bytes_of(host, nic)
        self.wait(job, lambda: job.bytes_of(host, nic) > before + CARRIES_BYTES,
                  f"{host} {nic} carries bytes again")

    def expect_right(self, job, faulty):
        """The job ends well, and its verdicts name only `faulty`."""
        job.end()
        status = job.process.wait(program.PATIENCE_S)
        self.assertEqual(status, 0, job.text())
        with open(job.json_file, encoding="utf-8") as text:
            result = json.load(text)
        self.assertEqual(result["wrong_elements"], 0)
        self.assertGreater(result["checked_elements"], 100_000)
        blamed = {(v["host"], v["nic"]) for v in result["verdicts"] if not v["peer_host"]}
        self.assertLessEqual(blamed, set(faulty), result["verdicts"])
        return result

    def run_fault(self, host, nic, *fault, kinds=None, verdict=True):
        job = self.start()
        lab("fault", host, nic, *fault)
        if verdict:
            self.expect_verdict(job, host, nic, kinds)
        self.expect_operations(job)
        lab("fix", host, nic)
        self.expect_carries(job, host, nic)
        return self.expect_right(job, [(host, nic)])


class OneNicTest(FaultCase):
    def test_interface_taken_down(self):
        self.run_fault("h1", "nic1", "down", kinds=("interface_down", "carrier_lost"))

    def test_cable_pulled(self):
        self.run_fault("h1", "nic0", "pull", kinds=("carrier_lost",))

    def test_cable_pulled_at_the_lowest_rank_which_localises_for_all(self):
        self.run_fault("h0", "nic2", "pull", kinds=("carrier_lost",))

    def test_silent_hole_in_both_directions(self):
        self.run_fault("h1", "nic0", "hole")

    def test_silent_hole_for_packets_that_the_host_sends(self):
        self.run_fault("h2", "nic0", "hole-tx")

    def test_silent_hole_for_packets_that_the_host_receives(self):
        self.run_fault("h2", "nic1", "hole-rx")

    def test_slow_nic_holds_up_no_operation(self):
        self.run_fault("h1", "nic0", "slow", "10%", verdict=False)

    def test_flapping_cable_is_taken_back_each_time_without_damping(self):
        job = self.start(R2CCL_DAMPING="0")
        for _ in range(5):
            lab("fault", "h1", "nic0", "pull")
            time.sleep(0.5)
            lab("fix", "h1", "nic0")
            time.sleep(0.5)
        self.expect_operations(job)
        self.expect_carries(job, "h1", "nic0")
        self.expect_right(job, [("h1", "nic0")])


class SeveralRanksAHostTest(FaultCase):
    """Ranks of a host reduce in memory and share its NICs."""
    launcher = ("--procs", "2")

    def test_cable_pulled(self):
        self.run_fault("h1", "nic0", "pull", kinds=("carrier_lost",))

    def test_silent_hole(self):
        self.run_fault("h0", "nic1", "hole")


class SeveralNicsTest(FaultCase):
    def test_two_nics_of_one_host_at_once(self):
        job = self.start()
        lab("fault", "h1", "nic0", "pull")
        lab("fault", "h1", "nic1", "hole")
        self.expect_verdict(job, "h1", "nic0")
        self.expect_verdict(job, "h1", "nic1")
        self.expect_operations(job)
        lab("fix")
        self.expect_carries(job, "h1", "nic0")
        self.expect_carries(job, "h1", "nic1")
        self.expect_right(job, [("h1", "nic0"), ("h1", "nic1")])

    def test_different_nics_of_two_hosts_at_once(self):
        job = self.start()
        lab("fault", "h0", "nic0", "hole")
        lab("fault", "h2", "nic2", "down")
        self.expect_verdict(job, "h2", "nic2")
        self.expect_operations(job)
        lab("fix")
        self.expect_carries(job, "h0", "nic0")
        self.expect_carries(job, "h2", "nic2")
        self.expect_right(job, [("h0", "nic0"), ("h2", "nic2")])

    def test_a_dead_rail_leaves_the_others(self):
        job = self.start()
        lab("fault", "rail1", "hole")
        self.expect_operations(job)
        time.sleep(1)
        self.expect_operations(job)
        lab("fix", "rail1")
        for host in ("h0", "h1", "h2"):
            self.expect_carries(job, host, "nic1")
        # A rail belongs to no host. Verdicts may also name its NICs until all have noticed, but no
        # NICs of other rails.
        self.expect_right(job, [("", "nic1")] + [(f"h{i}", "nic1") for i in range(3)])

    def test_a_host_cut_off_for_a_while_is_waited_for(self):
        job = self.start()
        for nic in ("nic0", "nic1", "nic2", "mgmt"):
            lab("fault", "h1", nic, "hole")
        time.sleep(2)
        lab("fix")
        self.expect_operations(job)
        for nic in ("nic0", "nic1", "nic2"):
            self.expect_carries(job, "h1", nic)
        # The host as a whole, or its NICs one by one.
        self.expect_right(job, [("h1", "")] + [("h1", f"nic{i}") for i in range(3)])

    def test_a_dead_management_network_is_no_matter(self):
        for fault in ("hole", "pull"):
            with self.subTest(fault=fault):
                lab("fix")
                job = self.start()
                lab("fault", "mgmt", fault)
                self.expect_operations(job)
                for nic in ("nic0", "nic1", "nic2"):
                    self.expect_carries(job, "h1", nic)
                lab("fix", "mgmt")
                self.expect_right(job, [])

    def test_a_management_network_dead_for_a_while_delays_the_start(self):
        # Before the ranks meet there, during the meeting, and while they open their paths.
        for begin in (0, 0.05, 0.1, 0.2):
            with self.subTest(begin=begin):
                changes = [threading.Timer(begin, lab, ("fault", "mgmt", "hole")),
                           threading.Timer(begin + 2, lab, ("fix", "mgmt"))]
                for change in changes:
                    change.start()
                    self.addCleanup(change.join)
                job = self.start()
                self.expect_right(job, [])


class Ipv6Test(FaultCase):
    shape = ("3", "2", "150", "--ipv6")

    def test_interface_taken_down_which_loses_its_address(self):
        self.run_fault("h1", "nic1", "down")

    def test_silent_hole(self):
        self.run_fault("h2", "nic0", "hole")


class UnequalTest(FaultCase):
    shape = ("3", "3", "150", "--nics", "3,2,3")

    def test_hole_at_a_host_with_more_nics_than_another(self):
        self.run_fault("h0", "nic1", "hole")

    def test_cable_pulled_at_the_host_with_fewest_nics(self):
        self.run_fault("h1", "nic1", "pull")


if __name__ == "__main__":
    program.main(__doc__, network_lab.obstacle)
