#!/usr/bin/env python3
"""The address of a host's only NIC changes under a running job, with the link up: the job goes on,
each rank says meanwhile what is wrong, and the verdict names the NIC. The kernel tells the change,
or does not. Without a new address both ends err at their bound. Runs in network namespaces of its
own, which have no other network; prints SKIPPED and exits with 77 where the machine permits none.

usage: address_test.py PATH_OF_R2CCL [unittest arguments]
"""
import os
import subprocess
import tempfile
import time
import unittest

import network_lab
import program
from fault_test import Job

NAME = f"addr{os.getpid()}"
CUTOFF_S = 5


def ip(*words):
    subprocess.run(["ip", *(str(word) for word in words)], check=True, stdout=subprocess.DEVNULL)


def host(number):
    return f"{NAME}h{number}"


def set_address(number, verb, address):
    flags = ["nodad"] if ":" in address and verb == "add" else []
    ip("-n", host(number), "addr", verb, address, "dev", "eth0", *flags)


class AddressJob(Job):
    """`r2ccl bench` as one rank in each of the two namespaces."""

    def __init__(self, directory, meeting, duration, **environment):
        self.directory = directory
        self.outputs = []
        self.processes = []
        for rank in (0, 1):
            self.outputs.append(open(os.path.join(directory, f"output.{rank}"), "w+",
                                     encoding="utf-8"))
            self.processes.append(subprocess.Popen(
                ["ip", "netns", "exec", host(rank), program.PATH, "bench", "-b", "256K",
                 "--duration", str(duration),
                 "--events", os.path.join(directory, "events.%r")],
                env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=meeting,
                         MASTER_PORT="29555", R2CCL_DEBUG="WARN", **environment),
                stdout=self.outputs[rank], stderr=subprocess.STDOUT))

    def text(self, rank):
        with open(self.outputs[rank].name, encoding="utf-8") as output:
            return output.read()

    def stop(self):
        for process, output in zip(self.processes, self.outputs):
            if process.poll() is None:
                process.terminate()
            process.wait()
            output.close()


class AddressTest(unittest.TestCase):
    def setUp(self):
        for number in (0, 1):
            ip("netns", "add", host(number))
            self.addCleanup(ip, "netns", "del", host(number))
            ip("-n", host(number), "link", "set", "lo", "up")
        ip("link", "add", "name", "eth0", "netns", host(0), "type", "veth", "peer", "name", "eth0",
           "netns", host(1))
        for number in (0, 1):
            # Without link-local addresses, by which the job would simply go on.
            ip("-n", host(number), "link", "set", "eth0", "addrgenmode", "none")
            ip("-n", host(number), "link", "set", "eth0", "up")
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.directory = files.name

    def start(self, addresses, duration, **environment):
        for number in (0, 1):
            set_address(number, "add", addresses[number])
        job = AddressJob(self.directory, addresses[0].split("/")[0], duration, **environment)
        self.addCleanup(job.stop)
        self.wait(job, lambda: job.operations() >= 3, "operations run")
        return job

    def wait(self, job, holds, what):
        deadline = time.monotonic() + program.PATIENCE_S
        began = time.monotonic()
        while not holds():
            if time.monotonic() > deadline:
                self.fail(f"not within {program.PATIENCE_S} s: {what}: {job.text(0)} {job.text(1)}")
            time.sleep(0.02)
        return time.monotonic() - began

    def expect_goes_on(self, job, what):
        before = job.operations()
        return self.wait(job, lambda: job.operations() > before + 3, f"operations after {what}")

    def expect_named(self, job, number):
        def named():
            return [v for v in job.verdicts() if v["kind"] == "address_lost" and v["nic"] == "eth0"]
        self.wait(job, lambda: len(named()) > number, f"verdict {number}")

    def change_both(self, job, hosts_addresses):
        for index, (number, old, new) in enumerate(hosts_addresses):
            set_address(number, "del", old)
            # Each rank that waits says so.
            for rank in (0, 1):
                self.wait(job, lambda: job.text(rank).count("out of reach") > index,
                          f"rank {rank} says that host {number} is out of reach")
            set_address(number, "add", new)
            print(f"host {number}: operations again after "
                  f"{self.expect_goes_on(job, f'a change at host {number}'):.2f} s")
            for rank in (0, 1):
                self.wait(job, lambda: job.text(rank).count("reached again") > index,
                          f"rank {rank} says that host {number} is reached again")
            self.expect_named(job, index)

    def test_the_job_goes_on_at_another_address(self):
        job = self.start(["10.91.0.1/24", "10.91.0.2/24"], 60)
        self.change_both(job, [(1, "10.91.0.2/24", "10.91.0.77/24"),
                               (0, "10.91.0.1/24", "10.91.0.88/24")])

    def test_the_job_goes_on_though_the_kernel_tells_nothing(self):
        faults = os.path.join(self.directory, "faults")
        with open(faults, "w", encoding="utf-8") as file:
            file.write("* no-events\n")
        job = self.start(["fd91::1/64", "fd91::2/64"], 60, R2CCL_FAULT_FILE=faults)
        self.change_both(job, [(1, "fd91::2/64", "fd91::77/64"), (0, "fd91::1/64", "fd91::88/64")])

    def test_the_new_address_comes_before_the_old_one_goes(self):
        job = self.start(["10.91.0.1/24", "10.91.0.2/24"], 60)
        set_address(1, "add", "10.91.0.77/32")
        ip("-n", host(1), "route", "add", "10.91.0.0/24", "dev", "eth0", "src", "10.91.0.77",
           "metric", 100)
        self.expect_goes_on(job, "a second address")
        set_address(1, "del", "10.91.0.2/24")
        time.sleep(1)  # operations that ended before are told by then
        self.expect_goes_on(job, "the loss of the first address")

    def test_without_a_new_address_both_ends_err_at_their_bound(self):
        job = self.start(["10.91.0.1/24", "10.91.0.2/24"], 60, R2CCL_CUTOFF_S=str(CUTOFF_S))
        set_address(1, "del", "10.91.0.2/24")
        self.wait(job, lambda: any(each.poll() is not None for each in job.processes), "an end")
        later = self.wait(job, lambda: all(each.poll() is not None for each in job.processes),
                          "both ends")
        for rank in (0, 1):
            self.assertIn("cut off", job.text(rank))
        self.assertIn("eth0 has lost its address", job.text(1))
        self.assertNotIn("h0: silent", job.text(1))
        self.assertLess(later, CUTOFF_S, "one end's bound is much longer than the other's")


if __name__ == "__main__":
    program.main(__doc__, network_lab.obstacle)
