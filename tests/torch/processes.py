"""The base of tests that start processes of their own around a store in the test, which outlives each
of them."""

import subprocess
import sys
import textwrap
import threading
import time
import unittest

import torch.distributed as dist

from run import environment

LIMIT_S = 200  # of a wait, for a busy machine


class Processes(unittest.TestCase):
    head = ""  # what each process runs before the body of its test

    def setUp(self):
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.started = []

    def tearDown(self):
        for process in self.started:
            process.kill()
            process.communicate()

    def start(self, body, number, size):
        """Starts a process whose arguments are the two numbers and the port of the store."""
        process = subprocess.Popen(
            [sys.executable, "-c", self.head + textwrap.dedent(body), str(number), str(size),
             str(self.store.port)],
            env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def run_all(self, body, size):
        self.expect_all([self.start(body, number, size) for number in range(size)])

    def expect_all(self, processes):
        """All end well. The others may wait for one that has failed, so its error comes first."""
        deadline = time.monotonic() + LIMIT_S
        while (any(process.poll() is None for process in processes)
               and not any(process.poll() for process in processes)
               and time.monotonic() < deadline):
            time.sleep(0.05)
        for process in sorted(processes, key=lambda each: not each.poll()):
            self.expect_success(process)

    def expect_success(self, process):
        _, error = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, error)

    def expect_line(self, process, wanted):
        watchdog = threading.Timer(LIMIT_S, process.kill)
        watchdog.start()
        line = process.stdout.readline().strip()
        watchdog.cancel()
        self.assertEqual(line, wanted, process.stderr.read() if line == "" else "")

    def tell(self, process, line="go"):
        process.stdin.write(line + "\n")
        process.stdin.flush()
