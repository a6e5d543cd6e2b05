#!/usr/bin/env python3
"""`r2ccl status` beside jobs of forked ranks. Needs nothing but the loopback interface.

usage: status_test.py PATH_OF_R2CCL [unittest arguments]
"""
import glob
import json
import os
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import foreign_sockets
import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, rank_number, telling

COUNT = 1000
NOBODY = 65534


def reduce_until_told(lib, lines):
    """Runs AllReduces, one after the other, until the test sends a line; then leaves in order."""
    comm = api.Comm.from_environment(lib)
    data = api.buffer(api.FLOAT32, [1.0] * COUNT)
    stop = api.buffer(api.INT32, [0])
    lines.say(event="started")
    told = False
    while stop[0] == 0:
        out = api.buffer(api.FLOAT32, [0.0] * COUNT)
        comm.all_reduce(data, out, COUNT)
        told = told or bool(heard(lines))
        mine = api.buffer(api.INT32, [int(told)])
        comm.all_reduce(mine, stop, 1, datatype=api.INT32, op=api.MAX)
    with telling(lines, "destroyed"):
        comm.destroy()


def heard(lines):
    try:
        return lines.hear(timeout=0.001)
    except TimeoutError:
        return None


class StatusCase(LocalJobCase):
    def setUp(self):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.runtime_dir = files.name
        self.place = os.path.join(files.name, f"r2ccl-{os.geteuid()}")

    def start_job(self, count=3, body=reduce_until_told, **environment):
        job = self.start(count, body, {"XDG_RUNTIME_DIR": self.runtime_dir} | environment)
        self.hear_all(job, "started")
        return job

    def status(self, *words, **options):
        environment = os.environ | {"XDG_RUNTIME_DIR": self.runtime_dir}
        return program.run("status", *words, env=environment, **options)

    def jobs(self, *words):
        done = self.status("--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["jobs"]

    def job_of(self, job):
        """Returns the command's answer about this job, by the process id of rank 0."""
        jobs = self.jobs("--pid", job[min(job)].pid)
        self.assertEqual(len(jobs), 1)
        return jobs[0]

    def end_job(self, job):
        self.tell_all(job, stop=True)
        for message in self.hear_all(job, "destroyed").values():
            self.assert_ok(message)
        self.expect_end(job)

    def sockets(self):
        return glob.glob(os.path.join(self.place, "*"))


class StatusTest(StatusCase):
    def test_a_job_is_found_and_told_whole(self):
        job = self.start_job()
        told = self.job_of(job)
        self.assertEqual(told["ranks"], 3)
        self.assertEqual([m["rank"] for m in told["members"]], [0, 1, 2])
        for member in told["members"]:
            with self.subTest(rank=member["rank"]):
                self.assertEqual(member["presence"], "answered")
                self.assertEqual(member["pid"], job[member["rank"]].pid)
                self.assertGreater(member["operations"], 0)
                busy = [nic for nic in member["nics"] if nic["tx_bytes"] > 0]
                self.assertTrue(busy)
                self.assertGreater(max(nic["tx_MBps"] for nic in busy), 0)
                self.assertEqual(member["troubles"], [])
        self.assertEqual(sorted(r["rank"] for r in told["reports"]), [0, 1, 2])
        self.assertEqual({r["comm"] for r in told["reports"]}, {told["comm"]})
        mode = os.lstat(self.place).st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o700)
        self.end_job(job)
        self.assertEqual(self.sockets(), [])

    def test_a_job_is_printed_for_people(self):
        job = self.start_job()
        done = self.status("--pid", job[0].pid, "--paths")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in (": 3 ranks on ", "all paths are up", "no faults so far", "tx MB/s",
                      f"paths of rank 2 (", str(job[1].pid)):
            self.assertIn(words, done.stdout)
        comm = self.job_of(job)["comm"]
        self.assertEqual(len(self.jobs("--comm", comm[:6])), 1)
        self.end_job(job)

    def test_a_stopped_rank_gives_no_answer(self):
        job = self.start_job()
        # The rank that the command asks first, and a rank that this one asks in turn.
        for rank in (2, 0):
            job[rank].kill(signal.SIGSTOP)
            begin = time.monotonic()
            told = self.job_of(job)
            self.assertLess(time.monotonic() - begin, 25 + BUSY_S)
            presence = {m["rank"]: m["presence"] for m in told["members"]}
            self.assertEqual(presence[rank], "no answer")
            self.assertEqual(presence[1], "answered")
            text = self.status("--pid", job[1].pid).stdout
            self.assertIn("NO ANSWER", text)
            job[rank].kill(signal.SIGCONT)
        deadline = time.monotonic() + 20 + BUSY_S
        while any(m["presence"] != "answered" for m in self.job_of(job)["members"]):
            self.assertLess(time.monotonic(), deadline, "the job did not come back")
        self.end_job(job)

    def test_a_job_of_stopped_ranks_alone_is_named(self):
        job = self.start_job(count=1)
        job[0].kill(signal.SIGSTOP)
        told = self.job_of(job)
        self.assertEqual([(s["rank"], s["pid"]) for s in told["silent"]], [(0, job[0].pid)])
        text = self.status("--pid", job[0].pid).stdout
        self.assertIn("no rank on this host answers", text)
        job[0].kill(signal.SIGCONT)
        self.end_job(job)

    def test_without_a_job_the_command_names_the_directories_it_searched(self):
        done = self.status("--pid", 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such running job", done.stderr)
        self.assertIn(self.place, done.stderr)
        done = self.status("--pid", 1, "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)), (1, {"jobs": []}))

    def test_watching_ends_with_the_job(self):
        job = self.start_job()
        environment = os.environ | {"XDG_RUNTIME_DIR": self.runtime_dir}
        with subprocess.Popen([program.PATH, "status", "--pid", str(job[0].pid), "--watch", "0.2"],
                              env=environment, text=True, stdout=subprocess.PIPE) as watch:
            self.addCleanup(watch.kill)
            seen = 0
            while seen < 3:
                seen += watch.stdout.readline().startswith("job ")
            self.end_job(job)
            rest = watch.stdout.read()
            self.assertTrue(rest.endswith("the job has ended\n"), rest[-200:])
            self.assertEqual(watch.wait(timeout=20 + BUSY_S), 0)

    def test_unknown_words_are_refused(self):
        for words in (["--watch", "soon"], ["--watch", "0"], ["--pid", "x"], ["--pid", "-1"],
                      ["--what"], ["more"]):
            with self.subTest(words=words):
                done = self.status(*words)
                self.assertEqual(done.returncode, 2)
                self.assertTrue(done.stderr + done.stdout)


def reduce_on_two_hosts(lib, lines):
    """Runs reduce_until_told(), with two ranks on each of the hosts hA and hB."""
    os.environ["R2CCL_HOST_ID"] = "hA" if rank_number() < 2 else "hB"
    reduce_until_told(lib, lines)


class DrainTest(StatusCase):
    """`r2ccl drain` in a job with several ranks on a host; drain_test.py has the effects of
    cables."""
    nic = "lo@127.0.0.2"

    def drain(self, *words):
        environment = os.environ | {"XDG_RUNTIME_DIR": self.runtime_dir}
        return program.run("drain", "--comm", self.comm, *words, env=environment)

    def start_job(self, *args, **options):
        job = super().start_job(4, reduce_on_two_hosts, *args, **options)
        self.comm = self.job_of(job)["comm"]
        return job

    def nics(self, job):
        """Returns each rank's entry of the NIC."""
        return {m["rank"]: next(n for n in m["nics"] if n["name"] == self.nic)
                for m in self.job_of(job)["members"]}

    def test_all_ranks_of_the_host_and_all_their_peers_take_part(self):
        job = self.start_job()
        done = self.drain("hA", self.nic)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"hA {self.nic} is out of service", done.stdout)
        before = self.nics(job)
        self.assertEqual([before[rank]["drained"] for rank in range(4)], [True, True, False, False])
        for rank, nic in before.items():
            with self.subTest(rank=rank):
                self.assertEqual((nic["paths_drained"], nic["paths_up"]), (2, 0))
        after = self.nics(job)
        for rank in range(4):
            self.assertEqual(before[rank]["tx_bytes"], after[rank]["tx_bytes"])
        done = self.drain("--undo", "hA", self.nic)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 of its 4 paths are up", done.stdout)
        self.assertEqual({n["paths_up"] for n in self.nics(job).values()}, {2})
        self.end_job(job)

    def test_the_last_nic_and_unknown_names_are_refused(self):
        job = self.start_job()
        for words, reason in ((("hC", self.nic), "its hosts are hA, hB"),
                              (("hA", "eth0"), "it has lo@127.0.0.1, lo@127.0.0.2")):
            done = self.drain(*words)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(reason, done.stderr)
        self.assertEqual(self.drain("hB", self.nic).returncode, 0)
        for host in ("hA", "hB"):
            done = self.drain(host, "lo@127.0.0.1")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("would have no other path in service to 2 ranks", done.stderr)
        self.assertEqual({n["paths_drained"] for n in self.nics(job).values()}, {2})
        self.end_job(job)

    @unittest.skipIf(os.geteuid() != 0, "only root can be another user")
    def test_another_users_job_is_not_found(self):
        job = self.start_job()
        environment = os.environ | {"XDG_RUNTIME_DIR": self.runtime_dir}
        done = program.run("drain", "--comm", self.comm, "hA", self.nic, env=environment,
                           user=NOBODY)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("another user's, which root alone may drain", done.stderr)
        self.end_job(job)


class ForeignSocketTest(StatusCase):
    """Root's command beside another user's sockets."""

    def setUp(self):
        foreign_sockets.need_namespaces()
        # Not in /tmp, which the command sees empty.
        files = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(files.cleanup)
        self.runtime_dir = files.name
        self.place = os.path.join(files.name, f"r2ccl-{os.geteuid()}")

    def status_beside(self, count, answer, *words):
        return foreign_sockets.run_beside(
            count, answer, "status", *words,
            environment=os.environ | {"XDG_RUNTIME_DIR": self.runtime_dir})

    def test_silent_sockets_of_another_user_do_not_hold_up_the_job(self):
        job = self.start_job(count=2)
        for count in (4, 1000):
            with self.subTest(count=count):
                status, out, err, seconds = self.status_beside(count, None)
                self.assertEqual(status, 0, err)
                self.assertIn(": 2 ranks on 1 host", out)
                self.assertIn(str(job[1].pid), out)
                self.assertIn(f"{count} sockets of user nobody (uid 65534) gave no answer", err)
                self.assertLess(seconds, 5 + BUSY_S)
        _, out, _, seconds = self.status_beside(4, None, "--json")
        self.assertLess(seconds, 5 + BUSY_S)
        jobs = {each["uid"]: each for each in json.loads(out)["jobs"] if "silent" not in each}
        self.assertEqual(sorted(r["rank"] for r in jobs[0]["reports"]), [0, 1])
        self.end_job(job)

    def test_another_users_socket_with_the_jobs_id_is_not_the_job(self):
        job = self.start_job(count=1)
        os.rename(self.sockets()[0], os.path.join(self.place, f"{job[0].pid}-{0:016x}-0.sock"))
        status, out, err, _ = self.status_beside(1, {"comm": "forged", "members": "none"})
        self.assertEqual(status, 0, err)
        own, foreign = out.split("of user nobody (uid 65534):\n")
        self.assertIn(": 1 rank on 1 host", own)
        self.assertNotIn("forged", foreign)
        self.end_job(job)

    def test_an_answer_that_is_nested_without_end_is_no_answer(self):
        status, out, err, _ = self.status_beside(1, "[" * 1_000_000, "--json")
        self.assertEqual(status, 0, err)
        self.assertEqual([s["problem"] for s in json.loads(out)["jobs"][0]["silent"]],
                         ["its answer is no JSON object"])


class SocketTest(StatusCase):
    def test_sockets_of_a_killed_job_are_no_job_and_the_next_job_removes_them(self):
        job = self.start_job()
        pids = [process.pid for process in job.values()]
        for process in job.values():
            process.kill()
            process.wait()
        self.assertEqual(len(self.sockets()), 3)
        self.assertEqual(self.status("--pid", pids[0]).returncode, 1)
        job = self.start_job()
        self.assertEqual(len(self.sockets()), 3)
        for pid in pids:
            self.assertEqual(glob.glob(os.path.join(self.place, f"{pid}-*")), [])
        self.end_job(job)

    def test_a_forked_child_neither_serves_nor_removes_the_socket(self):
        def body(lib, lines):
            if rank_number() != 0:
                return reduce_until_told(lib, lines)
            comm = api.Comm.from_environment(lib)
            child = os.fork()
            if child == 0:
                comm.destroy()
                os._exit(0)
            os.waitpid(child, 0)
            lines.say(event="started")
            lines.hear()
            comm.abort()
            comm.destroy()
        job = self.start(1, body, {"XDG_RUNTIME_DIR": self.runtime_dir})
        self.hear_all(job, "started")
        self.assertEqual(self.job_of(job)["members"][0]["presence"], "answered")
        self.tell_all(job, stop=True)
        self.expect_end(job)

    def test_a_job_runs_on_where_no_socket_can_be(self):
        log = os.path.join(self.runtime_dir, "log")
        blocked = os.path.join(self.runtime_dir, "blocked")
        os.mkdir(blocked)
        os.symlink(self.runtime_dir, os.path.join(blocked, f"r2ccl-{os.geteuid()}"))
        for name, where in {"missing": os.path.join(self.runtime_dir, "missing"),
                            "a link": blocked,
                            "too long": os.path.join(self.runtime_dir, "n" * 100)}.items():
            with self.subTest(name):
                if name == "too long":
                    os.mkdir(where)
                if os.path.exists(log):
                    os.unlink(log)
                job = self.start_job(XDG_RUNTIME_DIR=where, R2CCL_DEBUG="WARN",
                                     R2CCL_DEBUG_FILE=log)
                self.end_job(job)
                with open(log, encoding="utf-8") as text:
                    lines = [line for line in text if "will not find" in line]
                self.assertEqual(len(lines), 3, "one for each rank")

    def test_nothing_is_served_where_the_user_does_not_want_it(self):
        job = self.start_job(R2CCL_STATUS="0")
        self.assertEqual(self.sockets(), [])
        self.assertEqual(self.status("--pid", job[0].pid).returncode, 1)
        self.end_job(job)

    def test_a_directory_that_others_may_enter_is_not_trusted(self):
        job = self.start_job()
        os.chmod(self.place, 0o755)
        done = self.status("--pid", job[0].pid)
        self.assertEqual(done.returncode, 1)
        self.assertIn("chmod 700", done.stderr)
        self.end_job(job)

    @unittest.skipIf(os.geteuid() != 0, "only root can be another user")
    def test_another_user_is_sent_away_and_the_command_sends_other_users_away(self):
        job = self.start_job()
        path = self.sockets()[0]
        for each in (self.runtime_dir, self.place, path):
            os.chmod(each, 0o777)
        child = os.fork()
        if child == 0:
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(20)
                try:
                    client.connect(path)
                    client.sendall(b"report\n")
                    os._exit(0 if client.recv(1) == b"" else 1)
                except (BrokenPipeError, ConnectionResetError):
                    os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        os.chmod(self.place, 0o700)
        self.assertEqual(self.job_of(job)["members"][0]["presence"], "answered")
        self.end_job(job)

    @unittest.skipIf(os.geteuid() != 0, "only root can be another user")
    def test_only_sockets_of_the_directorys_owner_count(self):
        os.mkdir(self.place, 0o700)
        path = os.path.join(self.place, "1-0123456789abcdef-0.sock")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            child = os.fork()
            if child == 0:
                os.setuid(NOBODY)
                listener.listen()  # the kernel records this process as the owner here
                signal.pause()
            self.addCleanup(os.waitpid, child, 0)
            self.addCleanup(os.kill, child, signal.SIGKILL)
            deadline = time.monotonic() + 10 + BUSY_S
            while True:
                told = self.status("--comm", "0123456789abcdef")
                if told.returncode == 0 or time.monotonic() > deadline:
                    break
        self.assertIn("another user's process listens there", told.stdout)


if __name__ == "__main__":
    program.main(__doc__)
