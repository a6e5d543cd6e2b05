"""One rank of the tests that run in every rank: run.py starts it.

A test passes when it passes in all ranks. The ranks tell each other by a store of their own, so that
a broken group cannot hide a failure.
"""

import importlib
import os
import sys
import time
import traceback
import unittest
import warnings

warnings.filterwarnings("ignore", category=FutureWarning)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import r2ccl  # noqa: E402, F401 (it registers the backend)
from group_case import GroupCase, abort, seconds  # noqa: E402

TIMEOUT_S = 30


def tests_of(modules, size, pattern):
    """Returns (name, test) of all tests for this number of ranks, in a fixed order."""
    loader = unittest.TestLoader()
    found = []
    for name in modules:
        module = importlib.import_module(name)
        for case in vars(module).values():
            if not (isinstance(case, type) and issubclass(case, GroupCase)):
                continue
            if case.__module__ != name:
                continue
            for method in loader.getTestCaseNames(case):
                sizes = getattr(getattr(case, method), "sizes", (1, 2, 4))
                title = f"{name}.{case.__name__}.{method}"
                if size in sizes and pattern in title:
                    found.append((title, case(method)))
    return found


def init(store, number, rank, size):
    dist.init_process_group("r2ccl", store=dist.PrefixStore(f"attempt{number}", store), rank=rank,
                            world_size=size, timeout=seconds(TIMEOUT_S))


def run_one(test):
    """Returns the text of the failure, or an empty one."""
    result = unittest.TestResult()
    test.run(result)
    return "\n".join(text for _, text in result.failures + result.errors)


def gather(store, title, rank, size, text):
    """Returns the texts of all ranks."""
    store.set(f"{title}/{rank}", text)
    return [store.get(f"{title}/{other}").decode() for other in range(size)]


def main(modules, pattern):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    if os.environ["DEVICE"] != "cpu":
        torch.set_default_device(os.environ["DEVICE"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["STORE_PORT"]), size, rank == 0,
                          timeout=seconds(4 * TIMEOUT_S))
    init(store, 0, rank, size)
    failed, attempts = 0, 0
    for title, test in tests_of(modules, size, pattern):
        started = time.monotonic()
        texts = gather(store, title, rank, size, run_one(test))
        bad = [f"rank {other}: {text}" for other, text in enumerate(texts) if text]
        if rank == 0:
            print(f"{'FAIL' if bad else 'ok  '} {size} ranks {title} "
                  f"({time.monotonic() - started:.2f} s)", flush=True)
            for text in bad:
                print(text, flush=True)
        if bad:
            failed, attempts = failed + 1, attempts + 1
            abort(dist.group.WORLD)
            init(store, attempts, rank, size)
    dist.destroy_process_group()
    store.set(f"end/{rank}", "")
    if rank == 0:  # it has the store
        store.wait([f"end/{other}" for other in range(size)])
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[2:], sys.argv[1]))
    except Exception:
        traceback.print_exc()
        sys.exit(1)
