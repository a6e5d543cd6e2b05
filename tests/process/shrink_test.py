#!/usr/bin/env python3
"""A job that goes on without the ranks that are killed: r2cclCommShrink after kill -9, with real
processes. Needs nothing but the loopback interface.

usage: shrink_test.py PATH_OF_R2CCL [unittest arguments]
"""
import os
import signal
import time
import unittest

import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, rank_number, telling

COUNT = 50_000


class Survivor:
    """A rank that runs AllReduces, checks each element, and goes on without the dead."""

    def __init__(self, lib, lines):
        self.lines = lines
        self.comm = api.Comm.from_environment(lib)
        self.members = list(range(self.comm.size()))  # their first numbers
        self.rounds = 0

    def value(self, member, i):
        return (member + 1) * 1000 + self.rounds % 7 + i % 89

    def reduce(self):
        own = self.members[self.comm.rank()]
        data = api.buffer(api.INT32, (self.value(own, i) for i in range(COUNT)))
        self.comm.all_reduce(data, data, COUNT, datatype=api.INT32)
        for i in range(0, COUNT):
            if data[i] != sum(self.value(member, i) for member in self.members):
                self.lines.say(event="wrong", at=i, round=self.rounds)
                raise SystemExit(1)
        self.rounds += 1

    def go_on(self):
        """Makes a communicator without the dead, however many die meanwhile."""
        excluded = set(self.comm.ranks_at_fault())
        while True:
            began = time.monotonic()
            try:
                left = self.comm.shrink(sorted(excluded))
            except api.R2cclError as error:
                # Others may have seen another death first.
                assert error.code == api.REMOTE or "lists" in error.text, error
                excluded.update(api.Comm(self.comm.lib, None).ranks_at_fault())
                continue
            seconds = time.monotonic() - began
            self.members = [each for i, each in enumerate(self.members) if i not in excluded]
            self.comm.destroy()
            self.comm = left
            # A call that a death ends may have completed on some ranks, which count it. From here
            # on all count alike.
            self.rounds = 100 * len(self.members)
            return seconds

    def run(self, least):
        """Runs until so few ranks are left, and then three rounds."""
        while len(self.members) > least:
            try:
                while True:
                    self.reduce()
                    if self.rounds == 1:
                        self.lines.say(event="started")
            except api.R2cclError as error:
                if error.code != api.REMOTE:
                    raise
            seconds = self.go_on()
            self.lines.say(event="went_on", members=self.members, seconds=seconds)
        for _ in range(3):
            self.reduce()
        with telling(self.lines, "destroyed"):
            self.comm.destroy()


class ShrinkTest(LocalJobCase):
    def run_job(self, ranks, least):
        return self.start(ranks, lambda lib, lines: Survivor(lib, lines).run(least))

    def expect_members(self, job, members):
        for rank, told in self.hear_all(job, "went_on").items():
            self.assertEqual(told["members"], members, f"rank {rank}")

    def expect_orderly_end(self, job):
        for message in self.hear_all(job, "destroyed").values():
            self.assert_ok(message)
        self.expect_end(job)

    def test_a_job_goes_on_until_one_rank_is_left(self):
        job = self.run_job(4, 1)
        self.hear_all(job, "started")
        members = [0, 1, 2, 3]
        for victim in (2, 0, 3):
            time.sleep(0.2)  # into the middle of an operation
            job.pop(victim).kill()
            members.remove(victim)
            self.expect_members(job, members)
        self.expect_orderly_end(job)

    def test_two_ranks_die_at_once(self):
        job = self.run_job(5, 3)
        self.hear_all(job, "started")
        time.sleep(0.2)
        for victim in (0, 3):
            job.pop(victim).kill()
        deadline = time.monotonic() + BUSY_S + 60
        left = dict(job)
        while left and time.monotonic() < deadline:  # in one step, or one after the other
            for rank in list(left):
                if self.hear(left[rank], "went_on")["members"] == [1, 2, 4]:
                    del left[rank]
        self.assertEqual(left, {})
        self.expect_orderly_end(job)

    def test_a_rank_dies_while_the_others_go_on(self):
        """The second one is killed a little later, in another place of the others' agreement."""
        for pause in (0.0, 0.002, 0.01, 0.05):
            with self.subTest(pause=pause):
                job = self.run_job(4, 2)
                self.hear_all(job, "started")
                job.pop(3).kill()
                time.sleep(pause)
                job.pop(0).kill()
                left = dict(job)
                while left:
                    for rank in list(left):
                        if self.hear(left[rank], "went_on")["members"] == [1, 2]:
                            del left[rank]
                self.expect_orderly_end(job)

    def test_a_stopped_rank_is_waited_for(self):
        job = self.run_job(3, 2)
        self.hear_all(job, "started")
        job[1].kill(signal.SIGSTOP)
        job.pop(2).kill()
        time.sleep(3)
        job[1].kill(signal.SIGCONT)
        self.expect_members(job, [0, 1])
        self.expect_orderly_end(job)

    def test_a_revoked_communicator_ends_on_all_and_shrinks(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.INT32, range(COUNT))
            with telling(lines, "revoked"):
                if rank_number() == 1:
                    comm.revoke()
                comm.all_reduce(data, data, COUNT, datatype=api.INT32)
            lines.say(event="named", ranks=comm.ranks_at_fault())
            with telling(lines, "shrunk"):
                left = comm.shrink([])
            data = api.buffer(api.INT32, range(COUNT))
            left.all_reduce(data, data, COUNT, datatype=api.INT32)
            assert list(data) == [3 * i for i in range(COUNT)]
            comm.destroy()
            with telling(lines, "destroyed"):
                left.destroy()

        job = self.start(3, body)
        for rank, message in self.hear_all(job, "revoked").items():
            self.assertEqual(message["code"], api.ABORTED if rank == 1 else api.REMOTE)
            self.assertIn("r2cclCommRevoke", message["text"])
        for message in self.hear_all(job, "named").values():
            self.assertEqual(message["ranks"], [])  # nobody is to be excluded
        for message in self.hear_all(job, "shrunk").values():
            self.assert_ok(message)
        self.expect_orderly_end(job)

    def expect_exclusion(self, process):
        """It neither makes a communicator of its own, nor is led to."""
        told = self.hear(process, "excluded")
        self.assertEqual(told["code"], api.REMOTE, told["text"])
        self.assertIn("without this rank", told["text"])
        self.assertEqual(self.hear(process, "named")["ranks"], [])

    def test_an_excluded_rank_ends_alone(self):
        """It neither dies nor calls. Its destroy and that of the others do not wait."""
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            if rank_number() == 2:
                lines.hear()
                with telling(lines, "excluded"):
                    comm.shrink([])
                lines.say(event="named", ranks=api.Comm(lib, None).ranks_at_fault())
                with telling(lines, "destroyed"):
                    comm.destroy()
                return
            left = comm.shrink([2])
            left.barrier()
            lines.say(event="shrunk")
            lines.hear()
            with telling(lines, "destroyed"):
                comm.destroy()
                left.destroy()

        for first in ([2], [0, 1]):
            with self.subTest(first=first):
                job = self.start(3, body)
                self.hear_all({0: job[0], 1: job[1]}, "shrunk")
                for group in (first, [rank for rank in job if rank not in first]):
                    those = {rank: job[rank] for rank in group}
                    self.tell_all(those, go=True)
                    if group == [2]:
                        self.expect_exclusion(job[2])
                    for message in self.hear_all(those, "destroyed").values():
                        self.assert_ok(message)
                        self.assertLess(message["seconds"], 5 + BUSY_S)
                self.expect_end(job)

    def test_an_excluded_rank_takes_the_end_of_the_others_for_no_death(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            if rank_number() == 2:
                with telling(lines, "received"):
                    comm.recv(api.buffer(api.INT32, [0]), 1, 0, datatype=api.INT32)
                return comm.destroy()
            left = comm.shrink([2])
            left.barrier()
            left.destroy()
            return comm.destroy()

        job = self.start(3, body)
        message = self.hear(job[2], "received")
        self.assertEqual(message["code"], api.REMOTE)
        self.assertIn("has left", message["text"])
        self.expect_end(job)

    def test_wrong_arguments(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            for excluded, words in (([0, 1, 2][:rank_number() + 1], "has this rank"),
                                    ([7], "must be 0 to 2"), ([-1], "must be 0 to 2"),
                                    ([(rank_number() + 1) % 3] * 2, "twice")):
                try:
                    comm.shrink(excluded)
                    lines.say(event="wrong", text=f"{excluded} was taken")
                except api.R2cclError as error:
                    if error.code != api.INVALID_ARGUMENT or words not in error.text:
                        lines.say(event="wrong", text=error.text)
            try:
                comm.shrink([], flags=7)
            except api.R2cclError as error:
                assert "shrinkFlags" in error.text, error.text
            comm.barrier()
            with telling(lines, "destroyed"):
                comm.destroy()

        self.expect_orderly_end(self.start(3, body))


if __name__ == "__main__":
    program.main(__doc__)
