#!/usr/bin/env python3
"""Several libraries at once: ranks whose libraries have different versions refuse the job in clear
words, and one process may hold two copies of the library. Needs nothing but the loopback interface.

usage: versions_test.py PATH_OF_R2CCL LIBRARY_OF_ANOTHER_VERSION [unittest arguments]
"""
import os
import shutil
import socket
import struct
import sys
import tempfile
import time

import program
import r2ccl_api as api
import wire
from attacked_job import job_name
from local_job import BUSY_S, LocalJobCase, free_port, rank_number, telling

OTHER = ""
COUNT = 50_000
ADVICE = "install one version of r2ccl on all hosts"


def version_of(lib):
    code = api.ctypes.c_int()
    lib.r2cclGetVersion(api.ctypes.byref(code))
    return f"{code.value // 10000}.{code.value // 100 % 100}.{code.value % 100}"


def init_only(lib, lines):
    with telling(lines, "init", version=version_of(lib)):
        api.Comm.from_environment(lib)


class DifferentVersionsTest(LocalJobCase):
    def test_every_rank_gets_an_error_that_names_both_versions_and_ranks(self):
        def body(lib, lines):
            init_only(api.load(OTHER) if rank_number() == 2 else lib, lines)
        began = time.monotonic()
        told = self.hear_all(self.start(3, body), "init")
        self.assertLess(time.monotonic() - began, 10 + BUSY_S)
        versions = {told[0]["version"], told[2]["version"]}
        self.assertEqual(len(versions), 2, versions)
        for rank, message in told.items():
            with self.subTest(rank=rank):
                self.assertEqual(message["code"], api.INVALID_USAGE, message["text"])
                for word in (f"has {told[0]['version']}", f"has {told[2]['version']}", "rank 0 (",
                             "rank 2 (", ADVICE):
                    self.assertIn(word, message["text"])

    def start_with_a_stranger(self, init_timeout_s):
        """Starts rank 0 of 2; returns it, and the endpoint and number of its job."""
        port = free_port()
        job = self.start(2, init_only, {"R2CCL_SECRET": "", "MASTER_PORT": str(port),
                                        "R2CCL_INIT_TIMEOUT_S": str(init_timeout_s)}, ranks=(0,))
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        return job[0], ("127.0.0.1", port), wire.job_number(job_name(port))

    def test_a_rank_that_describes_itself_in_another_form_is_named_at_once(self):
        rank, endpoint, number = self.start_with_a_stranger(init_timeout_s=60)
        info = (bytes([77]) + struct.pack("<I", 1) + wire.text8(b"node7") + bytes(16)
                + struct.pack("<II", 4711, 70809) + b"unknown fields")
        joined = wire.open_rendezvous(endpoint, number, 1)
        self.addCleanup(joined.connection.close)
        joined.send(wire.ARRIVE, wire.arrival(1, 2, info))
        told = self.hear(rank, "init")
        self.assertEqual(told["code"], api.INVALID_USAGE, told["text"])
        for word in ("rank 1 (host node7, pid 4711) has r2ccl 7.8.9", ADVICE):
            self.assertIn(word, told["text"])
        kind, body = joined.receive()
        self.assertEqual(kind, wire.REFUSED)
        self.assertIn("7.8.9", body.decode(errors="replace"))

    def test_a_rank_of_another_protocol_learns_both_numbers_and_so_do_the_others(self):
        rank, endpoint, number = self.start_with_a_stranger(init_timeout_s=1)
        connection = wire.Connection.to(endpoint)
        self.addCleanup(connection.close)
        hello = bytearray(wire.hello(number, 1, wire.RENDEZVOUS_RANK, 0, wire.RENDEZVOUS))
        hello[5:7] = bytes([wire.VERSION + 3, wire.VERSION + 4])
        connection.send(bytes(hello))
        with self.assertRaises(wire.Refused) as refused:
            connection.frame(wire.REPLY)
        theirs = f"{wire.VERSION + 3} to {wire.VERSION + 4}"
        told = self.hear(rank, "init")["text"]
        self.assertIn("says that it is rank 1, speaks", told)
        for text in (str(refused.exception), told):
            for word in (theirs, f" {wire.VERSION}", ADVICE):
                self.assertIn(word, text)


class TwoCopiesTest(LocalJobCase):
    """Two copies of the library in each process, each with a job of its own."""

    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.copy = os.path.join(folder, "libcopy.so")
        shutil.copyfile(api.path(), self.copy)

    @staticmethod
    def sum_over(comm, values, rounds):
        for _ in range(rounds):
            send = api.buffer(api.FLOAT64, values)
            receive = api.buffer(api.FLOAT64, [0] * len(values))
            request = comm.all_reduce(send, receive, len(values), api.FLOAT64, wait=False)
            yield request, receive

    def test_both_work_at_once_and_an_abort_of_one_leaves_the_other_alone(self):
        second_port = str(free_port())

        def body(lib, lines):
            other = api.load(self.copy)
            assert other._handle != lib._handle
            first = api.Comm.from_environment(lib)
            os.environ["MASTER_PORT"] = second_port
            second = api.Comm.from_environment(other)
            values = [rank_number() + 1] * COUNT
            for (one, sums), (two, sums_of_other) in zip(self.sum_over(first, values, 10),
                                                         self.sum_over(second, values, 10)):
                one.wait()
                two.wait()
                assert set(sums) == set(sums_of_other) == {6.0}
            if rank_number() == 1:
                first.abort()
            with telling(lines, "aborted"):
                first.barrier()
            for request, sums in self.sum_over(second, values, 10):
                request.wait()
                assert set(sums) == {6.0}
            first.destroy()
            with telling(lines, "second"):
                second.destroy()
        job = self.start(3, body)
        for rank, message in self.hear_all(job, "aborted").items():
            self.assertEqual(message["code"], api.ABORTED if rank == 1 else api.REMOTE,
                             message["text"])
        for message in self.hear_all(job, "second").values():
            self.assert_ok(message)
        self.expect_end(job)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    OTHER = os.path.abspath(sys.argv.pop(2))
    program.main(__doc__)
