#!/usr/bin/env python3
"""Calls that differ between ranks end in a clear error and never in a hang. Needs nothing but the
loopback interface.

usage: mismatch_test.py PATH_OF_R2CCL [unittest arguments]
"""
import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, rank_number, telling

MISMATCH_BOUND_S = 2 + BUSY_S
# If all ranks wait, no message shows the difference: ranks compare their calls only after a while.
STANDSTILL_BOUND_S = 5 + BUSY_S


class MismatchCase(LocalJobCase):
    def run_mismatch(self, calls, code=api.INVALID_USAGE, bound=MISMATCH_BOUND_S):
        """Returns each rank's error, at the latest by the barrier after the call: a rank whose part
        was done when the bytes had left could not know of the difference before."""
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1] * 4096)
            with telling(lines, "told"):
                comm.barrier()  # an error of the ranks that are ahead may end this too
                calls[rank_number()](comm, data)
                comm.barrier()
            lines.say(event="async", code=comm.async_error())
            comm.destroy()
        job = self.start(len(calls), body)
        told = self.hear_all(job, "told")
        for rank, message in told.items():
            with self.subTest(rank=rank):
                self.assertEqual(message["code"], code, message["text"])
                self.assertLess(message["seconds"], bound)
                named = [r for r in range(len(calls)) if f"rank {r} " in message["text"]]
                self.assertEqual(len(named), 2, message["text"])
                self.assertEqual(self.hear(job[rank], "async")["code"], code)
        self.expect_end(job)
        return [message["text"] for message in told.values()]


class MismatchTest(MismatchCase):
    """Calls that differ between ranks: every rank learns in time of the rank and the difference."""

    def test_different_counts(self):
        texts = self.run_mismatch([lambda c, d: c.all_reduce(d, d, 100),
                                   lambda c, d: c.all_reduce(d, d, 200)])
        self.assertTrue(all("100" in t and "200" in t for t in texts), texts)

    def test_different_counts_among_three_ranks(self):
        self.run_mismatch([lambda c, d: c.all_reduce(d, d, 4096),
                           lambda c, d: c.all_reduce(d, d, 4096),
                           lambda c, d: c.all_reduce(d, d, 4095)])

    def test_different_reductions(self):
        texts = self.run_mismatch([lambda c, d: c.all_reduce(d, d, 100, op=api.SUM),
                                   lambda c, d: c.all_reduce(d, d, 100, op=api.MAX)])
        self.assertTrue(all("sum" in t and "max" in t for t in texts), texts)

    def test_different_types(self):
        self.run_mismatch([lambda c, d: c.all_reduce(d, d, 100, api.FLOAT32),
                           lambda c, d: c.all_reduce(d, d, 100, api.INT32)])

    def test_different_collectives(self):
        self.run_mismatch([lambda c, d: c.all_reduce(d, d, 100),
                           lambda c, d: c.broadcast(d, d, 100, 0)])

    def test_different_collectives_among_three_ranks(self):
        # The ranks of one host reduce at rank 0, so both kinds wait for each other.
        self.run_mismatch([lambda c, d: c.all_reduce(d, d, 100),
                           lambda c, d: c.broadcast(d, d, 100, 0),
                           lambda c, d: c.broadcast(d, d, 100, 0)])

    def test_different_roots(self):
        self.run_mismatch([lambda c, d: c.broadcast(d, d, 100, 0),
                           lambda c, d: c.broadcast(d, d, 100, 1)])

    def test_send_and_receive_of_different_counts(self):
        texts = self.run_mismatch([lambda c, d: c.send(d, 100, 1), lambda c, d: c.recv(d, 50, 0)])
        self.assertTrue(all("400 bytes" in t and "200" in t for t in texts), texts)

    def test_a_receive_longer_than_the_send(self):
        self.run_mismatch([lambda c, d: c.send(d, 50, 1), lambda c, d: c.recv(d, 100, 0)])

    def test_ranks_that_wait_for_each_other_in_different_calls(self):
        self.run_mismatch([lambda c, d: c.broadcast(d, d, 100, 1),
                           lambda c, d: c.broadcast(d, d, 100, 0)], bound=STANDSTILL_BOUND_S)

    def run_end(self, calls):
        """Returns the error that finalize gives each rank after calls that all ended well."""
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1] * 4096)
            for call in calls[rank_number()]:
                call(comm, data)
            with telling(lines, "told"):
                comm.finalize()
            comm.destroy()
        job = self.start(len(calls), body)
        told = self.hear_all(job, "told")
        self.expect_end(job)
        for message in told.values():
            self.assertEqual(message["code"], api.INVALID_USAGE, message["text"])
            self.assertLess(message["seconds"], MISMATCH_BOUND_S)
        return [message["text"] for message in told.values()]

    def test_a_difference_that_no_call_waits_for_is_reported_by_finalize(self):
        for text in self.run_end([[lambda c, d: c.broadcast(d, d, 100, 0)],
                                  [lambda c, d: c.broadcast(d, d, 100, 1)]]):
            self.assertIn("from rank 0", text)
            self.assertIn("from rank 1", text)

    def test_a_call_that_one_rank_never_makes_is_told_by_finalize(self):
        for text in self.run_end([[lambda c, d: c.broadcast(d, d, 100, 0)], []]):
            self.assertIn("1 collective", text)
            self.assertIn("0 collectives", text)

    def test_a_send_that_is_never_received_is_told_by_finalize(self):
        send = lambda c, d: c.send(d, 100, 1)
        for text in self.run_end([[send, send], [lambda c, d: c.recv(d, 100, 0)]]):
            self.assertIn("2 Sends", text)
            self.assertIn("1 Recv", text)


if __name__ == "__main__":
    program.main(__doc__)
