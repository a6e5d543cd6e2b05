"""The last operations of a group, for a dump after an error."""

import collections
import os
import time

from r2ccl import reduce_ops


class Entry:
    """One operation. Times are in nanoseconds since 1970."""

    __slots__ = ("name", "number", "tensors", "op", "peer", "tag", "started_ns", "ended_ns",
                 "error", "outputs_shapes")

    def __init__(self, name, number, tensors, op=None, peer=None, tag=None):
        self.name = name
        self.number = number
        self.tensors = tensors
        self.op = op
        self.peer = peer
        self.tag = tag
        self.started_ns = time.time_ns()
        self.ended_ns = None
        self.error = None
