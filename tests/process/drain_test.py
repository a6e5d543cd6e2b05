#!/usr/bin/env python3
"""`r2ccl drain` under a running job: the test takes a NIC out of service, pulls its cable and plugs
it in again, and gives the NIC back. No operation waits, no element is wrong, and no verdict
appears. Runs in network namespaces; prints SKIPPED and exits with 77 where the machine permits
none.

usage: drain_test.py PATH_OF_R2CCL [unittest arguments]
"""
import glob
import json
import os
import signal
import tempfile
import time

import network_lab
import program
from fault_test import FaultCase
from network_lab import lab

QUIET_BYTES = 100_000  # greetings and probes of reopened paths


class DrainTest(FaultCase):
    shape = ("3", "3", "150")

    def start_job(self):
        """A job with its own directory for its sockets: the test must not drain other jobs of this
        machine."""
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        job = self.start(XDG_RUNTIME_DIR=files.name)
        sockets = glob.glob(os.path.join(files.name, "r2ccl-*", "*.sock"))
        self.assertEqual(len(sockets), 3)
        self.comm = os.path.basename(sockets[0]).split("-")[1]
        self.environment = os.environ | {"XDG_RUNTIME_DIR": files.name}
        return job

    def run_on_job(self, command, *words):
        return program.run(command, "--comm", self.comm, *words, env=self.environment)

    def drain(self, *words):
        return self.run_on_job("drain", *words)

    def status_nic(self, host, nic):
        done = self.run_on_job("status", "--json")
        for each in json.loads(done.stdout)["jobs"]:
            for member in each["members"]:
                if member["host"] == host:
                    return next(n for n in member["nics"] if n["name"] == nic), member, each
        raise AssertionError(f"no {host} {nic} in {done.stdout}")

    def test_a_nic_is_drained_pulled_and_given_back(self):
        job = self.start_job()
        done = self.drain("h2", "nic1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("h2 nic1 is out of service", done.stdout)
        self.assertIn("its 2 paths", done.stdout)
        nic, member, told = self.status_nic("h2", "nic1")
        self.assertEqual((nic["drained"], nic["paths_drained"], nic["paths_up"]), (True, 2, 0))
        self.assertEqual(member["troubles"], [])
        states = {(r["host"], p["nic"]): p["state"] for r in told["reports"] for p in r["paths"]
                  if r["host"] == "h2"}
        self.assertEqual(states[("h2", "nic1")], "drained")
        self.assertEqual(states[("h2", "nic0")], "up")
        carried = job.bytes_of("h2", "nic1")
        lab("fault", "h2", "nic1", "pull")
        self.expect_operations(job)
        text = self.run_on_job("status").stdout
        self.assertIn("drained, no link", text)
        self.assertIn("all other paths are up", text)
        self.assertIn("no faults so far", text)
        self.assertLess(job.bytes_of("h2", "nic1") - carried, QUIET_BYTES)
        lab("fix", "h2", "nic1")
        time.sleep(0.6)
        self.assertLess(job.bytes_of("h2", "nic1") - carried, QUIET_BYTES)
        done = self.drain("--undo", "h2", "nic1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("h2 nic1 is back in service", done.stdout)
        self.expect_carries(job, "h2", "nic1")
        self.assertEqual(job.verdicts(), [])
        result = self.expect_right(job, [])
        self.assertEqual(result["verdicts"], [])

    def test_an_impossible_drain_is_refused_with_the_reason(self):
        job = self.start_job()
        for words, status, reasons in (
                (("h9", "nic0"), 2, ("no host", "h9", "h0, h1, h2")),
                (("h1", "eth9"), 2, ("h1 has no NIC eth9", "nic0, nic1, nic2")),
                (("--pid", "1", "h1", "nic0"), 1, ("no such running job", "looked for"))):
            with self.subTest(words=words):
                done = self.drain(*words)
                self.assertEqual(done.returncode, status, done.stderr)
                for reason in reasons:
                    self.assertIn(reason, done.stderr)
        for nic in ("nic0", "nic2"):
            done = self.drain("h0", nic)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.drain("h0", "nic1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("refused", done.stderr)
        self.assertIn("rank 0 (h0) would have no other path in service to 2 ranks", done.stderr)
        # A drain of the counterpart at another host is refused, too.
        self.assertEqual(self.drain("h2", "nic1").returncode, 1)
        self.expect_operations(job)
        for nic in ("nic0", "nic2"):
            self.assertEqual(self.drain("--undo", "h0", nic).returncode, 0)
        self.expect_carries(job, "h0", "nic0")
        self.expect_right(job, [])

    def test_a_stopped_rank_is_named_as_the_obstacle(self):
        job = self.start_job()
        _, _, told = self.status_nic("h1", "nic0")
        pid = next(m["pid"] for m in told["members"] if m["host"] == "h1")
        os.kill(pid, signal.SIGSTOP)
        try:
            done = self.drain("--timeout", "1", "h0", "nic0")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("rank 1 (h1) gives no answer", done.stderr)
        # The request stays in force, and succeeds once the rank runs.
        done = self.drain("h0", "nic0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.drain("--undo", "h0", "nic0").returncode, 0)
        self.expect_right(job, [])

    def test_a_drain_outlives_the_operators_command(self):
        job = self.start_job()
        _, _, told = self.status_nic("h1", "nic0")
        pid = next(m["pid"] for m in told["members"] if m["host"] == "h1")
        os.kill(pid, signal.SIGSTOP)  # the command waits for this process
        try:
            leaving = program.start("drain", "--comm", self.comm, "h2", "nic0",
                                    env=self.environment)
            self.wait(job, lambda: self.status_nic("h2", "nic0")[0]["drained"], "it is drained")
            self.assertIsNone(leaving.poll())
            leaving.send_signal(signal.SIGINT)
            out, err = leaving.communicate(timeout=program.PATIENCE_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual((leaving.returncode, out, err), (-signal.SIGINT, "", ""))
        self.expect_operations(job)
        nic, _, _ = self.status_nic("h2", "nic0")
        self.assertEqual((nic["drained"], nic["paths_drained"], nic["paths_up"]), (True, 2, 0))
        done = self.drain("--undo", "h2", "nic0")  # the abandoned drain does not delay the next one
        self.assertEqual(done.returncode, 0, done.stderr)
        self.expect_carries(job, "h2", "nic0")
        self.expect_right(job, [])

    def test_operators_at_the_same_moment_never_take_the_last_nic(self):
        job = self.start_job()
        nics = ("nic0", "nic1", "nic2")
        running = [program.start("drain", "--comm", self.comm, "h1", nic, env=self.environment)
                   for nic in nics]
        told = [(each.communicate(timeout=program.PATIENCE_S), each.returncode) for each in running]
        served = [nic for nic, (_, status) in zip(nics, told) if status == 0]
        # Both ask one rank of one host, which knows the order of the requests.
        self.assertEqual(len(served), 2, told)
        for (out, err), status in told:
            self.assertIn("out of service after" if status == 0 else "refused", out + err)
        # A refused drain has changed nothing.
        for nic in nics:
            self.assertEqual(self.status_nic("h1", nic)[0]["drained"], nic in served)
        self.expect_operations(job)
        for nic in nics:
            done = self.drain("--undo", "h1", nic)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.expect_carries(job, "h1", "nic0")
        result = self.expect_right(job, [])
        self.assertEqual(result["verdicts"], [])


class NoJobTest(FaultCase):
    shape = ("1", "1", "0")

    def test_without_a_job_there_is_nothing_to_drain(self):
        done = program.run("drain", "--pid", "1", "h0", "nic0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such running job", done.stderr)
        for words in (("h0",), ("", "nic0"), ("h0", ""), ("h0", "nic0 h1"), ("h0\nh1", "nic0"),
                      ("h0", "n" * 80), ("h" * 600, "nic0")):
            done = program.run("drain", *words)
            self.assertEqual(done.returncode, 2, words)


if __name__ == "__main__":
    program.main(__doc__, network_lab.obstacle)
