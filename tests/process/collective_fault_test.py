#!/usr/bin/env python3
"""Every collective, type and reduction under every fault of the lab, on real sockets: no element is
wrong, no rank fails and no operation hangs. Prints a JSON line for each combination;
`scripts/coverage_table.py --lab FILE` makes a table from them. Prints SKIPPED and exits with 77 where
the machine permits no namespaces.

usage: collective_fault_test.py PATH_OF_R2CCL PATH_OF_COLLECTIVE_ROUNDS [unittest arguments]
"""
import collections
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import network_lab
import program
from network_lab import lab

HOSTS, NICS, MBIT = 4, 2, 250
COLLECTIVES = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather",
               "scatter", "alltoall", "sendrecv", "tagged")
TYPES = ("bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint32", "uint64",
         "uint8")
# The names that the program prints: those of nccl-tests.
TYPE_NAMES = {"half": "float16", "float": "float32", "double": "float64"}
NIC, RAIL, MANAGEMENT = "a NIC", "a rail", "the management network"
# The target, the kind of its fault and the amount. Each collective meets each of them, on changing NICs.
FAULTS = ((NIC, "down"), (NIC, "pull"), (NIC, "hole"), (NIC, "hole-tx"), (NIC, "hole-rx"),
          (NIC, "slow", "10%"), (NIC, "lose", "2"), (RAIL, "hole"), (RAIL, "pull"), (RAIL, "down"),
          (MANAGEMENT, "hole"), (MANAGEMENT, "pull"))
ROUNDS_UNDER_FAULT = 2
CARRIES_BYTES = 200_000  # more than probes and handshakes
ROUNDS_PROGRAM = None


def name_of(fault):
    target, kind, *_ = fault
    return kind if target == NIC else f"{kind} of {target}"


class Job:
    """The ranks, one on each host, and the operations that rank 0 has printed."""

    def __init__(self, directory):
        self.wanted = os.path.join(directory, "wanted")
        self.output = os.path.join(directory, "output")
        self.file = open(self.output, "wb")
        self.operations = []
        self.read = 0
        self.want(COLLECTIVES[0])
        self.process = subprocess.Popen(
            [program.PATH, "lab", "all", "--name", network_lab.NAME, ROUNDS_PROGRAM, self.wanted],
            # Rests between returns would cost the test minutes.
            env=dict(os.environ, R2CCL_SOCKET_IFNAME="nic", R2CCL_DAMPING="0"),
            stdout=self.file, stderr=subprocess.STDOUT)

    def want(self, collective):
        with open(self.wanted + ".new", "w", encoding="utf-8") as file:
            file.write(collective)
        os.rename(self.wanted + ".new", self.wanted)

    def text(self):
        with open(self.output, encoding="utf-8") as output:
            return output.read()

    def poll(self):
        """Reads the whole lines that are new; returns all operations."""
        with open(self.output, "rb") as output:
            output.seek(self.read)
            whole, newline, _ = output.read().rpartition(b"\n")
        self.read += len(whole) + len(newline)
        for line in whole.decode().splitlines():
            if line.startswith("{"):
                operation = json.loads(line)
                operation["type"] = TYPE_NAMES.get(operation["type"], operation["type"])
                self.operations.append(operation)
        return self.operations

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        self.file.close()


def key(operation):
    return operation["collective"], operation["type"], operation["op"]


class CollectiveFaultTest(unittest.TestCase):
    def setUp(self):
        lab("up", HOSTS, NICS, MBIT)
        self.addCleanup(lab, "down")
        with open(f"/run/r2ccl-lab/{network_lab.NAME}/lab.json", encoding="utf-8") as state:
            self.holders = json.load(state)["holders"]
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.job = Job(files.name)
        self.addCleanup(self.job.stop)
        self.found = collections.defaultdict(lambda: {"operations": 0, "checked": 0, "wrong": 0})

    def wait(self, holds, what):
        deadline = time.monotonic() + program.PATIENCE_S
        while not holds():
            self.assertIsNone(self.job.process.poll(),
                              f"the job ended before {what}: {self.job.text()[-2000:]}")
            self.assertLess(time.monotonic(), deadline, f"not within {program.PATIENCE_S} s: {what}")
            time.sleep(0.02)

    def bytes_of(self, host, nic):
        """Returns the bytes that the NIC received and sent."""
        with open(f"/proc/{self.holders[host]}/net/dev", encoding="utf-8") as lines:
            for line in lines:
                name, _, counts = line.partition(":")
                if name.strip() == f"nic{nic}":
                    words = counts.split()
                    return int(words[0]), int(words[8])
        raise AssertionError(f"h{host} has no nic{nic}")

    def expect_all_carry(self, when):
        """Each NIC of each host carries bytes both ways."""
        before = {each: self.bytes_of(*each)
                  for each in itertools.product(range(HOSTS), range(NICS))}
        for each, (received, sent) in before.items():
            def carries(each=each, received=received, sent=sent):
                now = self.bytes_of(*each)
                return min(now[0] - received, now[1] - sent) > CARRIES_BYTES
            self.wait(carries, f"h{each[0]} nic{each[1]} carries bytes {when}")

    def rounds_since(self, collective, moment):
        """Returns how often each of the collective's types and reductions has begun since then, and
        ended."""
        return collections.Counter(key(each) for each in self.job.poll()
                                   if each["collective"] == collective and
                                   each["begin"] >= moment)

    def strike(self, collective, fault, turn):
        """Breaks something until each of the collective's types and reductions has run twice. Counts
        all operations that overlap with the fault."""
        target, *kind = fault
        host, nic = turn % HOSTS, turn // HOSTS % NICS
        words = {NIC: (f"h{host}", f"nic{nic}"), RAIL: (f"rail{nic}",),
                 MANAGEMENT: ("mgmt",)}[target]
        everything = self.rounds_since(collective, 0)
        begin = float(lab("fault", *words, *kind).stdout.partition(", at ")[2].split()[0])

        def all_ran():
            counts = self.rounds_since(collective, begin)
            return all(counts[each] >= ROUNDS_UNDER_FAULT for each in everything)
        self.wait(all_ran, f"{collective} under {name_of(fault)} of {' '.join(words)}")
        end = time.monotonic()
        lab("fix", *words)
        for operation in self.job.poll():
            if operation["end"] > begin and operation["begin"] < end:
                self.count(operation, name_of(fault))

    def count(self, operation, fault):
        entry = self.found[(*key(operation), fault)]
        entry["operations"] += 1
        entry["checked"] += operation["checked"]
        entry["wrong"] += operation["wrong"]

    def report(self, wanted):
        for (collective, datatype, op, fault), counts in self.found.items():
            if collective == wanted:
                print(json.dumps({"collective": collective, "type": datatype, "op": op,
                                  "fault": fault, **counts}), flush=True)

    def test_no_element_is_wrong_under_any_fault(self):
        turns = itertools.count()
        for collective in COLLECTIVES:
            self.job.want(collective)
            begin = time.monotonic()
            self.wait(lambda: max(self.rounds_since(collective, begin).values(), default=0) >= 2,
                      f"{collective} runs")
            for fault in FAULTS:
                self.expect_all_carry(f"before {name_of(fault)}, {collective}")
                self.strike(collective, fault, next(turns))
            self.report(collective)
        self.job.want("end")
        self.assertEqual(self.job.process.wait(program.PATIENCE_S), 0, self.job.text()[-2000:])
        wrong = [each for each in self.job.poll() if each["wrong"]]
        self.assertEqual(wrong, [])
        self.assertEqual(
            {(collective, datatype, fault) for collective, datatype, _, fault in self.found},
            set(itertools.product(COLLECTIVES, TYPES, map(name_of, FAULTS))))
        self.assertTrue(all(each["checked"] for each in self.found.values()))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        ROUNDS_PROGRAM = os.path.abspath(sys.argv.pop(2))
    program.main(__doc__, network_lab.obstacle)
