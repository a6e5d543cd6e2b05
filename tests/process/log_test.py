#!/usr/bin/env python3
"""The log of a healthy job at each level, warnings about settings, launchers that disagree, and
names that appear late. Needs nothing but the loopback interface; the last needs root.

usage: log_test.py PATH_OF_R2CCL [unittest arguments]
"""
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, telling

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
LATE_S = 2


def reduce_once(lib, lines):
    with telling(lines, "init"):
        comm = api.Comm.from_environment(lib)
    data = api.buffer(api.FLOAT32, [1.0] * 100)
    comm.all_reduce(data, data, 100)
    comm.destroy()


def init_only(lib, lines):
    with telling(lines, "init"):
        api.Comm.from_environment(lib).destroy()


def copy(lib, lines):
    with telling(lines, "init"):
        comm = api.Comm.from_environment(lib)
        comm.dup().destroy()
    comm.destroy()


class LogCase(LocalJobCase):
    def setUp(self):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.files = files.name

    def run_job(self, count=2, body=reduce_once, **environment):
        """Returns {rank: [lines of its log]} of a whole job that ends well."""
        job = self.start(count, body, {"XDG_RUNTIME_DIR": self.files, "R2CCL_DEBUG_FILE":
                                       os.path.join(self.files, "log.%p")} | environment)
        for message in self.hear_all(job, "init").values():
            self.assert_ok(message)
        self.expect_end(job)
        return {rank: self.log(process) for rank, process in job.items()}

    def log(self, process):
        name = os.path.join(self.files, f"log.{process.pid}")
        if not os.path.exists(name):
            return []
        with open(name, encoding="utf-8") as text:
            return text.read().splitlines()


class HealthyJobTest(LogCase):
    def test_info_answers_the_first_questions(self):
        for rank, lines in self.run_job(R2CCL_DEBUG="INFO", R2CCL_ALGO="ring").items():
            text = "\n".join(lines)
            for words in (rf"r2ccl \d+\.\d+\.\d+, rank {rank} of 2$",
                          r"launcher: torchrun$",
                          r"settings: R2CCL_SOCKET_IFNAME==lo@127.0.0.1,lo@127.0.0.2, "
                          r"R2CCL_DEBUG=INFO, .*R2CCL_SECRET is set, R2CCL_ALGO=ring",
                          r"interface lo@127.0.0.1 \(loopback, 127.0.0.1\) chosen: address named "
                          "by R2CCL_SOCKET_IFNAME=",
                          r"interface lo \(loopback, 127.0.0.1\) not used: not named by",
                          r"rendezvous: 127.0.0.1:\d+$",
                          r"host [^ ]+: ranks 0-1; rails: shm$",
                          r"algorithm: ring; costs in memory [\d,.]+, by network [\d,.]+$",
                          r"connected to all ranks after \d+ ms, with a secret$"):
                self.assertRegex(text, f"(?m){words}")
            self.assertNotIn("the secret of this test", text)
            # The rank is known from the launcher's line on.
            first = next(i for i, line in enumerate(lines) if "launcher:" in line)
            for line in lines[first:]:
                self.assertRegex(line, rf"^[^ ]+:\d+:\d+ \[{rank}\] R2CCL (INFO|WARN) ")

    def test_info_names_reproducible_mode(self):
        for lines in self.run_job(R2CCL_DEBUG="INFO", R2CCL_REPRODUCIBLE="1").values():
            self.assertRegex("\n".join(lines),
                             r"algorithm: auto, floating-point reductions in rank order; costs in")

    def test_a_copy_has_the_costs_of_the_original(self):
        logs = self.run_job(3, copy, R2CCL_DEBUG="INFO").values()
        costs = [line.partition("; costs in ")[2] for lines in logs for line in lines
                 if "; costs in " in line]
        self.assertEqual(len(costs), 6, costs)
        self.assertEqual(len(set(costs)), 1, costs)

    def test_version_prints_the_version_and_nothing_else(self):
        for lines in self.run_job(R2CCL_DEBUG="VERSION").values():
            self.assertEqual(len(lines), 1, lines)
            self.assertRegex(lines[0], r"R2CCL VERSION r2ccl \d+\.\d+\.\d+$")

    def test_a_healthy_job_gives_no_warning_and_prints_nothing_unasked(self):
        for lines in self.run_job(R2CCL_DEBUG="NONE").values():
            self.assertEqual(lines, [])
        for lines in self.run_job(R2CCL_DEBUG="WARN").values():
            # On a busy machine a rank may get no processor for a second.
            self.assertEqual([line for line in lines if ": waiting for rank " not in line], [])


class SettingsTest(LogCase):
    def warnings(self, **environment):
        lines = self.run_job(1, init_only, R2CCL_DEBUG="WARN", **environment)[0]
        return [line.partition(" WARN ")[2] for line in lines]

    def test_a_variable_that_is_no_setting_is_named_with_the_nearest_one(self):
        self.assertEqual(self.warnings(R2CCL_SOKCET_IFNAME="lo", R2CCL_CUTOF_S="5"), [
            "R2CCL_SOKCET_IFNAME is not a setting; did you mean R2CCL_SOCKET_IFNAME?",
            "R2CCL_CUTOF_S is not a setting; did you mean R2CCL_CUTOFF_S?"])

    def test_a_foreign_variable_never_fails_a_job(self):
        for name, value, words in (
                ("NCCL_SOCKET_FAMILY", "AF_UNIX", "allowed is one of AF_INET, AF_INET6"),
                ("NCCL_OOB_NET_IFNAME", "nosuch", "matches no interface; there are: "),
                ("NCCL_COMM_ID", "nowhere", "allowed is host:port")):
            with self.subTest(name):
                told = self.warnings(**{name: value})
                self.assertEqual(len(told), 1, told)
                self.assertTrue(told[0].startswith(f"{name}={value}"), told)
                self.assertIn(words, told[0])
                self.assertIn("ignored", told[0])
        # An unknown level switches the log off.
        lines = self.run_job(1, init_only, NCCL_DEBUG="LOUD")[0]
        self.assertEqual(lines, [])
        told = self.warnings(NCCL_DEBUG_FILE="/nosuch/file")
        self.assertEqual(told, [])  # the library's own variable is set
        told = self.warnings(R2CCL_SOCKET_IFNAME="", NCCL_SOCKET_IFNAME="nosuch")
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], "^NCCL_SOCKET_IFNAME=nosuch matches no interface.* is ignored$")

    def test_an_error_names_the_variable_that_was_set(self):
        job = self.start(1, init_only, {"R2CCL_SOCKET_IFNAME": "nosuch"})
        self.assertIn("R2CCL_SOCKET_IFNAME=nosuch", self.hear(job[0], "init")["text"])

    def test_launchers_that_disagree_are_refused_with_both_sets(self):
        job = self.start(2, init_only, {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"})
        for rank, message in self.hear_all(job, "init").items():
            self.assertEqual(message["code"], api.INVALID_USAGE, message["text"])
            for words in (f"RANK={rank} and WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1",
                          "OMPI_COMM_WORLD_SIZE=3", "env -u RANK -u WORLD_SIZE"):
                self.assertIn(words, message["text"])


def full_pipe():
    """Returns both ends of a pipe that has no room, and blocks."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    try:
        while True:
            os.write(write_end, b"x" * 512)
    except BlockingIOError:
        os.set_blocking(write_end, True)
    return read_end, write_end


def closed_pipe():
    read_end, write_end = os.pipe()
    os.close(read_end)
    return None, write_end


def no_standard_streams():
    for number in (0, 1, 2):
        os.close(number)


def standard_stream(number):
    """Returns the name of the descriptor's file, or None."""
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return None


def own_address():
    """Returns an address of this machine that is not the loopback's, or None."""
    told = subprocess.run(["ip", "-4", "-o", "addr"], text=True, check=True, stdout=subprocess.PIPE)
    found = [line.split()[3].partition("/")[0] for line in told.stdout.splitlines()]
    return next((address for address in found if not address.startswith("127.")), None)


class StalledReaderTest(LogCase):
    """A reader of the log may stall or end: the job goes on, and its log lines end no rank."""

    def body_with(self, standard_error):
        """All ranks have this standard error, and the default action of SIGPIPE."""
        def body(lib, lines):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            keep = standard_error()  # a reader that never reads
            if keep is not None:
                os.dup2(keep[1], 2)
                before = fcntl.fcntl(2, fcntl.F_GETFL)
            with telling(lines, "init"):
                comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1.0] * 100)
            for _ in range(10):
                comm.all_reduce(data, data, 100)
            if keep is not None:
                assert fcntl.fcntl(2, fcntl.F_GETFL) == before, "the open file is not ours"
            deadline = time.monotonic() + BUSY_S
            while True:
                dropped = json.loads(comm.report())["log_lines_dropped"]
                if dropped > 0 or standard_error is not closed_pipe or time.monotonic() > deadline:
                    break
            used = [link for link in map(standard_stream, (0, 1, 2)) if link is not None]
            comm.destroy()
            lines.say(event="told", dropped=dropped, used=used)
        return body

    def run_with(self, standard_error, **environment):
        job = self.start(2, self.body_with(standard_error),
                         {"R2CCL_DEBUG": "INFO", "XDG_RUNTIME_DIR": self.files} | environment)
        for message in self.hear_all(job, "init").values():
            self.assert_ok(message)
        told = self.hear_all(job, "told")
        self.expect_end(job)
        return told

    def test_a_full_pipe_holds_up_no_rank(self):
        self.run_with(full_pipe)

    def test_a_reader_that_is_gone_ends_no_rank_and_the_lines_are_counted(self):
        for message in self.run_with(closed_pipe).values():
            self.assertGreater(message["dropped"], 0)

    def test_the_line_of_an_open_start_ends_no_rank(self):
        address = own_address()
        if address is None:
            self.skipTest("this machine has no address but loopback")
        for standard_error in (full_pipe, closed_pipe):
            told = self.run_with(standard_error, R2CCL_SECRET="", MASTER_ADDR=address,
                                 R2CCL_DEBUG="NONE")
            if standard_error is closed_pipe:
                self.assertEqual(told[0]["dropped"], 1)

    def test_without_standard_streams_no_socket_takes_their_place(self):
        for message in self.run_with(no_standard_streams).values():
            self.assertEqual(message["used"], [])

    def test_a_fifo_that_nobody_reads_holds_up_no_rank(self):
        fifo = os.path.join(self.files, "fifo")
        os.mkfifo(fifo, 0o600)
        self.run_with(lambda: None, R2CCL_DEBUG_FILE=fifo)


PYTHON = "/usr/bin/python3"
ASK_FOR_AN_ID = ("import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); "
                 "sys.exit(library.r2cclGetUniqueId(ctypes.create_string_buffer(128)))")


class MoreRightsTest(LogCase):
    @unittest.skipIf(os.geteuid() != 0 or not os.path.exists(PYTHON), "needs root and a python3")
    def test_a_setuid_program_writes_no_file_that_its_caller_names(self):
        os.chmod(self.files, 0o755)
        for setuid in (False, True):
            program_file, log = (os.path.join(self.files, name) for name in ("python", f"{setuid}"))
            shutil.copy(PYTHON, program_file)
            os.chmod(program_file, 0o4755 if setuid else 0o755)
            user = 65534 if setuid else 0
            done = subprocess.run(
                [program_file, "-I", "-c", ASK_FOR_AN_ID, api.path()], check=False, user=user,
                env={"R2CCL_DEBUG_FILE": log, "R2CCL_SOCKET_IFNAME": "lo"}, cwd="/",
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(os.path.exists(log), not setuid)


def with_own_hosts_file(lib, name):
    """In a mount namespace of its own, /etc/hosts is a file that the test may write."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no mount namespace")
    if libc.mount(name.encode(), b"/etc/hosts", None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), "cannot bind /etc/hosts")


class LateNameTest(LogCase):
    name = "rank0.late.invalid"

    def start_with_hosts(self, **environment):
        hosts = os.path.join(self.files, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n")

        def body(lib, lines):
            with_own_hosts_file(lib, hosts)
            lines.say(event="ready")
            init_only(lib, lines)
        job = self.start(2, body, {"MASTER_ADDR": self.name, "R2CCL_DEBUG": "INFO",
                                   "R2CCL_DEBUG_FILE": os.path.join(self.files, "log.%p"),
                                   } | environment)
        self.hear_all(job, "ready")
        return job, hosts

    @unittest.skipIf(os.geteuid() != 0, "only root makes a mount namespace")
    def test_a_name_that_appears_late_is_waited_for(self):
        job, hosts = self.start_with_hosts()
        deadline = time.monotonic() + program.PATIENCE_S
        while not all("cannot resolve" in "".join(self.log(each)) for each in job.values()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        time.sleep(LATE_S)
        with open(hosts, "a", encoding="ascii") as file:
            file.write(f"127.0.0.1 {self.name}\n")
        for message in self.hear_all(job, "init").values():
            self.assert_ok(message)
            self.assertGreater(message["seconds"], LATE_S / 2)
        for process in job.values():
            told = [line for line in self.log(process) if "cannot resolve" in line]
            self.assertEqual(len(told), 1)
            self.assertIn(f'the host name "{self.name}" yet: ', told[0])
        self.expect_end(job)

    @unittest.skipIf(os.geteuid() != 0, "only root makes a mount namespace")
    def test_a_name_that_never_appears_is_an_error_at_the_bound(self):
        job, _ = self.start_with_hosts(R2CCL_INIT_TIMEOUT_S="2")
        words = (f'rank 1 of 2 has not arrived within 2 s; rank 0\'s host cannot resolve the host '
                 f'name "{self.name}" either',
                 f'cannot resolve the host name "{self.name}" within 2 s: ')
        for rank, message in self.hear_all(job, "init").items():
            self.assertEqual(message["code"], api.TIMEOUT, message["text"])
            self.assertIn(words[rank], message["text"])
            self.assertGreater(message["seconds"], 1.9)
            self.assertLess(message["seconds"], 2 + BUSY_S)
        self.expect_end(job)


if __name__ == "__main__":
    program.main(__doc__)
