#!/usr/bin/env python3
"""Mistakes of a user, and attacks of strangers on a job's ports, end in a clear error and never in
a hang. Needs nothing but the loopback interface.

usage: bad_input_test.py PATH_OF_R2CCL [unittest arguments]
"""
import ctypes
import os
import random
import re
import resource
import socket
import struct
import tempfile
import time

import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, PATIENCE_S, SECRET, free_port, rank_number, telling
from proc import cpu_seconds, listening_ports

def init_only(lib, lines):
    comm = None
    with telling(lines, "init"):
        comm = api.Comm.from_environment(lib)
    if comm:
        comm.destroy()


class StartTest(LocalJobCase):
    def test_missing_ranks_are_named_to_all_that_came_within_the_bound(self):
        start = time.monotonic()
        job = self.start(4, init_only, {"R2CCL_INIT_TIMEOUT_S": "1"}, ranks=(0, 2))
        for rank, told in self.hear_all(job, "init").items():
            with self.subTest(rank=rank):
                self.assertEqual(told["code"], api.TIMEOUT, told["text"])
                named = [int(n) for n in re.findall(r"\b\d+\b", told["text"].split("rank", 1)[1])]
                self.assertIn(1, named, told["text"])
                self.assertIn(3, named, told["text"])
                self.assertGreater(told["seconds"], 0.5)
        self.assertLess(time.monotonic() - start, 5 + BUSY_S)
        self.expect_end(job)

    def test_the_bound_in_the_config_struct_overrides_the_environment(self):
        def body(lib, lines):
            with telling(lines, "init"):
                api.Comm.from_environment(lib, init_timeout_ms=400)
        job = self.start(2, body, {"R2CCL_INIT_TIMEOUT_S": "60"}, ranks=(1,))
        told = self.hear(job[1], "init")
        self.assertEqual(told["code"], api.TIMEOUT, told["text"])
        self.assertLess(told["seconds"], 3 + BUSY_S)

    def test_a_rank_with_another_secret_is_kept_out_and_told_so(self):
        def body(lib, lines):
            if rank_number() == 1:
                os.environ["R2CCL_SECRET"] = SECRET + "?"
            init_only(lib, lines)
        job = self.start(2, body, {"R2CCL_INIT_TIMEOUT_S": "2"})
        told = self.hear_all(job, "init")
        for rank in (0, 1):
            self.assertNotEqual(told[rank]["code"], api.SUCCESS)
        self.assertIn("secret", told[1]["text"])
        self.expect_end(job)

    def test_settings_that_must_agree_are_compared_and_both_ranks_named(self):
        for name, one, other in (("R2CCL_ALGO", "ring", "hd"), ("R2CCL_REPRODUCIBLE", "1", "0")):
            def body(lib, lines):
                os.environ[name] = one if rank_number() == 1 else other
                init_only(lib, lines)
            job = self.start(3, body)
            for told in self.hear_all(job, "init").values():
                self.assertNotEqual(told["code"], api.SUCCESS)
                self.assertIn(name, told["text"])
                self.assertIn("rank 1", told["text"])

    def test_two_processes_that_claim_one_rank_are_refused(self):
        port = str(free_port())
        environment = {"R2CCL_INIT_TIMEOUT_S": "2", "MASTER_PORT": port}
        first = self.start(3, init_only, environment, ranks=(0, 1))
        time.sleep(0.3)
        second = self.start(3, init_only, environment, ranks=(1,))
        told = self.hear(second[1], "init")
        self.assertNotEqual(told["code"], api.SUCCESS)
        self.assertIn("rank 1", told["text"])
        self.hear_all(first, "init")

    def test_a_unique_id_works_and_a_mangled_one_is_refused(self):
        def body(lib, lines):
            rank = rank_number()
            id_bytes = api.unique_id(lib) if rank == 0 else b""
            lines.say(event="id", hex=id_bytes.hex())
            id_bytes = bytes.fromhex(lines.hear()["hex"])
            with telling(lines, "mangled"):
                api.Comm.from_id(lib, bytes(128), 2, rank)
            comm = None
            with telling(lines, "init"):
                comm = api.Comm.from_id(lib, id_bytes, 2, rank)
            data = api.buffer(api.INT64, [rank + 1])
            comm.all_reduce(data, data, 1, api.INT64)
            lines.say(event="sum", value=data[0])
            comm.destroy()
        job = self.start(2, body)
        ids = self.hear_all(job, "id")
        self.tell_all(job, hex=ids[0]["hex"])
        for told in self.hear_all(job, "mangled").values():
            self.assertEqual(told["code"], api.INVALID_ARGUMENT, told["text"])
        for told in self.hear_all(job, "init").values():
            self.assert_ok(told)
        self.assertEqual([m["value"] for m in self.hear_all(job, "sum").values()], [3, 3])
        self.expect_end(job)


# A text that no variable accepts. Free texts accept anything; file names have a test of their own.
NONSENSE = ("banana", "-1", "99999999999999999999", "\x01\xff", "x" * 5000)
TAKES_ANY_TEXT = {"R2CCL_DEBUG_FILE", "R2CCL_SECRET", "R2CCL_HOST_ID", "R2CCL_FAULT_FILE"}


def documented_variables():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../docs/configuration.md"), encoding="utf-8") as text:
        rows = re.findall(r"^\| `(R2CCL_\w+)` \| (?:`(\w+)`)?", text.read(), re.M)
    return rows


class EnvironmentTest(LocalJobCase):
    def init_error(self, changes):
        """Returns the outcome of init in a job of one rank with these variables."""
        job = self.start(1, init_only, changes)
        told = self.hear(job[0], "init")
        self.expect_end(job)
        return told

    def test_nonsense_in_any_variable_is_an_error_that_names_the_variable(self):
        variables = documented_variables()
        self.assertGreater(len(variables), 10)
        for ours, theirs in variables:
            if ours in TAKES_ANY_TEXT:
                continue
            for name in filter(None, (ours, theirs)):
                value = random.Random(name).choice(NONSENSE[:3])
                changes = {ours: "", name: value}
                if ours == "R2CCL_SECRET_FILE":
                    changes["R2CCL_SECRET"] = ""
                if ours in ("R2CCL_SOCKET_IFNAME", "R2CCL_OOB_IFNAME"):
                    changes[name] = "a b,^,"
                with self.subTest(name=name, value=changes[name]):
                    told = self.init_error(changes)
                    # This variable is another library's; log_test.py checks the warnings.
                    if name == theirs:
                        self.assert_ok(told)
                        continue
                    self.assertEqual(told["code"], api.INVALID_ARGUMENT, told["text"])
                    self.assertIn(name, told["text"])

    def test_unprintable_and_endless_values_are_errors_too(self):
        for name in ("R2CCL_SOCKET_IFNAME", "R2CCL_CUTOFF_S", "R2CCL_ALGO", "R2CCL_COMM_ID"):
            for value in NONSENSE[3:]:
                with self.subTest(name=name, value=value[:8]):
                    told = self.init_error({name: value})
                    self.assertEqual(told["code"], api.INVALID_ARGUMENT, told["text"])
                    self.assertIn(name, told["text"])

    def test_a_short_secret_is_refused_and_appears_in_no_message(self):
        told = self.init_error({"R2CCL_SECRET": "hunter2"})
        self.assertEqual(told["code"], api.INVALID_ARGUMENT)
        self.assertIn("R2CCL_SECRET", told["text"])
        self.assertNotIn("hunter2", told["text"])

    def test_files_that_can_never_be_used_are_errors_that_name_the_variable(self):
        for name, value in (("R2CCL_DEBUG_FILE", "/nonexistent/x/%h.%p"),
                            ("R2CCL_DEBUG_FILE", "/"),
                            ("R2CCL_FAULT_FILE", "/nonexistent/faults"),
                            ("R2CCL_FAULT_FILE", "/"),
                            ("R2CCL_SECRET_FILE", "/nonexistent/secret"),
                            ("R2CCL_SECRET_FILE", "/")):
            with self.subTest(name=name, value=value):
                changes = {"R2CCL_SECRET": ""} if name == "R2CCL_SECRET_FILE" else {}
                told = self.init_error({name: value} | changes)
                self.assertEqual(told["code"], api.INVALID_ARGUMENT, told["text"])
                self.assertIn(f"{name}={value}: ", told["text"])

    def test_a_fault_file_that_is_not_there_yet_says_no_faults(self):
        self.assert_ok(self.init_error({"R2CCL_FAULT_FILE": "no_faults_so_far"}))

    def test_interface_names_that_match_nothing_are_named_with_those_present(self):
        for value in ("nosuchnic", "=nosuchnic", "=lo@10.9.8.7", "=nosuch@127.0.0.1"):
            with self.subTest(value=value):
                told = self.init_error({"R2CCL_SOCKET_IFNAME": value})
                self.assertEqual(told["code"], api.INVALID_ARGUMENT, told["text"])
                self.assertIn("R2CCL_SOCKET_IFNAME=" + value, told["text"])
        self.assertIn("lo", self.init_error({"R2CCL_SOCKET_IFNAME": "nosuchnic"})["text"])
        for value in ("nosuchnic", "=nosuchnic,l"):
            with self.subTest(value=value):
                told = self.init_error({"R2CCL_OOB_IFNAME": value})
                self.assertEqual(told["code"], api.INVALID_ARGUMENT, told["text"])
                self.assertIn(f"R2CCL_OOB_IFNAME={value} matches no interface", told["text"])

    def test_the_control_channel_takes_the_same_language_as_the_data(self):
        for value in ("l", "=lo", "^nosuchnic", "^l"):
            with self.subTest(value=value):
                self.assert_ok(self.init_error({"R2CCL_OOB_IFNAME": value}))

    def test_nonsense_from_the_launcher_is_an_error_that_names_the_variable(self):
        for changes, name in (({"WORLD_SIZE": "0"}, "WORLD_SIZE"),
                              ({"WORLD_SIZE": "two"}, "WORLD_SIZE"),
                              ({"WORLD_SIZE": "65537"}, "WORLD_SIZE=65537"),
                              ({"WORLD_SIZE": ""}, "WORLD_SIZE"),
                              ({"MASTER_PORT": "70000"}, "MASTER_PORT")):
            with self.subTest(changes=changes):
                # Two ranks: a single rank need not meet a peer.
                job = self.start(2, init_only, {"WORLD_SIZE": "2"} | changes, ranks=(1,))
                told = self.hear(job[1], "init")
                self.assertNotIn(told["code"], (api.SUCCESS, api.TIMEOUT), told["text"])
                self.assertLess(told["seconds"], 5 + BUSY_S)
                self.assertIn(name, told["text"])


class ArgumentTest(LocalJobCase):
    """Wrong arguments fail at once, and the communicator works afterwards."""

    def test_wrong_arguments_are_refused_and_harm_nothing(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1] * 64)
            other = api.buffer(api.FLOAT32, [0] * 64)
            at = ctypes.addressof(data)
            big = (1 << 64) - 1
            for name, call in (
                    ("NULL sendbuff", lambda: comm.all_reduce(None, other, 64)),
                    ("NULL recvbuff", lambda: comm.all_reduce(data, None, 64)),
                    ("unaligned", lambda: comm.all_reduce(at + 1, other, 8)),
                    ("unaligned receive", lambda: comm.recv(at + 2, 8, 1 - rank_number())),
                    ("overlap", lambda: comm.all_reduce(at, at + 16, 32)),
                    ("overlap broadcast", lambda: comm.broadcast(at, at + 4, 32, rank_number())),
                    ("absurd count", lambda: comm.all_reduce(data, other, big)),
                    ("type", lambda: comm.all_reduce(data, other, 64, 10)),
                    ("op", lambda: comm.all_reduce(data, other, 64, api.FLOAT32, 5)),
                    ("bitwise op", lambda: comm.all_reduce(data, other, 64, api.FLOAT32,
                                                           api.BAND)),
                    ("negative op", lambda: comm.all_reduce(data, other, 64, api.FLOAT32, -1)),
                    ("root", lambda: comm.broadcast(data, data, 64, 2)),
                    ("peer", lambda: comm.send(data, 64, -1)),
                    ("peer beyond", lambda: comm.recv(data, 64, 2))):
                with telling(lines, "refused", name=name):
                    call()
            comm.all_reduce(data, other, 64)
            lines.say(event="values", values=list(other))
            comm.destroy()

        job = self.start(2, body)
        for process in job.values():
            for _ in range(14):
                told = self.hear(process, "refused")
                with self.subTest(name=told["name"]):
                    self.assertEqual(told["code"], api.INVALID_ARGUMENT, told["text"])
                    self.assertIn("r2ccl", told["text"])
            self.assertEqual(self.hear(process, "values")["values"], [2] * 64)
        self.expect_end(job)

    def test_null_handles_and_outputs_are_refused(self):
        def body(lib, lines):
            codes = [lib.r2cclGetUniqueId(None), lib.r2cclGetVersion(None),
                     lib.r2cclCommInitEnv(None, None), lib.r2cclCommFinalize(None),
                     lib.r2cclCommDestroy(None), lib.r2cclCommAbort(None),
                     lib.r2cclCommGetAsyncError(None, None), lib.r2cclBarrier(None, None),
                     lib.r2cclRequestWait(None, 0), lib.r2cclRequestTest(None, None),
                     lib.r2cclRequestAbort(None), lib.r2cclCommReport(None, None, None),
                     lib.r2cclCommInitRankConfig(None, 1, api.UniqueId(), 0, None)]
            lines.say(event="codes", codes=codes)
        job = self.start(1, body)
        self.assertEqual(set(self.hear(job[0], "codes")["codes"]), {api.INVALID_ARGUMENT})
        self.expect_end(job)


class StrangerTest(LocalJobCase):
    """A stranger who connects to a job's ports without its secret cannot disturb the job."""

    def setUp(self):
        self.files = tempfile.TemporaryDirectory()
        self.addCleanup(self.files.cleanup)
        self.strangers = []
        self.addCleanup(lambda: [s.close() for s in self.strangers])

    def connect(self, endpoint):
        s = socket.create_connection(endpoint, 2)
        s.setblocking(False)
        self.strangers.append(s)
        return s

    def push(self, s, data):
        try:
            s.send(data)
        except OSError:
            pass  # the job closed the connection, as it may

    def assault(self, endpoints, seed):
        """Tries every kind of stranger once on every port."""
        rng = random.Random(seed)
        for endpoint in endpoints:
            self.push(self.connect(endpoint), rng.randbytes(rng.choice((1, 40, 5000))))
            self.push(self.connect(endpoint), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            self.push(self.connect(endpoint), b"\xff" * 64)
            self.push(self.connect(endpoint), b"\0" * 4096)
            self.connect(endpoint)  # sends nothing and stays
            self.connect(endpoint).close()
            reset = self.connect(endpoint)
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reset.close()

    def test_garbage_and_half_open_connections_disturb_no_running_job(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            lines.say(event="ready")
            count, wrong, rounds = 50_000, 0, 0
            rank = rank_number()
            data = api.buffer(api.INT32, [rank + 1] * count)
            out = api.buffer(api.INT32, [0] * count)
            right = bytes(api.buffer(api.INT32, [6] * count))
            stop = api.buffer(api.INT32, [0])
            while not stop[0]:
                comm.all_reduce(data, out, count, api.INT32)
                wrong += bytes(out) != right
                rounds += 1
                # The test tells rank 0 when to end, and rank 0 tells the others.
                stop[0] = 0
                if rank == 0:
                    try:
                        lines.hear(0.001)
                        stop[0] = 1
                    except TimeoutError:
                        pass
                comm.broadcast(stop, stop, 1, 0, api.INT32)
            lines.say(event="result", wrong=wrong, rounds=rounds, report=comm.report())
            comm.destroy()

        job = self.start(3, body)
        self.hear_all(job, "ready")
        endpoints = [e for process in job.values() for e in listening_ports(process.pid)]
        self.assertGreaterEqual(len(endpoints), 3 * 3)  # two NICs and lo, each
        for seed in range(20):
            self.assault(endpoints, seed)
        for _ in range(400):  # more than may wait for their handshake at one time
            self.connect(endpoints[0])
        time.sleep(1)
        job[0].lines.say(stop=True)
        for told in self.hear_all(job, "result").values():
            self.assertEqual(told["wrong"], 0)
            self.assertGreater(told["rounds"], 10)
            self.assertIn('"verdicts":[]', told["report"].replace(" ", ""))
        self.expect_end(job)

    def test_garbage_on_the_rendezvous_does_not_keep_the_ranks_apart(self):
        environment = {"MASTER_PORT": str(free_port())}
        job = self.start(2, init_only, environment, ranks=(0,))
        deadline = time.monotonic() + PATIENCE_S
        while len(listening_ports(job[0].pid)) < 4:  # the rendezvous, two NICs and lo
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        for seed in range(5):
            self.assault(listening_ports(job[0].pid), seed)
        late = self.start(2, init_only, environment, ranks=(1,))
        self.assert_ok(self.hear(job[0], "init"))
        self.assert_ok(self.hear(late[1], "init"))


class DescriptorTest(LocalJobCase):
    def test_too_few_at_the_start_are_an_error_that_names_the_remedy(self):
        def body(lib, lines):
            limit = int(os.environ["LIMIT"])
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            init_only(lib, lines)
        failed = []
        for limit in (8, 12, 16, 20, 24, 64):
            job = self.start(2, body, {"R2CCL_INIT_TIMEOUT_S": "30" if limit == 64 else "1",
                                      "LIMIT": str(limit)})
            told = self.hear_all(job, "init").values()
            if any(message["code"] != api.SUCCESS for message in told):
                failed.append(limit)
                for message in told:
                    self.assertRegex(message["text"], r"needs at least \d+: .*ulimit -n", limit)
            self.expect_end(job)
        self.assertIn(8, failed)
        self.assertNotIn(64, failed)

    def test_a_rank_that_has_too_few_tells_the_others(self):
        def body(lib, lines):
            if rank_number() == 1:
                resource.setrlimit(resource.RLIMIT_NOFILE, (19, 19))
            init_only(lib, lines)
        job = self.start(2, body, {"R2CCL_INIT_TIMEOUT_S": "60"})
        told = self.hear_all(job, "init")
        self.assertRegex(told[1]["text"], r"needs at least \d+: .*which is 19 .*ulimit -n")
        self.assertRegex(told[0]["text"], r"rank 1 .*which is 19 .*ulimit -n")
        self.assertLess(told[0]["seconds"], 5 + BUSY_S)
        self.expect_end(job)

    def test_without_any_a_rank_does_not_spin_and_recovers(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.INT32, [1] * 100)
            for _ in range(2):
                comm.all_reduce(data, data, 100, api.INT32)
                lines.say(event="reduced", value=data[0])
                lines.hear()
            comm.destroy()
        job = self.start(2, body)
        self.hear_all(job, "reduced")
        pid = job[1].pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        strangers = [socket.create_connection(endpoint, 2) for endpoint in listening_ports(pid)]
        self.addCleanup(lambda: [s.close() for s in strangers])
        used = cpu_seconds(pid)
        time.sleep(2)
        self.assertLess(cpu_seconds(pid) - used, 0.2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        self.tell_all(job)
        for told in self.hear_all(job, "reduced").values():
            self.assertEqual(told["value"], 4)
        for stranger in strangers:  # let in, and closed when their time was over
            stranger.settimeout(8 + BUSY_S)
            with self.assertRaises((ConnectionResetError, EOFError)):
                if not stranger.recv(1):
                    raise EOFError
        self.tell_all(job)
        self.expect_end(job)


if __name__ == "__main__":
    program.main(__doc__)
