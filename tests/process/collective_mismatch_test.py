#!/usr/bin/env python3
"""Each collective with each difference: one of five ranks, which is neither a root nor next to rank 0
in a tree or a ring, makes another call. Every rank learns of it within 2 s. Needs nothing but the
loopback interface.

usage: collective_mismatch_test.py PATH_OF_R2CCL [unittest arguments]
"""
import program
import r2ccl_api as api
from mismatch_test import MismatchCase


# Each takes (communicator, data, count, type, op, root), whether its call has all of these or not.
COLLECTIVES = {
    "all_reduce": lambda c, d, n, t, op, root: c.all_reduce(d, d, n, t, op),
    "broadcast": lambda c, d, n, t, op, root: c.broadcast(d, d, n, root, t),
    "reduce": lambda c, d, n, t, op, root: c.reduce(d, d, n, root, t, op),
    "all_gather": lambda c, d, n, t, op, root: c.all_gather(result(d), d, n, t),
    "reduce_scatter": lambda c, d, n, t, op, root: c.reduce_scatter(d, result(d), n, t, op),
    "gather": lambda c, d, n, t, op, root: c.gather(result(d), d, n, root, t),
    "scatter": lambda c, d, n, t, op, root: c.scatter(d, result(d), n, root, t),
    "all_to_all": lambda c, d, n, t, op, root: c.all_to_all(result(d), d, n, t),
}
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
KEPT = []
USUAL = (40, api.FLOAT32, api.SUM, 0)


def result(data):
    """Returns another buffer as long as `data`, which lives as long as the process."""
    other = api.buffer(api.FLOAT32, [0] * len(data))
    KEPT.append(other)
    return other


def differences(name):
    """Yields (what differs, the call of the rank that differs)."""
    call = COLLECTIVES[name]
    others = {"count": (20, *USUAL[1:]), "zero count": (0, *USUAL[1:]),
              "type": (40, api.INT32, *USUAL[2:])}
    if name in REDUCING:
        others["reduction"] = (*USUAL[:2], api.MAX, 0)
    if name in ROOTED:
        others["root"] = (*USUAL[:3], 1)
    for what, arguments in others.items():
        yield what, lambda c, d, a=arguments: call(c, d, *a)
    other = COLLECTIVES["all_reduce" if name == "broadcast" else "broadcast"]
    yield "collective", lambda c, d: other(c, d, *USUAL)

    def in_another_order(c, d):
        c.barrier()
        call(c, d, *USUAL)
    yield "order", in_another_order


class EveryCollectiveTest(MismatchCase):
    """The tests are made below, one for each collective."""


def test_of(name):
    def test(self):
        usual = lambda c, d: COLLECTIVES[name](c, d, *USUAL)
        for what, call in differences(name):
            with self.subTest(what):
                for text in self.run_mismatch([usual, usual, usual, call, usual]):
                    self.assertIn("rank 3 ", text)
    return test


for collective in COLLECTIVES:
    setattr(EveryCollectiveTest, f"test_{collective}", test_of(collective))


if __name__ == "__main__":
    program.main(__doc__)
