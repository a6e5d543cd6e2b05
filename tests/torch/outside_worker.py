"""Runs the distributed tests that torch's wheel contains, on one backend. outside_suite.py starts it.

    outside_worker.py BACKEND WORLD_SIZE list
    outside_worker.py BACKEND WORLD_SIZE RESULTS TEST...

The first prints the names of all tests. The second runs tests and adds a line of JSON for each to the
file RESULTS.

The tests fork their ranks from this process, which has imported torch already: torch's own runner
starts an interpreter for each rank of each test, which takes ten times as long.
"""

import importlib.util
import json
import os
import pathlib
import sys
import time
import unittest

import outside_devices

SUITE = "torch.testing._internal.distributed.distributed_test"
LINE_OF_THE_NAME = 'BACKEND = os.environ["BACKEND"]'
SECONDS_PER_TEST = 60


class OpenGate(str):
    """A backend's name that also passes for gloo and mpi.

    Many tests run only where the backend is called gloo or mpi, whatever it can do. torch itself
    gets the real name: it looks the backend up by its letters.
    """
    ALSO = ("gloo", "mpi")

    def __eq__(self, other):
        return str.__eq__(self, other) or other in self.ALSO

    def __ne__(self, other):
        return not self == other

    def __hash__(self):  # the sets of names in the tests contain gloo
        return hash("gloo")


def load_suite(backend):
    """Returns the module of torch's tests, with every gate that gloo or mpi passes open."""
    from torch.testing._internal import common_distributed
    # The bound is 8 ranks because of torch's own machines; no test behind it needs more than 3.
    common_distributed.skip_if_small_worldsize = lambda test: test
    common_distributed.DistTestCases.backend_feature["plugin"].add(backend)
    outside_devices.open_gates(common_distributed)
    spec = importlib.util.find_spec(SUITE)
    source = pathlib.Path(spec.origin).read_text(encoding="utf-8")
    if source.count(LINE_OF_THE_NAME) != 1:
        raise SystemExit(f"{spec.origin}: no single line {LINE_OF_THE_NAME!r}. This version of torch "
                         f"chooses the backend in another way; change {__file__}.")
    module = importlib.util.module_from_spec(spec)
    module.OUTSIDE_BACKEND = OpenGate(backend)
    sys.modules[SUITE] = module
    source = source.replace(LINE_OF_THE_NAME, "BACKEND = OUTSIDE_BACKEND")
    exec(compile(source, spec.origin, "exec"), module.__dict__)  # pylint: disable=exec-used
    return module


def test_class(suite):
    import torch.multiprocessing

    class OutsideTest(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def run_test(self, test_name, parent_pipe):
            with outside_devices.OnCpu():
                super().run_test(test_name, parent_pipe)

    return OutsideTest


class Recorder(unittest.TestResult):
    """Writes for each test how it ended, why, and after how many seconds."""

    def __init__(self, results):
        super().__init__()
        self.results = results
        self.started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def record(self, test, end, why=""):
        name = test.id().rpartition(".")[2]
        seconds = round(time.monotonic() - self.started, 2)
        line = {"name": name, "end": end, "seconds": seconds, "why": why}
        with open(self.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def addSuccess(self, test):
        self.record(test, "passed")

    def addSkip(self, test, reason):
        self.record(test, "skipped", reason)

    def addFailure(self, test, err):
        self.record(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure


def main():
    backend, world_size, results = sys.argv[1:4]
    os.environ.update(outside_devices.environment(), BACKEND=backend, WORLD_SIZE=world_size,
                      MASTER_ADDR="127.0.0.1",
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(SECONDS_PER_TEST))
    if backend == "r2ccl":
        import r2ccl  # registers the backend  # noqa: F401  # pylint: disable=unused-import
    outside_devices.replace_cuda()
    tests = test_class(load_suite(backend))
    if results == "list":
        print(*unittest.TestLoader().getTestCaseNames(tests), sep="\n")
        return
    recorder = Recorder(results)
    for name in sys.argv[4:]:
        unittest.TestSuite([tests(name)]).run(recorder)


if __name__ == "__main__":
    main()
