#!/usr/bin/env python3
"""Harmless networks. A peer's address does not identify it: NICs have several addresses,
every host has one address, several NICs are on one switch, a firewall begins to refuse. Jobs start,
no rank counts as dead, and a line names each NIC that does not serve. Runs in network namespaces;
prints SKIPPED and exits with 77 where the machine permits none.

usage: reach_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import subprocess
import tempfile
import time
import unittest

import program

PREFIX = f"rt{os.getpid()}h"
SWITCH = PREFIX + "sw"
LIMIT_S = 120


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def down():
    for line in ip("netns", "list", check=False).stdout.splitlines():
        if line.startswith(PREFIX):
            ip("netns", "del", line.split()[0], check=False)


def obstacle():
    try:
        made = ip("netns", "add", SWITCH, check=False)
    except FileNotFoundError:
        return "needs iproute2"
    down()
    return made.stderr.strip() if made.returncode != 0 else None


class ReachCase(unittest.TestCase):
    """Hosts whose NICs are all plugged into one switch, with the kernel's defaults."""

    def setUp(self):
        self.addCleanup(down)
        self.port = 29500

    def make_hosts(self, *hosts):
        """Each host is a list of NICs, each NIC a list of addresses."""
        ip("netns", "add", SWITCH)
        ip("-n", SWITCH, "link", "add", "name", "sw0", "type", "bridge", "forward_delay", 0)
        ip("-n", SWITCH, "link", "set", "sw0", "up")
        self.hosts = len(hosts)
        for host, nics in enumerate(hosts):
            name = f"{PREFIX}{host}"
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            for nic, addresses in enumerate(nics):
                ip("link", "add", "name", f"eth{nic}", "netns", name, "type", "veth",
                   "peer", "name", f"p{host}_{nic}", "netns", SWITCH)
                ip("-n", SWITCH, "link", "set", f"p{host}_{nic}", "master", "sw0", "up")
                ip("-n", name, "link", "set", f"eth{nic}", "up")
                self.add(host, f"eth{nic}", *addresses)

    def add(self, host, nic, *addresses):
        for address in addresses:
            ip("-n", f"{PREFIX}{host}", "addr", "add", address, "dev", nic,
               *(["nodad"] if ":" in address else []))

    def plug(self, host, nic, state):
        ip("-n", SWITCH, "link", "set", f"p{host}_{nic}", state)

    def filter(self, host, rules):
        subprocess.run(["ip", "netns", "exec", f"{PREFIX}{host}", "nft", "-f", "-"], input=rules,
                       text=True, check=True)

    def start(self, address, *bench):
        """Starts a rank on each host; they meet at `address`."""
        self.port += 1
        ranks = []
        for rank in range(self.hosts):
            ranks.append(subprocess.Popen(
                ["ip", "netns", "exec", f"{PREFIX}{rank}", program.PATH, "bench", "-b", "64K",
                 *map(str, bench)],
                env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(self.hosts),
                         MASTER_ADDR=address, MASTER_PORT=str(self.port), R2CCL_DEBUG="WARN",
                         R2CCL_INIT_TIMEOUT_S="60"),
                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            self.addCleanup(ranks[-1].communicate)
            self.addCleanup(ranks[-1].kill)
        return ranks

    def wait_for_operations(self, folder):
        """Waits until each rank has ended operations that began after this call."""
        def operations(rank):
            try:
                with open(os.path.join(folder, f"events.{rank}"), encoding="utf-8") as events:
                    return json.loads(events.readlines()[-1])["operations"]
            except (OSError, IndexError, ValueError):
                return 0
        before = [operations(rank) for rank in range(self.hosts)]
        deadline = time.monotonic() + LIMIT_S
        while any(operations(rank) < before[rank] + 2 for rank in range(self.hosts)):
            self.assertLess(time.monotonic(), deadline, "no operation ends")
            time.sleep(0.1)

    def expect_well(self, ranks):
        """Returns the output of each rank, once all have ended well."""
        texts = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
        for rank, text in zip(ranks, texts):
            self.assertEqual(rank.returncode, 0, texts)
            self.assertNotIn("died", text)
        return texts

    def bytes_sent(self, host, nic):
        counter = f"/sys/class/net/{nic}/statistics/tx_bytes"
        return int(subprocess.run(["ip", "netns", "exec", f"{PREFIX}{host}", "cat", counter],
                                  check=True, text=True, stdout=subprocess.PIPE).stdout)


class SeveralAddressesTest(ReachCase):
    def test_a_nic_is_reached_in_whatever_order_its_addresses_are(self):
        self.make_hosts([["10.91.0.1/24", "fd91::1/64"]], [[]])
        for addresses, meeting in ((["192.168.50.1/24", "10.91.0.2/24"], "10.91.0.1"),
                                   (["10.91.0.100/32", "10.91.0.2/24"], "10.91.0.1"),
                                   (["192.168.50.1/24", "fd91::2/64"], "fd91::1")):
            with self.subTest(addresses):
                ip("-n", f"{PREFIX}1", "addr", "flush", "dev", "eth0", "scope", "global")
                self.add(1, "eth0", *addresses)
                self.expect_well(self.start(meeting, "-w", 1, "--iters", 2))


class OneAddressOnAllHostsTest(ReachCase):
    def test_it_is_no_peer_and_its_refusals_are_no_death(self):
        self.make_hosts(*([[f"10.91.0.{host + 1}/24"], ["172.17.0.1/16"]] for host in range(3)))
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        end = os.path.join(files.name, "end")
        ranks = self.start("10.91.0.1", "--duration", LIMIT_S, "--until", end,
                           "--events", os.path.join(files.name, "events.%r"))
        self.wait_for_operations(files.name)
        self.plug(1, 0, "down")
        ip("-n", f"{PREFIX}0", "link", "add", "docker0", "type", "bridge")
        self.add(0, "docker0", "10.91.0.3/32")  # that of a peer, for a while
        time.sleep(1)
        ip("-n", f"{PREFIX}0", "link", "del", "docker0")
        self.plug(1, 0, "up")
        self.wait_for_operations(files.name)
        time.sleep(3)  # a NIC is idle when it has not served for two seconds
        with open(end, "w", encoding="ascii"):
            pass
        for text in self.expect_well(ranks):
            self.assertRegex(text, "eth1 is not used.* one of this host too")


class OneSwitchTest(ReachCase):
    def test_each_nic_carries_or_a_line_names_the_settings(self):
        self.make_hosts(*([[f"10.88.0.{host}0/24"], [f"10.88.0.{host}1/24"]]
                          for host in range(1, 4)))
        texts = self.expect_well(self.start("10.88.0.10", "--duration", 4))
        for host, text in enumerate(texts):
            for nic in ("eth0", "eth1"):
                with self.subTest(host=host, nic=nic):
                    self.assertTrue(self.bytes_sent(host, nic) > 500_000 or
                                    any("arp_ignore=1" in text for text in texts), texts)


class FirewallTest(ReachCase):
    RULES = """table inet refuse {
      chain input {
        type filter hook input priority 0;
        iifname "eth0" tcp dport > 1024 %s
      }
    }"""

    def test_a_firewall_that_begins_to_refuse_ends_no_job(self):
        self.make_hosts([["10.91.0.1/24"]], [["10.91.0.2/24"]])
        for verdict in ("reject", "reject with tcp reset"):
            with self.subTest(verdict):
                ranks = self.start("10.91.0.1", "--duration", 4)
                time.sleep(2)
                self.filter(0, self.RULES % verdict)
                time.sleep(1.5)
                self.filter(0, "delete table inet refuse")
                self.expect_well(ranks)


if __name__ == "__main__":
    program.main(__doc__, obstacle)
