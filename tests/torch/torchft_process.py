"""r2ccl under torchft: the group that its manager configures, and the example, with a replica that
dies and comes back. Each test starts processes of its own. All are left out without torchft."""

import importlib.util
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

from processes import LIMIT_S, Processes
from run import ROOT, environment, free_port

NEEDS_TORCHFT = unittest.skipUnless(importlib.util.find_spec("torchft"), "there is no torchft")

GROUP = """
import datetime, sys, threading, time
import torch, torch.distributed as dist, r2ccl
from r2ccl.torchft import ReplicaGroup
torch.set_num_threads(1)
me, size, port = map(int, sys.argv[1:])
store = dist.TCPStore("127.0.0.1", port, is_master=False)

def seconds(bound):
    return datetime.timedelta(seconds=bound)

group = ReplicaGroup(seconds(60))

def configure(quorum, *numbers):
    group.configure(f"127.0.0.1:{port}/torchft/{quorum}/0", f"replica_{me}", numbers.index(me),
                    len(numbers), quorum, 0, 1, list(numbers))

def allreduce(tensor):
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.SUM
    return group.allreduce([tensor], options)

def mine(number):
    return torch.arange(5000) * (number + 1) + number

def expect(*numbers):
    "These processes are the ranks now, and each element of their sums is right."
    assert group.errored() is None, group.errored()
    assert group.size() == len(numbers), group.size()
    wanted = sum(mine(number) for number in numbers)
    for by_future in (False, True, False):
        given = mine(me)
        work = allreduce(given)
        if by_future:
            assert work.get_future().wait()[0] is given
        assert work.wait()
        assert torch.equal(given, wanted), (given, wanted)
    assert group.errored() is None, group.errored()

def expect_quiet(kind):
    "The group has ended with this error. An allreduce does nothing, and other calls raise."
    assert isinstance(group.errored(), kind), repr(group.errored())
    given = mine(me)
    work = allreduce(given)
    assert work.wait() and work.get_future().wait()[0] is given
    assert torch.equal(given, mine(me))
    try:
        group.broadcast_one(given, 0).wait()
    except r2ccl.R2cclError:
        return
    raise AssertionError("no error")

def meet(name, *numbers):
    "These processes have come so far; by default all."
    store.set(f"{name}/{me}", "")
    store.wait([f"{name}/{number}" for number in numbers or range(size)])

def say(word):
    print(word, flush=True)
"""

# The example, in steps that a test can follow. Its arguments follow the three of all bodies.
EXAMPLE = """
import sys, time
import torch.distributed as dist
me, size, port = map(int, sys.argv[1:4])
sys.argv[1:4] = []
store = dist.TCPStore("127.0.0.1", port, is_master=False)
import torchft_ddp
batch_of, seen = torchft_ddp.batch_of, {}

def note(word):
    if word not in seen:
        print(word, flush=True)
    seen[word] = True

def followed(text, step, *others):
    store.set(f"started/{me}", "")
    store.wait([f"started/{number}" for number in range(size)])
    if step >= 10:
        note("works")
    while step >= 100 and not store.check(["killed"]):  # a slow test's kill is not too late
        time.sleep(0.1)
    if store.check(["killed"]):
        if step > seen.setdefault("step of the kill", step) + 1:
            note("goes on")
        if not store.check(["joined"]):  # the replica that comes back finds the others at work
            time.sleep(1)
    return batch_of(text, step, *others)

torchft_ddp.batch_of = followed
torchft_ddp.main()
"""


class Replicas(Processes):
    """Processes whose errors are in files: the manager of torchft fills a pipe."""

    head = GROUP

    def start(self, body, number, size, *options, **variables):
        said = tempfile.TemporaryFile("w+")
        self.addCleanup(said.close)
        process = subprocess.Popen(
            [sys.executable, "-c", self.head + textwrap.dedent(body), str(number), str(size),
             str(self.store.port), *options], env=dict(environment(), **variables),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)
        process.said = said
        self.started.append(process)
        return process

    def errors_of(self, process):
        process.said.seek(0)
        return process.said.read()[-20000:]

    def wait_for(self, process, wanted):
        """Reads the output of the process up to the text, a regular expression. Returns the
        match."""
        watchdog = threading.Timer(LIMIT_S, process.kill)
        watchdog.start()
        try:
            for line in process.stdout:
                found = re.search(wanted, line)
                if found:
                    return found
        finally:
            watchdog.cancel()
        self.fail(f"no line with {wanted!r}:\n" + self.errors_of(process))

    def expect_success(self, process):
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, self.errors_of(process))


@NEEDS_TORCHFT
class GroupTest(Replicas):
    def test_each_quorum_gives_a_group_also_one_of_one_replica(self):
        self.run_all("""
            assert isinstance(group.errored(), r2ccl.R2cclError)
            quorums = [(0, 1, 2), (2, 0), (1, 2, 0), (0,), (0, 2), (2, 1, 0)] * 3
            for quorum, numbers in enumerate(quorums):
                if me in numbers:
                    configure(quorum, *numbers)
                    expect(*numbers)
                    meet(f"had {quorum}", *numbers)  # before one of them goes on, which is an abort
            group.shutdown()
            expect_quiet(r2ccl.R2cclError)
            group.shutdown()
            configure(100, 1, 2, 0)
            expect(1, 2, 0)
            group.shutdown()
        """, 3)

    def test_a_death_in_an_allreduce_is_an_error_of_the_group_and_of_no_call(self):
        body = """
            configure(1, 0, 1, 2)
            expect(0, 1, 2)
            say("works")
            while group.errored() is None:
                assert allreduce(torch.ones(2_000_000)).wait()
            assert group.errored().ranks == (2,), group.errored().ranks
            expect_quiet(r2ccl.RemoteRankError)
            configure(2, 1, 0)
            expect(1, 0)
            group.shutdown()
        """
        processes = [self.start(body, number, 3) for number in range(3)]
        for process in processes:
            self.wait_for(process, "works")
        processes[2].kill()
        for process in processes[:2]:
            self.expect_success(process)

    def test_a_future_has_no_error_and_the_group_has_it(self):
        body = """
            configure(1, 0, 1)
            expect(0, 1)
            if me == 1:
                say("works")
                sys.stdin.readline()
            given = torch.ones(2_000_000)
            assert allreduce(given).get_future().wait()[0] is given
            expect_quiet(r2ccl.RemoteRankError)
            configure(2, 0)
            expect(0)
            group.shutdown()
        """
        processes = [self.start(body, number, 2) for number in range(2)]
        self.wait_for(processes[1], "works")
        processes[1].kill()
        self.expect_success(processes[0])

    def test_a_timeout_ends_the_group_on_all_replicas(self):
        self.run_all("""
            configure(1, 0, 1)
            expect(0, 1)
            if me == 0:
                group.set_timeout(seconds(0.1))
                assert allreduce(torch.ones(3)).wait()
                expect_quiet(r2ccl.WaitTimeoutError)
                group.set_timeout(seconds(60))
            meet("late")
            if me == 1:
                assert allreduce(torch.ones(3)).wait()
                expect_quiet(r2ccl.RemoteRankError)
            configure(2, 1, 0)
            expect(1, 0)
            group.shutdown()
        """, 2)

    def test_a_meeting_that_fails_leaves_no_group_and_the_next_one_works(self):
        self.run_all("""
            group.set_timeout(seconds(0.5))
            configure(1 + me, 0, 1)  # each waits in a quorum of its own
            expect_quiet((r2ccl.R2cclError, dist.DistStoreError))
            group.set_timeout(seconds(60))
            configure(3, 0, 1)
            expect(0, 1)
            group.shutdown()
        """, 2)

    def test_an_abort_ends_the_waits_of_all_and_an_old_error_does_not_hurt_a_new_quorum(self):
        self.run_all("""
            configure(1, 0, 1)
            expect(0, 1)
            if me == 0:
                old = threading.Thread(target=lambda: allreduce(torch.ones(3)).wait())
                old.start()
                while not group.parent.works:
                    time.sleep(0.01)
                configure(2, 0)  # the manager's thread does so while another one waits
                old.join()
                expect(0)
                store.set("gone", "")
            else:
                store.get("gone")
                assert allreduce(torch.ones(3)).wait()
                expect_quiet(r2ccl.RemoteRankError)
            meet("ended")
            configure(3, 1, 0)
            expect(1, 0)
            meet("whole")
            if me == 0:
                group.abort()
                expect_quiet(r2ccl.AbortedError)
            else:
                assert allreduce(torch.ones(3)).wait()
                expect_quiet(r2ccl.RemoteRankError)
            configure(4, 0, 1)
            expect(0, 1)
            group.shutdown()
        """, 2)


@NEEDS_TORCHFT
class ExampleTest(Replicas):
    head = EXAMPLE

    def lighthouse(self):
        """Starts torchft's server. Returns its address."""
        port = free_port()
        self.started.append(subprocess.Popen(
            [str(pathlib.Path(sys.executable).with_name("torchft_lighthouse")), "--min_replicas",
             "2", "--join_timeout_ms", "5000", "--bind", f"[::]:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return f"http://{socket.gethostname()}:{port}"

    def replica(self, number, lighthouse):
        return self.start(
            "", number, 3, "--replica", str(number), "--lighthouse", lighthouse, "--steps", "250",
            "--width", "32", "--layers", "1", "--bucket-mb", "0.01", PYTHONPATH=os.pathsep.join(
                (str(pathlib.Path(ROOT, "examples/pytorch")), environment()["PYTHONPATH"])))

    def test_a_replica_is_killed_the_others_go_on_and_it_comes_back(self):
        lighthouse = self.lighthouse()
        replicas = [self.replica(number, lighthouse) for number in range(3)]
        for replica in replicas:
            self.wait_for(replica, "works")
        replicas[2].kill()
        self.store.set("killed", "")
        for replica in replicas[:2]:
            self.wait_for(replica, "goes on")
        replicas[2] = self.replica(2, lighthouse)
        self.wait_for(replicas[2], "goes on")
        self.store.set("joined", "")
        hashes = {self.wait_for(replica, "weights ([0-9a-f]{16})").group(1) for replica in replicas}
        self.assertEqual(len(hashes), 1)
        for replica in replicas:
            self.expect_success(replica)
