#!/usr/bin/env python3
"""A job whose dead ranks are replaced: r2cclCommShrink and r2cclCommGrow, with real processes. Needs
nothing but the loopback interface.

usage: grow_test.py PATH_OF_R2CCL [unittest arguments]
"""
import os
import time
import unittest

import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, rank_number, telling

COUNT = 20_000


def expect_sum(comm, numbers):
    """Adds the numbers of the members, in each of which the elements differ."""
    own = numbers[comm.rank()]
    data = api.buffer(api.INT32, ((own + 1) * 1000 + i for i in range(COUNT)))
    comm.all_reduce(data, data, COUNT, datatype=api.INT32)
    right = sum((number + 1) * 1000 for number in numbers)
    for i in range(COUNT):
        assert data[i] == right + len(numbers) * i, (i, data[i])


class GrowTest(LocalJobCase):
    def finish(self, job):
        for message in self.hear_all(job, "destroyed").values():
            self.assert_ok(message)
        self.expect_end(job)

    def test_a_killed_rank_is_replaced_three_times(self):
        def member(lib, lines):
            comm, numbers = api.Comm.from_environment(lib), [0, 1, 2]
            expect_sum(comm, numbers)
            lines.say(event="up")
            for life in range(3):
                try:
                    while True:
                        expect_sum(comm, numbers)
                except api.R2cclError as error:
                    assert error.code == api.REMOTE, error
                left = comm.shrink(comm.ranks_at_fault())
                comm.destroy()
                made = left.unique_id() if left.rank() == 0 else None
                if made is not None:
                    lines.say(event="id", id=made.hex())
                comm, numbers = left.grow(3, made), [0, 1, 10 + life]
                expect_sum(comm, numbers)
                left.destroy()
                lines.say(event="whole")
            expect_sum(comm, numbers)
            lines.hear()
            with telling(lines, "destroyed"):
                comm.destroy()

        def replacement(lib, lines):
            told = lines.hear()
            comm = api.Comm.join(lib, 3, bytes.fromhex(told["id"]), 2)
            numbers = [0, 1, 10 + told["life"]]
            expect_sum(comm, numbers)
            lines.say(event="whole")
            try:
                for _ in range(1 if told["life"] == 2 else 10 ** 9):
                    expect_sum(comm, numbers)
            except api.R2cclError:
                os._exit(1)
            lines.hear()
            with telling(lines, "destroyed"):
                comm.destroy()

        job = self.start(3, member)
        self.hear_all(job, "up")
        for life in range(3):
            time.sleep(0.2)
            job.pop(2).kill()
            job[2] = self.start(3, replacement, ranks=[2])[2]
            job[2].lines.say(id=self.hear(job[0], "id")["id"], life=life)
            for rank in (0, 1):
                self.hear(job[rank], "whole")
            self.hear(job[2], "whole")
        for process in job.values():
            process.lines.say(end=True)
        self.finish(job)

    def test_two_processes_join_and_the_old_communicator_goes_on(self):
        def member(lib, lines):
            comm = api.Comm.from_environment(lib)
            made = comm.unique_id() if rank_number() == 1 else None
            if made is not None:
                lines.say(event="id", id=made.hex())
            grown = comm.grow(4, made, name=b"grown")
            expect_sum(grown, [0, 1, 2, 3])
            expect_sum(comm, [0, 1])
            comm.destroy()
            expect_sum(grown, [0, 1, 2, 3])
            with telling(lines, "destroyed"):
                grown.destroy()

        def newcomer(lib, lines):
            grown = api.Comm.join(lib, 4, bytes.fromhex(lines.hear()["id"]), rank_number())
            expect_sum(grown, [0, 1, 2, 3])
            expect_sum(grown, [0, 1, 2, 3])
            with telling(lines, "destroyed"):
                grown.destroy()

        job = self.start(2, member)
        others = self.start(4, newcomer, ranks=[2, 3])
        made = self.hear(job[1], "id")["id"]
        self.tell_all(others, id=made)
        self.finish(job | others)

    def test_processes_that_know_their_handles_meet_over_a_channel_of_strangers(self):
        def member(lib, lines):
            lines.say(event="handle", text=api.process_handle(lib).decode())
            handles = [each.encode() for each in lines.hear()["handles"]]
            rank = api.place_of_process(lib, handles)
            if rank == 0:
                lines.say(event="sealed", ids=[each.hex() for each in
                                               api.sealed_ids(lib, handles)])
            sealed = [bytes.fromhex(each) for each in lines.hear()["ids"]]
            changed = bytes([sealed[rank][0] ^ 1]) + sealed[rank][1:]
            for given, readers, purpose, wrong in (
                    (sealed[1 - rank], handles, b"test", "not sealed"),  # also its own for another
                    (sealed[rank], handles[::-1], b"test", "not sealed"),
                    (sealed[1 - rank], handles[::-1], b"test", "not sealed"),
                    (sealed[rank], handles, b"another", "not sealed"),
                    (changed, handles, b"test", "not sealed"),
                    (sealed[rank], [b"gloo:1"], b"test", "no handle")):
                try:
                    api.open_sealed_id(lib, given, readers, purpose)
                    lines.say(event="opened", text=wrong)
                except api.R2cclError as error:
                    if wrong not in error.text:
                        lines.say(event="opened", text=error.text)
            identity = api.open_sealed_id(lib, sealed[rank], handles)
            comm = api.Comm.from_id(lib, identity, 2, rank, trusted_id=1)
            expect_sum(comm, [0, 1])
            with telling(lines, "destroyed"):
                comm.destroy()

        # The last rank is the first of the list: nothing depends on the launcher's numbers.
        job = self.start(2, member, {"R2CCL_REQUIRE_AUTH": "1", "R2CCL_SECRET": ""})
        handles = [self.hear(job[rank], "handle")["text"] for rank in (1, 0)]
        self.tell_all(job, handles=handles)
        self.tell_all(job, ids=self.hear(job[1], "sealed")["ids"])
        self.finish(job)

    def test_bad_lists_of_handles_are_named(self):
        def body(lib, lines):
            own = api.process_handle(lib)
            other = own[:-64] + b"0" * 63 + b"9"
            weak = own[:-64] + b"0" * 64
            for call, words in (
                    (lambda: api.place_of_process(lib, []), "1 to"),
                    (lambda: api.place_of_process(lib, [None]), "is NULL"),
                    (lambda: api.place_of_process(lib, [own, own]), "two handles"),
                    (lambda: api.place_of_process(lib, [other]), "not in the list"),
                    (lambda: api.place_of_process(lib, [own, b"x" * 1000]), "is no handle"),
                    (lambda: api.sealed_ids(lib, [own, b"\x1b[2J"]), "is no handle"),
                    (lambda: api.sealed_ids(lib, [other, own]), "not the first"),
                    (lambda: api.sealed_ids(lib, [own, weak]), "that no process makes")):
                try:
                    call()
                    lines.say(event="wrong", text=words)
                except api.R2cclError as error:
                    if error.code != api.INVALID_ARGUMENT or words not in error.text:
                        lines.say(event="wrong", text=f"{words}: {error.text}")

        self.expect_end(self.start(1, body))

    def test_wrong_calls_are_errors_on_all_ranks(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            rank, made = rank_number(), comm.unique_id()
            foreign = api.unique_id(lib)

            def expect(words, code, count, id_bytes):
                try:
                    comm.grow(count, id_bytes)
                    lines.say(event="wrong", text=f"{words}: taken")
                except api.R2cclError as error:
                    if error.code not in code or not any(each in error.text for each in words):
                        lines.say(event="wrong", text=f"{words}: {error.code} {error.text}")

            bad, remote = api.INVALID_ARGUMENT, api.REMOTE
            expect(["it must be more", "rank 1 called"], [bad, remote], 3 - 2 * rank, None)
            expect(["0 ranks have given"], [api.INVALID_USAGE], 3, None)
            expect(["2 ranks have given"], [api.INVALID_USAGE], 3, made)
            expect(["nRanks differs"], [api.INVALID_USAGE], 3 + rank, None if rank else made)
            expect(["not of this communicator", "rank 0 called"], [bad, remote], 3,
                   None if rank else foreign)
            expect_sum(comm, [0, 1])  # it goes on
            for count, id_bytes, number, words in ((3, None, 2, "are NULL"), (3, bytes(128), 2, ""),
                                                   (3, made, 3, "rank")):
                try:
                    api.Comm.join(lib, count, id_bytes, number)
                    lines.say(event="wrong", text="joined")
                except api.R2cclError as error:
                    if error.code != bad or words not in error.text:
                        lines.say(event="wrong", text=error.text)
            with telling(lines, "destroyed"):
                comm.destroy()

        self.finish(self.start(2, body))

    def test_a_newcomer_that_never_comes_is_named(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            made = comm.unique_id() if rank_number() == 0 else None
            with telling(lines, "late"):
                comm.grow(3, made, init_timeout_ms=2000)
            expect_sum(comm, [0, 1])
            with telling(lines, "destroyed"):
                comm.destroy()

        job = self.start(2, body)
        for message in self.hear_all(job, "late").values():
            self.assertEqual(message["code"], api.TIMEOUT, message["text"])
            self.assertIn("2", message["text"])
            self.assertLess(message["seconds"], 10 + BUSY_S)
        self.finish(job)

    def test_a_member_that_dies_meanwhile_is_named(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            made = comm.unique_id() if rank_number() == 0 else None
            lines.say(event="up")
            if rank_number() == 2:
                time.sleep(600)
            with telling(lines, "failed"):
                comm.grow(4, made)
            with telling(lines, "destroyed"):
                comm.destroy()

        job = self.start(3, body)
        self.hear_all(job, "up")
        job.pop(2).kill()
        for message in self.hear_all(job, "failed").values():
            self.assertEqual(message["code"], api.REMOTE, message["text"])
            self.assertIn("rank 2", message["text"])
        self.finish(job)


if __name__ == "__main__":
    program.main(__doc__)
