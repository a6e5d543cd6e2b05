"""The base of tests that run in every rank of a group at the same time, all in the same order."""

import contextlib
import datetime
import threading
import unittest

import torch
import torch.distributed as dist

DTYPES = (torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64)


def ranks(*sizes):
    """Runs a test with these numbers of ranks only."""
    def mark(test):
        test.sizes = sizes
        return test
    return mark


def since(*version):
    """Leaves a test out with an older torch, such as since(2, 7). Stands above @ranks."""
    def mark(test):
        if tuple(map(int, torch.__version__.split(".")[:2])) < version:
            test.sizes = ()
        return test
    return mark


def with_cuda(test):
    """Leaves a test out where torch finds no GPU. Stands above @ranks."""
    if not torch.cuda.is_available():
        test.sizes = ()
    return test


def values(rank, count, dtype=torch.float32, start=0):
    """Returns elements that differ by rank and place, and are exact in every type: 0 to 12."""
    return ((torch.arange(start, start + count) * 3 + rank * 5) % 13).to(dtype)


def abort(group):
    """Ends a group at once."""
    group.abort()
    dist.destroy_process_group(group)


class GroupCase(unittest.TestCase):
    """self.rank and self.size are those of the default group."""

    maxDiff = None

    def setUp(self):
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.group = dist.group.WORLD

    def all_ranks(self, make):
        """Returns [make(rank) for each rank]."""
        return [make(rank) for rank in range(self.size)]

    def assert_same(self, result, expected):
        """Every element is equal, and shape and type, too."""
        self.assertEqual(result.dtype, expected.dtype)
        self.assertEqual(result.shape, expected.shape)
        if not torch.equal(result, expected):
            self.fail(f"rank {self.rank} has\n{result}\nnot\n{expected}")

    @contextlib.contextmanager
    def fresh_group(self, **settings):
        """Gives a new group of all ranks, which the test may break."""
        group = dist.new_group(list(range(self.size)), backend="r2ccl", **settings)
        try:
            yield group
        finally:
            abort(group)

    def meet(self):
        """Waits for all ranks, whatever group the test has broken."""
        dist.barrier()


def in_thread(call):
    """Runs call() in another thread. Returns a function that waits and returns its result."""
    outcome = []

    def run():
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))
    thread = threading.Thread(target=run)
    thread.start()

    def join():
        thread.join()
        value, error = outcome[0]
        if error is not None:
            raise error
        return value
    return join


def seconds(number):
    return datetime.timedelta(seconds=number)
