#!/usr/bin/env python3
"""A running job in hostile surroundings: floods, slow strangers, replayed recordings, no
descriptors left, no ports left, a firewall that forgets. docs/hostile.md describes the right
behaviour. Runs in network namespaces; prints SKIPPED and exits with 77 where the machine permits
none.

usage: hostile_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest

import network_lab
import proc
import program
from fault_test import FaultCase
from network_lab import lab

HERE = os.path.dirname(os.path.abspath(__file__))
FLOOD = 4000  # connections
KNOCKS_PER_S = 4000
PENDING_MAX = 256  # limits::kPendingHandshakesMax
# The acceptor reserves these for peers, for each address of the rank table.
RESERVED_PLACES = 32
FLOODING_ADDRESSES = 3  # h1, a rank's host, floods from two data NICs and the management NIC
LINES_PER_S = 20  # LogLimit::kLinesPerWindow


class HostileCase(FaultCase):
    shape = ("3", "2", "150")

    def run_in(self, host, *words, **options):
        """A helper that runs inside a host until the test ends."""
        process = subprocess.Popen(
            [program.PATH, "lab", "run", "--name", network_lab.NAME, host, *map(str, words)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)

        def end():
            if process.poll() is None:
                process.terminate()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self.addCleanup(end)
        return process

    def helper(self, host, name, *words):
        return self.run_in(host, sys.executable, "-B", os.path.join(HERE, name), *words)

    def ranks(self, job):
        """Returns process ids by rank."""
        pids = proc.children(job.process.pid)
        self.assertEqual(len(pids), int(self.shape[0]))
        return pids

    def endpoints_of(self, pids):
        # Only the host itself can reach lo.
        return [f"{address}:{port}" for pid in pids for address, port in proc.listening_ports(pid)
                if not address.startswith("127.")]


class FloodTest(HostileCase):
    """Opens 4,000 connections from h1, which is a rank's host too, to all ports of h0 and h2."""

    def flood(self, *endpoints):
        return self.helper("h1", "flooder.py", FLOOD, KNOCKS_PER_S, *endpoints)

    def test_a_flood_on_every_port_stops_neither_the_job_nor_a_return(self):
        job = self.start()
        pids = self.ranks(job)
        before = {pid: (proc.descriptors(pid), proc.resident_bytes(pid)) for pid in pids}
        flooder = self.flood(*self.endpoints_of([pids[0], pids[2]]))
        self.assertEqual(flooder.stdout.readline(), "full\n")
        self.expect_operations(job)
        lab("fault", "h2", "nic0", "pull")
        self.expect_verdict(job, "h2", "nic0")
        self.expect_operations(job)
        lab("fix", "h2", "nic0")
        self.expect_carries(job, "h2", "nic0")
        for pid in pids:
            descriptors, memory = before[pid]
            # The number varies with the paths, and with probes of a peer's kernel.
            self.assertLess(proc.descriptors(pid), descriptors + PENDING_MAX +
                            FLOODING_ADDRESSES * RESERVED_PLACES + 20)
            self.assertLess(proc.resident_bytes(pid), memory + (16 << 20))
        # Most were thrown out and came again.
        self.assertEqual(flooder.stdout.readline(), "twice\n")
        flooder.terminate()
        self.wait(job, lambda: all(proc.descriptors(pid) <= before[pid][0] + 4 for pid in pids),
                  "strangers are gone")
        self.expect_right(job, [("h2", "nic0")])

    def test_a_flood_from_256_addresses_does_not_keep_a_nic_away(self):
        job = self.start()
        pids = self.ranks(job)
        # The higher rank accepts; all its listeners share the slots.
        listeners = [f"{address}:{port}" for address, port in proc.listening_ports(pids[2])
                     if address.startswith("127.")]
        self.assertTrue(listeners)
        flooder = self.helper("h2", "flooder.py", "--sources", 256, FLOOD, KNOCKS_PER_S, *listeners)
        self.assertEqual(flooder.stdout.readline(), "full\n")
        lab("fault", "h2", "nic0", "pull")
        self.expect_verdict(job, "h2", "nic0")
        lab("fix", "h2", "nic0")
        self.expect_carries(job, "h2", "nic0")
        flooder.terminate()
        self.expect_right(job, [("h2", "nic0")])

    def test_a_flood_on_the_rendezvous_does_not_keep_the_ranks_apart(self):
        # Rank 0 serves strangers alone at first.
        self.launcher = ("sh", "-c", '[ $RANK = 0 ] || sleep 2; exec "$0" "$@"')
        flooder = self.flood("h0:29500")
        job = self.start()
        flooder.terminate()
        self.assertGreater(int(flooder.stdout.read().split()[-1]), 2 * PENDING_MAX)
        self.expect_right(job, [])

    def test_a_flood_fills_no_log(self):
        with tempfile.TemporaryDirectory() as files:
            job = self.start(R2CCL_DEBUG="INFO",
                             R2CCL_DEBUG_FILE=os.path.join(files, "log.%h"))
            begin = time.monotonic()
            shouter = self.helper("h1", "flooder.py", 0, 500, *self.endpoints_of(self.ranks(job)))
            self.assertEqual(shouter.stdout.readline(), "full\n")
            shouter.terminate()
            made = int(shouter.stdout.readline())
            self.expect_right(job, [])
            lines = self.text_of(files).count("refused a connection")
            told = re.findall(r"(\d+) similar lines suppressed.*refused a connection",
                              self.text_of(files))
            self.assertLess(lines, 3 * (time.monotonic() - begin + 1) * (LINES_PER_S + 1))
            # The log counts every connection. Probes of a suspect path add to the count, since they
            # send nothing either.
            self.assertGreaterEqual(lines - len(told) + sum(map(int, told)), made)

    def text_of(self, directory):
        texts = []
        for name in os.listdir(directory):
            with open(os.path.join(directory, name), encoding="utf-8") as text:
                texts.append(text.read())
        return "".join(texts)


class ReplayTest(HostileCase):
    def test_replayed_recordings_are_refused_and_disturb_no_rank(self):
        recorder = self.helper("h0", "replayer.py", 64 << 10)  # h0 opens all its connections itself
        self.assertEqual(recorder.stdout.readline(), "ready\n")
        job = self.start(R2CCL_DEBUG="INFO")
        lab("fault", "h0", "nic0", "pull")
        self.expect_verdict(job, "h0", "nic0")
        lab("fix", "h0", "nic0")
        self.expect_carries(job, "h0", "nic0")
        verdicts = len(job.verdicts())
        recorder.stdin.write("play\n")
        recorder.stdin.flush()
        recorded, made = map(int, recorder.stdout.readline().split())
        self.assertGreaterEqual(recorded, 2 * 2 * 2 + 2, "data and lane of two paths to each")
        self.assertGreater(made, 4 * (recorded - 4))  # the rendezvous is over
        self.expect_operations(job)
        self.expect_carries(job, "h0", "nic0")
        self.assertEqual(len(job.verdicts()), verdicts)
        self.expect_right(job, [("h0", "nic0")])
        self.assertTrue("refused a connection" in job.text(), "the recordings arrived")


class ShortageTest(HostileCase):
    def limit(self, pids, descriptors=None):
        for pid in pids:
            hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors or hard, hard))

    def test_without_descriptors_honest_paths_go_on_and_others_return_when_there_are_some(self):
        job = self.start(R2CCL_DEBUG="WARN")
        pids = self.ranks(job)
        self.limit(pids, 3)
        begin = time.monotonic()
        lab("fault", "h1", "nic0", "pull")
        self.expect_verdict(job, "h1", "nic0")
        self.expect_operations(job)
        lab("fix", "h1", "nic0")
        time.sleep(1)
        carried = job.bytes_of("h1", "nic0")
        self.expect_operations(job)
        self.assertEqual(job.bytes_of("h1", "nic0"), carried, "no descriptor, no connection")
        self.assertTrue("raise the limit: ulimit -n" in job.text(), "advice in the log")
        self.assertLess(len(job.text().splitlines()),
                        3 * (time.monotonic() - begin + 1) * (LINES_PER_S + 1))
        self.limit(pids)
        self.expect_carries(job, "h1", "nic0")
        self.expect_right(job, [("h1", "nic0")])


class FewPortsTest(HostileCase):
    def test_without_free_ports_a_flapping_nic_still_returns_each_time(self):
        lab("run", "h0", "sh", "-c", "echo 40000 40039 > /proc/sys/net/ipv4/ip_local_port_range")
        job = self.start(R2CCL_DAMPING="0")
        for _ in range(12):
            lab("fault", "h0", "nic0", "pull")
            time.sleep(0.3)
            lab("fix", "h0", "nic0")
            time.sleep(0.3)
        self.assertEqual(proc.sockets_in_time_wait(self.ranks(job)[0]), 0)
        self.expect_operations(job)
        self.expect_carries(job, "h0", "nic0")
        self.expect_right(job, [("h0", "nic0")])


class ForgetfulFirewallTest(HostileCase):
    RULES = """
table inet forgetful
delete table inet forgetful
table inet forgetful {
  chain input {
    type filter hook input priority 0;
    iifname "nic*" ct state invalid counter drop
    iifname "nic*" ct state new tcp flags & syn == 0 counter drop
  }
  chain output {
    type filter hook output priority 0;
    oifname "nic*" ct state invalid counter drop
    oifname "nic*" ct state new tcp flags & syn == 0 counter drop
  }
}"""

    def run_idle(self, timeout_s, idle_s):
        """Returns the ranks' output about a pause, behind a firewall at h1 that forgets after
        `timeout_s`."""
        setting = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established"
        lab("run", "h1", "nft", "-f", "-", input=self.RULES)
        if lab("run", "h1", "test", "-e", setting, check=False).returncode != 0:
            self.skipTest("this kernel tracks no connections")
        lab("run", "h1", "sh", "-c", f"echo {timeout_s} > {setting}")
        job = subprocess.run(
            [program.PATH, "lab", "all", "--name", network_lab.NAME, sys.executable, "-B",
             os.path.join(HERE, "idle_rank.py"), program.PATH, str(idle_s)],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=program.PATIENCE_S,
            env=dict(os.environ, R2CCL_SOCKET_IFNAME="nic"))
        self.assertEqual(job.returncode, 0, job.stderr)
        ranks = [json.loads(line) for line in job.stdout.splitlines()]
        self.assertEqual([rank["wrong"] for rank in ranks], [0, 0, 0])
        dropped = sum(map(int, re.findall(r"counter packets (\d+)", lab(
            "run", "h1", "nft", "list", "table", "inet", "forgetful").stdout)))
        return ranks, dropped

    def test_idle_connections_outlive_a_firewall_with_a_timeout_of_8_s(self):
        ranks, dropped = self.run_idle(8, 11)
        self.assertEqual(dropped, 0)
        for rank in ranks:
            self.assertEqual(rank["report"]["verdicts"], [])
            self.assertLess(rank["first_s"], 5)

    def test_flows_that_a_firewall_forgot_are_opened_anew_without_an_error(self):
        ranks, dropped = self.run_idle(2, 4)
        self.assertGreater(dropped, 0)
        for rank in ranks:
            self.assertLess(rank["first_s"], 5)


if __name__ == "__main__":
    network_lab.NAME = f"hs{os.getpid()}"
    program.main(__doc__, network_lab.obstacle)
