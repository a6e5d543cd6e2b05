#!/usr/bin/env python3
"""Every collective, type and reduction against a reference computed here, for 1 to 5 ranks, in
place and out of place. Needs nothing but the loopback interface.

usage: collective_test.py PATH_OF_R2CCL [unittest arguments]
"""
import functools
import json
import math
import os
import unittest

import program
import r2ccl_api as api
from local_job import LocalJobCase, NICS, rank_number

RANKS_MAX = 5
# Zero, one, fewer than ranks, no multiple of anything, and several chunks on several paths.
COUNTS = (0, 1, 3, 1003, 40_001)
INTEGERS = (api.INT8, api.UINT8, api.INT32, api.UINT32, api.INT64, api.UINT64)
# tests/job/reductions_test.cc has the 16-bit floating-point types.
TYPES = INTEGERS + (api.FLOAT32, api.FLOAT64)
BITWISE = (api.BAND, api.BOR, api.BXOR)
OPS = (api.SUM, api.PROD, api.MAX, api.MIN, api.AVG) + BITWISE
FOLDS = {api.SUM: lambda a, b: a + b, api.PROD: lambda a, b: a * b, api.MAX: max, api.MIN: min,
         api.BAND: lambda a, b: a & b, api.BOR: lambda a, b: a | b, api.BXOR: lambda a, b: a ^ b}


def stored(datatype, values):
    """Returns the values as the type holds them: integers wrap."""
    return list(api.buffer(datatype, values))


def inputs(rank, count, datatype=api.FLOAT64, op=api.SUM):
    """Returns values that differ by rank and element, with both signs; reductions of five are
    exact in every type."""
    spread = 15 if op == api.PROD else 2001
    return stored(datatype, [((i * 7919 + rank * 104_729) % spread) - spread // 2
                             for i in range(count)])


def reference(op, datatype, columns):
    """Returns the values that the ranks must hold, given each rank's input."""
    fold = FOLDS[api.SUM if op == api.AVG else op]
    folded = stored(datatype, [functools.reduce(fold, values) for values in zip(*columns)])
    if op != api.AVG:
        return folded
    if datatype in INTEGERS:
        return [s // len(columns) if s >= 0 else -(-s // len(columns)) for s in folded]
    return stored(datatype, [s / len(columns) for s in folded])


def rank_of_size():
    return rank_number(), int(os.environ["WORLD_SIZE"])


def check_all_reduce(comm, rank, size, wrong):
    checked = 0
    for count in COUNTS:
        # The long count covers the code paths of the transport, for which one type and reduction
        # suffice.
        cases = [(t, o) for t in TYPES for o in OPS if t in INTEGERS or o not in BITWISE] \
            if count < 10_000 else [(api.FLOAT32, api.SUM), (api.INT64, api.AVG)]
        for datatype, op in cases:
            columns = [inputs(r, count, datatype, op) for r in range(size)]
            right = reference(op, datatype, columns)
            send = api.buffer(datatype, columns[rank])
            out = api.buffer(datatype, [77] * count)
            comm.all_reduce(send, out, count, datatype, op)
            if list(out) != right:
                wrong.append(f"all_reduce type {datatype} op {op} count {count}")
            if list(send) != columns[rank]:
                wrong.append(f"all_reduce type {datatype} op {op} count {count} wrote its input")
            comm.all_reduce(send, send, count, datatype, op)
            if list(send) != right:
                wrong.append(f"all_reduce in place type {datatype} op {op} count {count}")
            checked += 2
    return checked


def check_broadcast(comm, rank, size, wrong):
    for count in COUNTS:
        for root in range(size):
            datatype = TYPES[(count + root) % len(TYPES)]
            right = inputs(root, count, datatype)
            send = api.buffer(datatype, right) if rank == root else None
            out = api.buffer(datatype, [77] * count)
            comm.broadcast(send, out, count, root, datatype)
            in_place = api.buffer(datatype, right if rank == root else [77] * count)
            comm.broadcast(in_place, in_place, count, root, datatype)
            if list(out) != right or list(in_place) != right:
                wrong.append(f"broadcast type {datatype} root {root} count {count}")


def check_pairs(comm, rank, size, wrong):
    """Every rank sends to every rank, also to itself, all at the same time, messages of all
    sizes."""
    for count in COUNTS:
        requests, received = [], []
        for peer in range(size):
            out = api.buffer(api.FLOAT64, [77] * count)
            received.append((peer, out))
            requests.append(comm.recv(out, count, peer, api.FLOAT64, wait=False))
        for peer in range(size):
            data = api.buffer(api.FLOAT64, inputs(rank * RANKS_MAX + peer, count))
            requests.append(comm.send(data, count, peer, api.FLOAT64, wait=False))
        for request in requests:
            request.wait(20_000)
        for peer, out in received:
            if list(out) != inputs(peer * RANKS_MAX + rank, count):
                wrong.append(f"send from {peer} to {rank} count {count}")


class ReferenceTest(LocalJobCase):
    def test_results_equal_the_reference_for_one_to_five_ranks(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            rank, size = rank_of_size()
            wrong = []
            checked = check_all_reduce(comm, rank, size, wrong)
            check_broadcast(comm, rank, size, wrong)
            check_pairs(comm, rank, size, wrong)
            lines.say(event="result", wrong=wrong, checked=checked)
            comm.destroy()
        for size in range(1, RANKS_MAX + 1):
            with self.subTest(ranks=size):
                job = self.start(size, body)
                for told in self.hear_all(job, "result").values():
                    self.assertEqual(told["wrong"], [])
                    self.assertGreater(told["checked"], 100)
                self.expect_end(job)

    def test_integer_sums_wrap_and_nan_and_signed_zero_follow_the_rules(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            rank, _ = rank_of_size()
            big = api.buffer(api.INT32, [2**31 - 1, -2**31])
            comm.all_reduce(big, big, 2, api.INT32)
            floats = api.buffer(api.FLOAT32, [math.nan if rank else 1.0, -0.0 if rank else 0.0])
            smallest = api.buffer(api.FLOAT32, [0, 0])
            largest = api.buffer(api.FLOAT32, [0, 0])
            comm.all_reduce(floats, smallest, 2, api.FLOAT32, api.MIN)
            comm.all_reduce(floats, largest, 2, api.FLOAT32, api.MAX)
            lines.say(event="result", wrapped=list(big),
                      nan=[math.isnan(smallest[0]), math.isnan(largest[0])],
                      zeros=[math.copysign(1, smallest[1]), math.copysign(1, largest[1])])
            comm.destroy()
        for told in self.hear_all(self.start(2, body), "result").values():
            self.assertEqual(told["wrapped"], [-2, 0])
            self.assertEqual(told["nan"], [True, True])
            self.assertEqual(told["zeros"], [-1, 1])

    def test_many_operations_in_flight_end_in_order_with_the_right_values(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            rank, size = rank_of_size()
            buffers = [api.buffer(api.INT64, [rank + n] * (n * 97 % 3000)) for n in range(200)]
            requests = [comm.all_reduce(b, b, len(b), api.INT64, wait=False) for b in buffers]
            for request in reversed(requests):
                request.wait(20_000)
            expected = [sum(r + n for r in range(size)) for n in range(200)]
            wrong = [n for n, b in enumerate(buffers) if any(v != expected[n] for v in b)]
            lines.say(event="result", wrong=wrong)
            comm.destroy()
        for told in self.hear_all(self.start(3, body), "result").values():
            self.assertEqual(told["wrong"], [])


class CheckedBenchTest(unittest.TestCase):
    """Large buffers, checked by the program itself."""

    def test_large_operations_are_right_with_each_algorithm(self):
        for collective, algorithm, ranks, words in (
                ("all_reduce", "ring", 3, ()), ("all_reduce", "hd", 5, ()),
                ("all_reduce", "ring", 3, ("-d", "half")),
                ("all_reduce", "hd", 3, ("-d", "bfloat16", "-o", "avg")),
                ("all_reduce", "ring", 2, ("-d", "uint8", "-o", "bxor")),
                ("all_gather", "hier", 4, ()), ("reduce_scatter", "hier", 4, ()),
                ("all_gather", "direct", 3, ()), ("reduce_scatter", "rd", 3, ()),
                ("broadcast", "auto", 4, ()), ("sendrecv", "auto", 2, ()),
                ("alltoall", "auto", 5, ())):
            with self.subTest(collective=collective, algorithm=algorithm, ranks=ranks, words=words):
                environment = dict(os.environ, R2CCL_SOCKET_IFNAME=NICS, R2CCL_ALGO=algorithm)
                done = program.run(
                    "bench", "-p", ranks, "--collective", collective, *words, "-b", "1M",
                    "-e", "4M", "-f", 4, "-n", 3, "-w", 1, "--json", "/dev/stderr",
                    env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                result = json.loads(done.stderr)
                self.assertEqual(result["wrong_elements"], 0)
                self.assertGreater(result["checked_elements"], 3 * 2**18)


if __name__ == "__main__":
    program.main(__doc__)
