#!/usr/bin/env python3
"""The lab works as documented: networks connect, each fault has its effect and no other, fix undoes
it, down leaves nothing. Needs root; prints SKIPPED and exits with 77 where the machine permits no
namespaces.

usage: lab_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import network_lab
import program
from network_lab import NAME, lab

PORT = 7777

# Runs inside a host: answers every datagram on every network and records each one.
ECHO_SERVER = """
import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', %d))
log = open(sys.argv[1], 'a', buffering=1)
print('ready', flush=True)
while True:
    data, peer = s.recvfrom(2048)
    log.write(data.decode() + '\\n')
    s.sendto(data, peer)
""" % PORT
ECHO_SERVER_4 = ECHO_SERVER.replace("AF_INET6", "AF_INET").replace("'::'", "''")

# Sends argv[4] datagrams by one device, and prints the number of answers.
ASK = """
import socket, sys, time
device, address, token, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
answers = 0
for i in range(count):
    try:
        s.sendto(token.encode(), (address, %d))
    except OSError:
        continue
    if count > 1:
        time.sleep(0.001)
s.settimeout(float(sys.argv[5]))
try:
    while answers < count:
        s.recv(2048)
        answers += 1
except OSError:
    pass
print(answers)
""" % PORT

RECEIVE = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], 7778)); s.listen(1)
print('ready', flush=True)
c, _ = s.accept()
n = 0
while True:
    data = c.recv(1 << 16)
    if not data: break
    n += len(data)
print(n, flush=True)
"""

SEND = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], 7778))
start = time.monotonic()
s.sendall(bytes(int(sys.argv[2])))
s.shutdown(socket.SHUT_WR)
s.recv(1)  # the other end has read everything and closed
print(time.monotonic() - start)
"""


def start(*words):
    return subprocess.Popen([program.PATH, "lab", "--name", NAME, *words],
                            stdout=subprocess.PIPE, text=True)


def start_in(host, *command):
    return start("run", host, *command)


def python_in(host, script, *args):
    return lab("run", host, sys.executable, "-c", script, *args).stdout.strip()


def leftovers():
    found = [n for n in os.listdir("/run/netns")] if os.path.isdir("/run/netns") else []
    found = [n for n in found if n.startswith(NAME + "-")]
    return found + ([f"/run/r2ccl-lab/{NAME}"] if os.path.exists(f"/run/r2ccl-lab/{NAME}") else [])


class LabCase(unittest.TestCase):
    """Makes a lab with an echo server in every host."""
    shape = ("2", "2", "250")
    hosts = 2
    ipv6 = False

    def setUp(self):
        lab("up", *self.shape)
        self.addCleanup(lab, "down")
        self.files = tempfile.TemporaryDirectory()
        self.addCleanup(self.files.cleanup)
        self.tokens = 0
        for i in range(self.hosts):
            server = start_in(f"h{i}", sys.executable, "-c",
                              ECHO_SERVER if self.ipv6 else ECHO_SERVER_4, self.log(i))
            self.addCleanup(server.stdout.close)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            self.assertEqual(server.stdout.readline(), "ready\n")

    def log(self, host):
        return os.path.join(self.files.name, f"h{host}")

    def address(self, host, nic):
        subnet = 100 if nic == "mgmt" else nic
        return f"fd77:0:0:{subnet if nic == 'mgmt' else '%x' % nic}::{host + 1:x}" if self.ipv6 \
            else f"10.77.{subnet}.{host + 1}"

    def ask(self, a, b, nic, count=1, patience=1):
        """Sends datagrams from host a to host b by one network, and waits so many seconds for each
        answer. Returns (arrived, answered)."""
        self.tokens += 1
        token = f"t{self.tokens}."
        device = "mgmt" if nic == "mgmt" else f"nic{nic}"
        answered = int(python_in(f"h{a}", ASK, device, self.address(b, nic), token, count, patience))
        with open(self.log(b), encoding="ascii") as log:
            arrived = log.read().split().count(token)
        return arrived, answered

    def assert_connected(self, a, b, nic):
        # The kernel may take a second to notice a carrier that came back.
        deadline = time.monotonic() + program.PATIENCE_S
        while self.ask(a, b, nic)[1] == 0:
            self.assertLess(time.monotonic(), deadline, f"h{a} does not reach h{b} by {nic}")

    def assert_cut(self, a, b, nic):
        self.assertEqual(self.ask(a, b, nic), (0, 0), f"h{a} still reaches h{b} by {nic}")

    def transfer_seconds(self, a, b, nic, count):
        receiver = start_in(f"h{b}", sys.executable, "-c", RECEIVE, self.address(b, nic))
        self.assertEqual(receiver.stdout.readline(), "ready\n")
        seconds = float(python_in(f"h{a}", SEND, self.address(b, nic), count))
        self.assertEqual(receiver.communicate()[0].strip(), str(count))
        return seconds

    def expect_transfer_within(self, bound, a, b, nic, count):
        """A transfer takes no longer, once the machine lets it: one that is shaped never would."""
        deadline = time.monotonic() + program.PATIENCE_S
        while (seconds := self.transfer_seconds(a, b, nic, count)) > bound:
            self.assertLess(time.monotonic(), deadline, f"{seconds} s for {count} bytes")

    def link(self, host, device):
        return json.loads(lab("run", f"h{host}", "ip", "-j", "link", "show", device).stdout)[0]


class ConnectionTest(LabCase):
    def test_every_network_connects_every_pair(self):
        for nic in (0, 1, "mgmt"):
            self.assert_connected(0, 1, nic)
            self.assert_connected(1, 0, nic)

    def test_rails_do_not_reach_each_other(self):
        answered = python_in("h0", ASK, "nic0", self.address(1, 1), "x", 1, 1)
        self.assertEqual(answered, "0")

    def test_nics_are_shaped_in_both_directions(self):
        for a, b in ((0, 1), (1, 0)):
            seconds = self.transfer_seconds(a, b, 0, 5_000_000)
            self.assertGreater(seconds, 0.9 * (5_000_000 - 250_000) * 8 / 250e6)
            self.expect_transfer_within(2, a, b, 0, 5_000_000)

    def test_hosts_have_own_names_shared_memory_and_host_table(self):
        out = lab("run", "h1", "sh", "-c", "hostname; touch /dev/shm/mine; getent hosts h0").stdout
        self.assertEqual(out.split(), ["h1", "10.77.100.1", "h0"])
        self.assertEqual(lab("run", "h0", "ls", "/dev/shm").stdout, "")

    def test_stat_counts_bytes(self):
        self.ask(0, 1, 1, count=100)
        words = lab("stat").stdout.splitlines()[0].split()
        sent, received = words[words.index("nic1") + 1].split("/")
        self.assertGreater(int(sent), 4000)
        self.assertGreater(int(received), 4000)


class FaultTest(LabCase):
    def test_down_takes_the_interface_down(self):
        before = time.monotonic()
        said = lab("fault", "h1", "nic0", "down").stdout
        found = re.fullmatch(r"h1 nic0 is down, at (\d+\.\d+) s of the monotonic clock\n", said)
        self.assertTrue(found, said)
        self.assertTrue(before <= float(found.group(1)) <= time.monotonic(), said)
        self.assertNotIn("UP", self.link(1, "nic0")["flags"])
        self.assert_cut(0, 1, 0)
        self.assert_connected(0, 1, 1)
        self.assertIn("h1 nic0 works again, at ", lab("fix", "h1", "nic0").stdout)
        self.assert_connected(0, 1, 0)

    def test_pull_takes_the_carrier(self):
        lab("fault", "h1", "nic0", "pull")
        self.assertIn("NO-CARRIER", self.link(1, "nic0")["flags"])
        self.assertIn("UP", self.link(1, "nic0")["flags"])
        self.assertNotIn("NO-CARRIER", self.link(0, "nic0")["flags"])
        self.assert_cut(0, 1, 0)
        lab("fix", "h1", "nic0")
        self.assertNotIn("NO-CARRIER", self.link(1, "nic0")["flags"])
        self.assert_connected(0, 1, 0)

    def test_hole_is_silent_both_ways_with_carrier(self):
        self.assert_connected(0, 1, 0)
        lab("fault", "h1", "nic0", "hole")
        self.assertNotIn("NO-CARRIER", self.link(1, "nic0")["flags"])
        self.assert_cut(0, 1, 0)
        self.assert_cut(1, 0, 0)
        self.assert_connected(0, 1, 1)
        lab("fix", "h1", "nic0")
        self.assert_connected(0, 1, 0)

    def test_hole_tx_swallows_only_packets_from_the_host(self):
        self.assert_connected(0, 1, 0)
        lab("fault", "h1", "nic0", "hole-tx")
        self.assertEqual(self.ask(0, 1, 0), (1, 0))
        self.assert_cut(1, 0, 0)
        lab("fix", "h1", "nic0")
        self.assert_connected(0, 1, 0)

    def test_hole_rx_swallows_only_packets_to_the_host(self):
        self.assert_connected(0, 1, 0)
        lab("fault", "h1", "nic0", "hole-rx")
        self.assert_cut(0, 1, 0)
        self.assertEqual(self.ask(1, 0, 0), (1, 0))
        lab("fix", "h1", "nic0")
        self.assert_connected(1, 0, 0)

    def test_slow_limits_the_rate_both_ways_until_fixed(self):
        lab("fault", "h1", "nic0", "slow", "10%")
        for a, b in ((0, 1), (1, 0)):
            seconds = self.transfer_seconds(a, b, 0, 1_000_000)
            self.assertGreater(seconds, 0.9 * (1_000_000 - 130_000) * 8 / 25e6)
        lab("fix", "h1", "nic0")
        self.expect_transfer_within(0.2, 0, 1, 0, 1_000_000)

    def test_lose_drops_the_named_share_both_ways(self):
        self.assert_connected(0, 1, 0)
        lab("fault", "h1", "nic0", "lose", 5)
        lab("fault", "h1", "nic0", "lose", 50)  # replaces the first
        # 400 trials of 1/2: mean 200, standard deviation 10; answers pass twice, mean 100.
        arrived, answered = self.ask(0, 1, 0, count=400)
        self.assertTrue(140 < arrived < 260, arrived)
        self.assertTrue(50 < answered < 150, answered)
        lab("fix", "h1", "nic0")
        self.assertEqual(self.ask(0, 1, 0, count=100, patience=10), (100, 100))

    def test_faults_add_up_and_one_fix_undoes_all(self):
        lab("fault", "h1", "nic0", "hole-tx")
        lab("fault", "h1", "nic0", "hole-rx")
        lab("fault", "h1", "nic0", "slow", 10)
        lab("fault", "h1", "nic0", "pull")
        lab("fix", "h1", "nic0")
        self.assert_connected(0, 1, 0)
        self.expect_transfer_within(0.2, 0, 1, 0, 1_000_000)

    def test_a_rail_fault_cuts_every_host_and_no_other_rail(self):
        for kind in ("down", "hole"):
            with self.subTest(kind=kind):
                lab("fault", "rail1", kind)
                carrier = "NO-CARRIER" not in self.link(0, "nic1")["flags"]
                self.assertEqual(carrier, kind == "hole")
                self.assert_cut(0, 1, 1)
                self.assert_connected(0, 1, 0)
                lab("fix", "rail1")
                self.assert_connected(0, 1, 1)

    def test_the_management_network_can_be_broken_as_a_whole_and_at_one_host(self):
        for target in (["mgmt"], ["h1", "mgmt"]):
            with self.subTest(target=target):
                lab("fault", *target, "hole")
                self.assert_cut(0, 1, "mgmt")
                self.assert_connected(0, 1, 0)
                lab("fix", *target)
                self.assert_connected(0, 1, "mgmt")

    def test_pause_is_a_hole_that_closes_by_itself(self):
        self.assert_connected(0, 1, 0)
        pause = start("pause", "h1", "nic0", "4000")
        self.assertIn("passes nothing on", pause.stdout.readline())
        self.assert_cut(0, 1, 0)
        pause.communicate()
        self.assertEqual(pause.returncode, 0)
        self.assert_connected(0, 1, 0)

    def test_fix_without_a_name_fixes_everything(self):
        lab("fault", "rail0", "hole")
        lab("fault", "h0", "nic1", "down")
        lab("fault", "mgmt", "pull")
        lab("fix")
        for nic in (0, 1, "mgmt"):
            self.assert_connected(0, 1, nic)


class Ipv6Test(LabCase):
    shape = ("2", "2", "250", "--ipv6", "--cc", "bbr")
    ipv6 = True

    def setUp(self):
        with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as names:
            if "bbr" not in names.read():
                self.shape = self.shape[:-2]
        super().setUp()

    def test_every_network_connects(self):
        for nic in (0, 1, "mgmt"):
            self.assert_connected(0, 1, nic)
        self.assertIn("fd77:0:0:100::1", lab("run", "h1", "cat", "/etc/hosts").stdout)

    def test_the_address_comes_back_after_down(self):
        lab("fault", "h1", "nic0", "down")
        self.assertNotIn("fd77", lab("run", "h1", "ip", "addr", "show", "nic0").stdout)
        lab("fix", "h1", "nic0")
        self.assert_connected(0, 1, 0)


class UnequalTest(LabCase):
    shape = ("3", "2", "100", "--nics", "2,1,2", "--rates", "100,h2:nic1=40", "--mtus", "9000,1400")
    hosts = 3

    def test_hosts_differ_as_asked(self):
        devices = [set(lab("run", f"h{i}", "ls", "/sys/class/net").stdout.split()) for i in range(3)]
        self.assertEqual(devices[0], {"lo", "mgmt", "nic0", "nic1"})
        self.assertEqual(devices[1], {"lo", "mgmt", "nic0"})
        self.assertEqual([self.link(0, d)["mtu"] for d in ("nic0", "nic1", "mgmt")],
                         [9000, 1400, 1500])
        seconds = self.transfer_seconds(0, 2, 1, 2_000_000)
        self.assertGreater(seconds, 0.9 * (2_000_000 - 140_000) * 8 / 40e6)
        self.assert_connected(0, 1, 0)


class DemoTest(unittest.TestCase):
    def test_the_demo_breaks_nics_of_its_lab_and_draws_the_run(self):
        self.addCleanup(lab, "down")
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "demo.svg")
            done = program.run("demo", "--name", NAME, "--hosts", 2, "--nics", 2, "--bytes", "256K",
                               "--fault-seconds", 0.5, "--mend-seconds", 0.5, "--svg", picture)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(" 0 wrong.", done.stdout)
            self.assertNotIn("loopback", done.stdout)
            with open(picture, encoding="utf-8") as file:
                self.assertIn("</svg>", file.read())
        self.assertEqual(leftovers(), [])


class LifeTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(lab, "down")

    def test_down_removes_everything_also_running_programs(self):
        lab("up", 2, 1, 100)
        stubborn = start_in("h0", sys.executable, "-c",
                            "import signal, time; signal.signal(15, signal.SIG_IGN);"
                            "print('ready', flush=True); time.sleep(60)")
        self.assertEqual(stubborn.stdout.readline(), "ready\n")
        lab("down")
        self.assertEqual(leftovers(), [])
        self.assertEqual(stubborn.wait(5), -signal.SIGKILL)
        stubborn.stdout.close()
        lab("down")  # a second time succeeds as well

    def test_up_replaces_the_lab(self):
        lab("up", 3, 1, 100)
        lab("up", 2, 1, 100)
        self.assertEqual(len(lab("stat").stdout.splitlines()), 2)
        self.assertEqual(len(leftovers()), 4)  # fabric, h0, h1, state

    def test_a_lab_whose_holder_died_is_refused_and_replaced(self):
        lab("up", 2, 1, 100)
        with open(f"/run/r2ccl-lab/{NAME}/lab.json", encoding="ascii") as state:
            os.kill(json.load(state)["holders"][1], signal.SIGKILL)
        time.sleep(0.1)
        broken = lab("stat", check=False)
        self.assertEqual(broken.returncode, 2)
        self.assertIn("h1 is gone", broken.stderr)
        lab("up", 2, 1, 100)
        lab("stat")

    def test_a_half_made_lab_is_removed(self):
        subprocess.run(["ip", "netns", "add", NAME + "-h7"], check=True)
        lab("down")
        self.assertEqual(leftovers(), [])

    def test_every_verb_refuses_a_name_that_is_a_path_and_touches_no_file(self):
        verbs = (["up", "1", "1", "0"], ["run", "h0", "true"], ["all", "true"],
                 ["fault", "h0", "nic0", "down"], ["fix"], ["pause", "h0", "nic0", "5"], ["stat"],
                 ["down"])
        with tempfile.TemporaryDirectory() as folder:
            files = {"hosts": "127.0.0.1 localhost\n", "lab.json": "{}"}
            for name, text in files.items():
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write(text)
            names = (folder, "../.." + folder, "../../" + folder, "..", ".", "/", "", "a/b", "-x",
                     "a b", "a\nb", "l\u00e4b", "x" * 33)
            for name in names:
                for verb in verbs:
                    option = ["--name=" + name] if name.startswith("-") else ["--name", name]
                    by_option = program.run("lab", *option, *verb)
                    by_variable = program.run("lab", *verb, env={**os.environ, "R2CCL_LAB": name})
                    for done in (by_option, by_variable):
                        self.assertEqual(done.returncode, 2, (name, verb, done))
                        self.assertIn("cannot be a lab's name", done.stderr, (name, verb))
            for name, text in files.items():
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    self.assertEqual(file.read(), text)

    def test_down_removes_only_files_of_the_lab(self):
        folder = f"/run/r2ccl-lab/{NAME}"
        namesake = f"/run/{NAME}"  # /run/sshd would be this for a lab called sshd
        os.mkdir(namesake)
        self.addCleanup(os.rmdir, namesake)
        lab("up", 1, 1, 0)
        foreign = os.path.join(folder, "notes")
        with open(foreign, "w", encoding="ascii"):
            pass
        lab("down")
        self.assertEqual(os.listdir(folder), ["notes"])
        os.remove(foreign)
        lab("down")
        self.assertEqual(leftovers(), [])
        self.assertTrue(os.path.isdir(namesake))

    def test_down_follows_no_link(self):
        lab("up", 1, 1, 0)
        lab("down")
        folder = f"/run/r2ccl-lab/{NAME}"
        with tempfile.TemporaryDirectory() as other:
            with open(os.path.join(other, "hosts"), "w", encoding="ascii"):
                pass
            os.symlink(other, folder)
            self.addCleanup(os.remove, folder)
            self.assertEqual(lab("down", check=False).returncode, 2)
            self.assertEqual(os.listdir(other), ["hosts"])

    def test_all_sets_the_ranks_and_returns_the_worst_status(self):
        lab("up", 2, 1, 100)
        done = lab("all", "--procs", 2, "--prefix", "sh", "-c",
                   "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $HOST; exit $RANK", check=False)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["h0.0: 0 4 0 h0 h0", "h0.1: 1 4 1 h0 h0",
                          "h1.0: 2 4 0 h0 h1", "h1.1: 3 4 1 h0 h1"])

    def test_all_hands_signals_on_to_everything_it_started(self):
        lab("up", 2, 1, 100)
        job = start("all", "sh", "-c", "echo up; sleep 60; :")
        for _ in range(2):
            self.assertEqual(job.stdout.readline(), "up\n")
        job.terminate()
        self.assertEqual(job.stdout.read(), "")  # the grandchildren have closed it too
        self.assertEqual(job.wait(5), 128 + signal.SIGTERM)
        job.stdout.close()

    def test_mistakes_are_named(self):
        lab("up", 2, 2, 100)
        for words, said in (
                (["fault", "h5", "nic0", "down"], "h0 to h1"),
                (["fault", "h0", "nic9", "down"], "nic0 to nic1"),
                (["fault", "rail7", "down"], "rail0 to rail1"),
                (["fault", "h0", "nic0", "explode"], "hole-tx"),
                (["fault", "h0", "nic0", "slow"], "needs Mbit/s"),
                (["fault", "h0", "nic0", "lose", "101"], "needs a percentage"),
                (["run", "h9", "true"], "h0 to h1"),
                (["run", "h0", "no-such-program"], "no-such-program"),
                (["up", "2", "2", "100", "--nics", "1,2,3"], "one number for each"),
                (["up", "2", "2", "100", "--rates", "100,banana"], "banana"),
                (["up", "2", "2", "100", "--cc", "nonsense"], "nonsense")):
            with self.subTest(words=words):
                done = lab(*words, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    program.main(__doc__, network_lab.obstacle)
