#!/usr/bin/env python3
"""How a job starts where names and addresses are odd: two hosts, which are network namespaces with
two NICs each, and one that has only its loopback. Needs root.

usage: start_test.py PATH_OF_R2CCL [unittest arguments]
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import time
import unittest

import program

NAME = f"r2start{os.getpid()}"
BUSY_S = 20  # a busy machine may add it
PORT = 29500  # this test has namespaces of its own


def host(number):
    return f"{NAME}h{number}"


def ip(*lines, within=None):
    """Runs the lines, in the namespace of a host if one is given."""
    place = [] if within is None else ["-n", host(within)]
    subprocess.run(["ip", *place, "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                   check=True)


def addresses(number):
    """Returns the lines that give a host its addresses, each in a network of the NIC's own."""
    return [f"addr add 10.{91 + each}.0.{number + 1}/24 dev eth{each}" for each in (0, 1)]


def obstacle():
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    made = subprocess.run(["ip", "netns", "add", NAME], capture_output=True, text=True)
    if made.returncode != 0:
        return "no network namespace can be made here: " + made.stderr.strip()
    ip(f"netns del {NAME}")
    return None


class StartTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(cls.remove)
        ip(*(f"netns add {host(each)}" for each in (0, 1)))
        for each in (0, 1):
            ip(f"link add name eth{each} netns {host(0)} type veth peer name eth{each} netns "
               + host(1))
        for number in (0, 1):
            ip("link set lo up", "link set eth0 up", "link set eth1 up", *addresses(number),
               within=number)

    @classmethod
    def remove(cls):
        for number in (0, 1):
            subprocess.run(["ip", "netns", "del", host(number)], check=False)
            shutil.rmtree(f"/etc/netns/{host(number)}", ignore_errors=True)

    def names(self, number, *lines):
        """Gives a host a file of names of its own."""
        os.makedirs(f"/etc/netns/{host(number)}", exist_ok=True)
        with open(f"/etc/netns/{host(number)}/hosts", "w", encoding="ascii") as file:
            file.write("\n".join(("127.0.0.1 localhost", *lines)) + "\n")

    def start(self, rank, count, number, **environment):
        env = {"PATH": os.environ["PATH"], "RANK": str(rank), "WORLD_SIZE": str(count),
               "MASTER_PORT": str(PORT), "R2CCL_DEBUG": "WARN", "R2CCL_INIT_TIMEOUT_S": "30",
               "R2CCL_STATUS": "0", "R2CCL_SECRET": "the secret of this test", **environment}
        return subprocess.Popen(
            ["ip", "netns", "exec", host(number), program.PATH, "bench", "-b", "4K", "--iters", "2",
             "-w", "1"], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run_ranks(self, environments, per_host=1, **common):
        """Runs a rank for each, on two hosts; returns [(status, text, end)]."""
        count = len(environments)
        ranks = [self.start(rank, count, rank // per_host, **common, **each)
                 for rank, each in enumerate(environments)]
        self.addCleanup(lambda: [rank.kill() for rank in ranks])
        with concurrent.futures.ThreadPoolExecutor(count) as threads:
            return list(threads.map(self.end_of, ranks))

    @staticmethod
    def end_of(rank):
        text, _ = rank.communicate(timeout=program.PATIENCE_S)
        return rank.returncode, text, time.monotonic()

    def expect_common_end(self, outcome):
        ends = [end for _, _, end in outcome]
        self.assertLess(max(ends) - min(ends), 2 + BUSY_S)

    def expect_run(self, outcome):
        for status, text, _ in outcome:
            self.assertEqual(status, 0, text)
        return "".join(text for _, text, _ in outcome)

    def test_the_own_name_of_rank_0_is_its_loopback_and_hosts_have_one_name(self):
        self.names(0, "127.0.1.1 node0")  # as Debian has it
        self.names(1, "10.91.0.1 node0")
        text = self.expect_run(self.run_ranks([{}, {}], MASTER_ADDR="node0"))
        told = [line for line in text.splitlines() if "two hosts are called" in line]
        self.assertEqual(len(told), 1, text)
        self.assertIn("that of rank 0 (10.91.0.1) and that of rank 1 (10.91.0.2)", told[0])
        self.assertIn("R2CCL_HOST_ID", told[0])

    def test_the_place_is_on_no_interface_and_hosts_have_one_identity(self):
        # Rank 0 has the address of a service, which a translation leads to it.
        text = self.expect_run(self.run_ranks(
            [{"MASTER_ADDR": "10.96.0.5"}, {"MASTER_ADDR": "10.91.0.1"}],
            R2CCL_HOST_ID="copy"))
        told = [line for line in text.splitlines() if "have one identity" in line]
        self.assertEqual(len(told), 1, text)
        self.assertIn("rank 0 (10.91.0.1) and that of rank 1 (10.91.0.2)", told[0])

    def test_rank_0_need_not_know_its_own_name(self):
        self.names(0)
        self.names(1, "10.91.0.1 node0")
        self.expect_run(self.run_ranks([{}, {}], MASTER_ADDR="node0"))

    def test_ranks_of_a_host_use_different_nics(self):
        filters = [{"R2CCL_SOCKET_IFNAME": name} for name in ("=eth0", "=eth0,eth1", "", "=eth0")]
        self.expect_run(self.run_ranks(filters, per_host=2, MASTER_ADDR="10.91.0.1"))

    def test_the_address_of_a_host_is_on_a_bridge(self):
        for number in (0, 1):
            ip("link add vmbr0 type bridge forward_delay 0", "link set eth1 master vmbr0",
               "addr flush dev eth0", "addr flush dev eth1",
               f"addr add 10.93.0.{number + 1}/24 dev vmbr0", "link set vmbr0 up", within=number)
        try:
            self.await_carrier()
            self.expect_run(self.run_ranks([{}, {}], MASTER_ADDR="10.93.0.1"))
        finally:
            for number in (0, 1):
                ip("link del vmbr0", *addresses(number), within=number)

    def await_carrier(self):
        deadline = time.monotonic() + BUSY_S
        for number in (0, 1):
            while "LOWER_UP" not in subprocess.run(
                    ["ip", "-n", host(number), "-o", "link", "show", "vmbr0", "up"], text=True,
                    check=True, stdout=subprocess.PIPE).stdout:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

    def test_what_cannot_start_says_why_on_all_ranks_at_the_same_time(self):
        for case, environments, words in (
                ("a name that nobody knows", [{}, {}],
                 (r'rank 1 of 2 has not arrived.*cannot resolve the host name "node9"',
                  r'cannot resolve the host name "node9" within 3 s')),
                ("the loopback of rank 0", [{"MASTER_ADDR": "localhost"},
                                            {"MASTER_ADDR": "10.91.0.1"}],
                 (r"rank 1 of 2 has not arrived.*listens on its loopback only",
                  r"nothing listens there")),
                ("a host that has only its loopback", [{}, {"R2CCL_SOCKET_IFNAME": "=lo"}],
                 (r"rank 1 .* has no network interface but the loopback",) * 2)):
            with self.subTest(case):
                self.names(0)
                self.names(1)
                place = "10.91.0.1" if "only its" in case else "node9"
                outcome = self.run_ranks([{"MASTER_ADDR": place, **each} for each in environments],
                                         R2CCL_INIT_TIMEOUT_S="3")
                for (status, text, _), pattern in zip(outcome, words):
                    self.assertNotEqual(status, 0, text)
                    self.assertRegex(text, re.compile(pattern, re.DOTALL))
                self.expect_common_end(outcome)

    def test_filters_that_leave_no_common_network_are_named_on_each_rank(self):
        filters = [{"R2CCL_SOCKET_IFNAME": name} for name in ("=eth0", "=eth0", "=eth1", "=eth1")]
        outcome = self.run_ranks(filters, per_host=2, MASTER_ADDR="10.91.0.1",
                                 R2CCL_INIT_TIMEOUT_S="4")
        for status, text, _ in outcome:
            self.assertNotEqual(status, 0, text)
            self.assertNotIn("died", text)
            self.assertRegex(text, r"rank \d uses eth(\d) \(10\.\d+\.0\.\d/24\), and rank \d uses "
                                   r"eth(?!\1).*no two of these.*R2CCL_SOCKET_IFNAME")
            # Ranks of one host reach each other, also when the other one has just given up.
            for rank, missing in re.findall(r"no NIC of rank (\d) .*? reaches (.*?); ", text):
                self.assertNotIn(f"rank {int(rank) ^ 1} ", missing)
        self.expect_common_end(outcome)

    def test_a_machine_that_has_only_its_loopback_runs_a_bench(self):
        made = host("lo")
        ip(f"netns add {made}")
        self.addCleanup(ip, f"netns del {made}")
        ip("link set lo up", within="lo")
        done = subprocess.run(["ip", "netns", "exec", made, program.PATH, "bench", "-p", "2", "-b",
                               "4K", "--iters", "2"], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    program.main(__doc__, obstacle)
