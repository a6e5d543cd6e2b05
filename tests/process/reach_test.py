#!/usr/bin/env python3
"""Harmless networks. A peer's address does not identify it: NICs have several addresses,
every host has one address, several NICs are on one switch, a firewall begins to refuse, a host is a
container, a proxy takes the connections. Jobs start, or all ranks say what to set; no rank counts as
dead, and a line names each NIC that does not serve. Runs in network namespaces; prints SKIPPED and
exits with 77 where the machine permits none.

usage: reach_test.py PATH_OF_R2CCL [unittest arguments]
"""
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import program

PREFIX = f"rt{os.getpid()}h"
SWITCH = PREFIX + "sw"
LIMIT_S = 120
BUSY_S = 20  # a busy machine may add it
START_S = 5  # ranks that cannot start wait so long


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def down():
    for line in ip("netns", "list", check=False).stdout.splitlines():
        if line.startswith(PREFIX):
            ip("netns", "del", line.split()[0], check=False)


def forward(namespace):
    """Makes a router of the namespace."""
    subprocess.run(["ip", "netns", "exec", namespace, "sh", "-c",
                    "echo 1 > /proc/sys/net/ipv4/ip_forward"], check=True)


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

    def start(self, address, *bench, **environment):
        """Starts a rank on each host; they meet at `address`."""
        self.port += 1
        ranks = []
        for rank in range(self.hosts):
            ranks.append(subprocess.Popen(
                ["ip", "netns", "exec", f"{PREFIX}{rank}", program.PATH, "bench", "-b", "64K",
                 *map(str, bench)],
                env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(self.hosts),
                         MASTER_ADDR=address, MASTER_PORT=str(self.port), R2CCL_DEBUG="WARN",
                         **{"R2CCL_INIT_TIMEOUT_S": "60", **environment}),
                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            self.addCleanup(ranks[-1].communicate)
            self.addCleanup(ranks[-1].kill)
        return ranks

    def start_until_told(self, address):
        """Starts ranks that run until the file `end` is in the folder that this returns with them."""
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        ranks = self.start(address, "--duration", LIMIT_S,
                           "--until", os.path.join(files.name, "end"),
                           "--events", os.path.join(files.name, "events.%r"))
        self.wait_for_operations(files.name)
        return ranks, files.name

    def tell_to_end(self, folder):
        with open(os.path.join(folder, "end"), "w", encoding="ascii"):
            pass

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

    def expect_no_start(self, words, *place, **environment):
        """All ranks end in time and together, and each one's error has the words."""
        began = time.monotonic()
        ranks = self.start(*place, R2CCL_INIT_TIMEOUT_S=str(START_S), **environment)
        with concurrent.futures.ThreadPoolExecutor(len(ranks)) as threads:
            outcome = list(threads.map(self.end_of, ranks))
        ends = [end for _, end in outcome]
        self.assertLess(max(ends) - min(ends), 2 + BUSY_S)
        self.assertLess(max(ends) - began, START_S + 2.5 + BUSY_S)
        for rank, (text, _) in zip(ranks, outcome):
            self.assertNotEqual(rank.returncode, 0, text)
            self.assertNotRegex(text, "died|bug:")
            error = text[text.index("r2ccl bench:"):]
            self.assertRegex(error, words, outcome)

    @staticmethod
    def end_of(rank):
        return rank.communicate(timeout=LIMIT_S)[0], time.monotonic()

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
        ranks, folder = self.start_until_told("10.91.0.1")
        self.plug(1, 0, "down")
        ip("-n", f"{PREFIX}0", "link", "add", "docker0", "type", "bridge")
        self.add(0, "docker0", "10.91.0.3/32")  # that of a peer, for a while
        time.sleep(1)
        ip("-n", f"{PREFIX}0", "link", "del", "docker0")
        self.plug(1, 0, "up")
        self.wait_for_operations(folder)
        time.sleep(3)  # a NIC is idle when it has not served for two seconds
        self.tell_to_end(folder)
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


class ContainerTest(ReachCase):
    """Containers: each one's machine gives its own address to the connections that leave, and leads
    those to one port in."""

    TRANSLATION = """table ip translation {
      chain in { type nat hook prerouting priority -100;
        ip daddr %s tcp dport 29501-29509 dnat to %s
      }
      chain out { type nat hook postrouting priority 100;
        oifname "eth0" masquerade
      }
    }"""

    def contain(self, host, outer, inner):
        """Makes a container with the address `inner` of a host that has no address yet."""
        container, machine = f"{PREFIX}{host}", f"{PREFIX}m{host}"
        gateway = inner.rsplit(".", 1)[0] + ".1"
        ip("netns", "add", machine)
        ip("-n", container, "link", "set", "eth0", "netns", machine)
        ip("link", "add", "name", "eth0", "netns", container, "type", "veth",
           "peer", "name", "docker0", "netns", machine)
        for place, nic, address in ((machine, "eth0", outer + "/24"), (container, "eth0", inner + "/16"),
                                    (machine, "docker0", gateway + "/16")):
            ip("-n", place, "addr", "add", address, "dev", nic)
            ip("-n", place, "link", "set", nic, "up")
        ip("-n", container, "route", "add", "default", "via", gateway)
        forward(machine)
        self.filter(f"m{host}", self.TRANSLATION % (outer, inner))

    def test_a_published_port_serves_the_meeting_where_rank_0_reaches_the_others(self):
        self.make_hosts([[]], [["10.91.0.2/24"]], [["10.91.0.3/24"]])
        self.contain(0, "10.91.0.1", "172.17.0.2")
        self.expect_well(self.start("10.91.0.1", "-w", 1, "--iters", 2))

    def test_containers_that_reach_no_other_say_to_use_their_hosts_network(self):
        for inner, words in ((("172.17.0.2", "172.17.0.2"), "both have the address 172.17.0.2"),
                             (("172.17.0.2", "172.18.0.2"), "no two of these are in one network"),
                             ((None, "172.18.0.2"), "no two of these are in one network")):
            with self.subTest(inner):
                down()
                self.make_hosts([["10.91.0.1/24"] if inner[0] is None else []], [[]])
                for host, address in enumerate(inner):
                    if address is not None:
                        self.contain(host, f"10.91.0.{host + 1}", address)
                self.expect_no_start(words + ".*use their hosts' network", "10.91.0.1")


class ProxyTest(ReachCase):
    """A proxy takes the TCP connections and makes its own to where they were meant to go."""

    PORT, MARK = 15001, 1337
    OUTGOING = """table ip mesh {
      chain out { type nat hook output priority -100;
        meta mark 1337 accept
        ip daddr 127.0.0.0/8 accept
        meta l4proto tcp redirect to :15001
      }
    }"""
    ARRIVING = """table ip mesh {
      chain in { type nat hook prerouting priority -100;
        iifname != "lo" meta l4proto tcp redirect to :15001
      }
    }"""

    def start_proxy(self, place):
        proxy = subprocess.Popen(
            ["ip", "netns", "exec", f"{PREFIX}{place}", sys.executable, "-B",
             os.path.join(os.path.dirname(os.path.abspath(__file__)), "redirecting_proxy.py"),
             str(self.PORT), str(self.MARK)], text=True, stdout=subprocess.PIPE)
        self.addCleanup(proxy.communicate)
        self.addCleanup(proxy.kill)
        self.assertEqual(proxy.stdout.readline(), "ready\n")
        return proxy

    def expect_connections(self, proxy):
        proxy.terminate()
        self.assertGreater(int(proxy.stdout.readline()), 0, "the proxy had something to do")

    def test_a_mesh_that_redirects_what_ranks_send_is_named_by_each_of_them(self):
        # A rank dials those above it. So a mesh of the highest rank alone is in the way of none.
        for meshed in ((0, 1, 2), (1,)):
            with self.subTest(meshed):
                down()
                self.make_hosts(*([[f"10.91.0.{host + 1}/24"]] for host in range(3)))
                proxies = [self.start_proxy(host) for host in meshed]
                for host in meshed:
                    self.filter(host, self.OUTGOING)
                self.expect_no_start("(no NIC of rank|no answer from rank).*"
                                     "service mesh.*: exclude r2ccl's ports, or the pods",
                                     "10.91.0.1")
                for host, proxy in zip(meshed, proxies):
                    if host > 0:  # rank 0 meets at home
                        self.expect_connections(proxy)

    def test_a_mesh_that_redirects_what_ranks_receive_serves(self):
        self.make_hosts(*([[f"10.91.0.{host + 1}/24"]] for host in range(2)))
        proxies = [self.start_proxy(host) for host in range(2)]
        for host in range(2):
            self.filter(host, self.ARRIVING)
        self.expect_well(self.start("10.91.0.1", "-w", 1, "--iters", 2))
        for proxy in proxies:
            self.expect_connections(proxy)

    def test_a_mesh_that_comes_and_goes_ends_no_job(self):
        self.make_hosts(*([[f"10.91.0.{host + 1}/24"]] for host in range(3)))
        for host in range(3):
            self.start_proxy(host)
        ranks, folder = self.start_until_told("10.91.0.1")
        for host in range(3):
            self.filter(host, self.OUTGOING)
        time.sleep(4)
        for host in range(3):
            self.filter(host, "delete table ip mesh")
        self.wait_for_operations(folder)
        self.tell_to_end(folder)
        self.expect_well(ranks)

    def test_a_proxy_that_takes_and_ends_connections_is_no_death(self):
        self.make_hosts([["10.91.0.1/24"]], [["10.92.0.1/24"]])
        for host in range(2):
            network = f"10.{91 + host}.0"
            ip("-n", SWITCH, "addr", "add", f"{network}.254/24", "dev", "sw0")
            ip("-n", f"{PREFIX}{host}", "route", "add", "default", "via", f"{network}.254")
        forward(SWITCH)
        proxy = self.start_proxy("sw")
        self.filter("sw", self.ARRIVING)
        ranks, folder = self.start_until_told("10.91.0.1")
        for outage in (lambda: self.plug(1, 0, "down"), lambda: self.plug(1, 0, "up"),
                       lambda: proxy.send_signal(signal.SIGUSR1),
                       lambda: proxy.send_signal(signal.SIGUSR1)):
            outage()
            time.sleep(4)
        self.wait_for_operations(folder)
        self.tell_to_end(folder)
        self.expect_well(ranks)
        self.expect_connections(proxy)


if __name__ == "__main__":
    program.main(__doc__, obstacle)
