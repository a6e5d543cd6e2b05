#!/usr/bin/env python3
"""`r2ccl drain` with several jobs that have the NIC, one of which prevents the drain. The jobs are
sockets of this test that answer as ranks do, so that the test controls the moment of each answer.

usage: drain_words_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import socket
import tempfile
import threading
import unittest

import foreign_sockets
import program

COMM = "d4a1"  # the begin of all ids here: the command asks no other jobs of this machine
SILENT = None  # the answer of a rank that hangs up: to the command it equals a stopped rank


def rank(number, host, **tally):
    whole = {"paths": 1, "up": 1, "marked": 0, "in_use": 0, "busy": 0, "stranded": 0, "peer": -1,
             "stranded_peer": -1}
    return {"rank": number, "host": host, "presence": "answered", "tally": whole | tally}


def answer(marked, **tally):
    """Returns the answer of a job of the ranks 0 (h0) and 1 (h1), about h1 nic0."""
    return {"host": "h1", "nic": "nic0",
            "ranks": [rank(n, f"h{n}", marked=int(marked), **tally) for n in (0, 1)]}


IN_SERVICE = answer(False)
DRAINED = answer(True)
LAST = answer(False, stranded=1, stranded_peer=1)
UNKNOWN_HOST = {"problem": "no host of this job is called h1", "unknown": "host"}


class Job:
    """Answers `check`, `start`, `undo` and `back` from `answers`: with the value, or with its
    result if it is a function. As with a rank, start drains it and the other requests do not."""

    def __init__(self, directory, number, **answers):
        self.comm = f"{COMM}{number:012x}"
        self.answers = answers
        self.heard = []  # the words before the NIC, in the order of the requests
        self.drained = False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(directory, f"{os.getpid()}-{self.comm}-0.sock"))
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                line = connection.makefile().readline()
                _, words, nic, host = line.split()
                assert (nic, host) == ("nic0", "h1"), line
                self.heard.append(words)
                said = self.reply(words.split(":")[0])
                if said is not SILENT:
                    connection.sendall(json.dumps(said).encode() + b"\n")

    def reply(self, verb):
        if verb not in self.answers:
            self.drained = {"start": True, "undo": False, "back": False}.get(verb, self.drained)
            return DRAINED if self.drained else IN_SERVICE
        said = self.answers[verb]
        return said() if callable(said) else said

    def verbs(self):
        """Returns the words with repetitions merged."""
        verbs = [words.split(":")[0] for words in self.heard]
        return [v for v, before in zip(verbs, [None, *verbs]) if v != before]

    def ticket(self, verb):
        return next(words.split(":")[1] for words in self.heard if words.startswith(verb + ":"))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


class DrainWordsTest(unittest.TestCase):
    def setUp(self):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.environment = os.environ | {"XDG_RUNTIME_DIR": files.name}
        self.directory = os.path.join(files.name, f"r2ccl-{os.geteuid()}")
        os.mkdir(self.directory, mode=0o700)

    def job(self, number, **answers):
        job = Job(self.directory, number, **answers)
        self.addCleanup(job.close)
        return job

    def drain(self, *words):
        return program.run("drain", "--comm", COMM, "--timeout", "0.3", *words, "h1", "nic0",
                           env=self.environment)

    def expect(self, done, status, out=(), err=(), never=()):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for part in out:
            self.assertIn(part, done.stdout)
        for part in err:
            self.assertIn(part, done.stderr)
        for part in never:
            self.assertNotIn(part, done.stdout + done.stderr)

    def test_all_jobs_are_drained_with_one_ticket_and_another_time_with_another(self):
        jobs = [self.job(1), self.job(2)]
        self.expect(self.drain(), 0, out=[f"job {job.comm}: h1 nic0 is out" for job in jobs])
        self.assertEqual(jobs[0].verbs(), ["check", "start", "check"])
        self.assertEqual(jobs[0].ticket("start"), jobs[1].ticket("start"))
        before = len(jobs[0].heard)
        self.expect(self.drain(), 0)
        again = next(w for w in jobs[0].heard[before:] if w.startswith("start:"))
        self.assertNotEqual(again, "start:" + jobs[1].ticket("start"))
        self.expect(self.drain("--undo"), 0, out=["is back in service"])

    def test_a_started_drain_is_taken_back_when_another_job_refuses(self):
        begun = self.job(1)
        refusing = self.job(2, start=LAST)
        self.expect(self.drain(), 1, err=[f"refused: job {refusing.comm} needs h1 nic0"],
                    never=["out of service"])
        self.assertEqual(begun.verbs(), ["check", "start", "back"])
        self.assertEqual(begun.ticket("back"), begun.ticket("start"))
        self.assertFalse(begun.drained)

    def test_a_drain_that_another_command_asked_for_too_is_said_to_stay(self):
        begun = self.job(1, back=DRAINED)
        self.job(2, start=LAST)
        self.expect(self.drain(), 1,
                    err=[f"job {begun.comm}: h1 nic0 is, or may be, out of service all the same",
                         "rank 1 (h1) has it out of service, because it was so before"],
                    never=["rank 0 (h0) has"])

    def test_a_job_that_gives_no_answer_may_have_acted(self):
        begun = self.job(1)
        silent = self.job(2, start=SILENT)
        self.expect(self.drain(), 2, err=[f"job {silent.comm}: no rank on this host answers"],
                    never=["all the same"])
        self.assertEqual(begun.verbs(), ["check", "start", "back"])
        self.assertEqual(silent.ticket("back"), silent.ticket("start"))
        mute = self.job(3, start=SILENT, back=SILENT)
        self.expect(self.drain(), 2,
                    err=[f"job {mute.comm}: h1 nic0 may be out of service all the same: no rank"])

    def test_a_job_that_is_made_meanwhile_is_told_to_take_it_back_as_well(self):
        late = []
        self.job(1)
        self.job(2, start=lambda: late.append(self.job(3)) or LAST)
        self.expect(self.drain(), 1)
        self.assertEqual(late[0].verbs(), ["back"])

    def test_a_job_that_is_found_later_and_refuses_takes_nothing_back(self):
        late = []

        def check():
            if not late and early.drained:
                late.append(self.job(2, check=LAST))
            return DRAINED if early.drained else IN_SERVICE
        early = self.job(1, check=check)
        done = self.drain()
        self.expect(done, 1, out=[f"job {early.comm}: h1 nic0 is out of service"],
                    err=[f"refused: job {late[0].comm} needs h1 nic0", "it stays asked for"])
        self.assertNotIn("start", late[0].verbs())
        self.assertEqual(early.verbs(), ["check", "start", "check"])

    def test_a_job_that_is_found_later_and_refuses_only_then_takes_nothing_back(self):
        late = []

        def check():
            if not late and early.drained:
                late.extend([self.job(2, start=LAST), self.job(3)])
            return DRAINED if early.drained else IN_SERVICE
        early = self.job(1, check=check)
        self.expect(self.drain(), 1, err=["refused", "it stays asked for"])
        self.assertTrue(early.drained)
        self.assertTrue(late[1].drained, "the others are drained all the same")
        for job in (early, *late):
            self.assertNotIn("back", job.verbs())
            self.assertNotIn("undo", job.verbs())

    def test_a_job_without_the_nic_is_asked_no_more(self):
        concerned = self.job(1)
        other = self.job(2, check=lambda: UNKNOWN_HOST if len(other.heard) == 1 else SILENT)
        self.expect(self.drain(), 0, out=[f"job {concerned.comm}"], never=[other.comm])
        self.assertEqual(other.heard, ["check"])

    def test_a_new_job_that_gives_no_answer_may_use_the_nic(self):
        late = []

        def check():
            if not late and early.drained:
                late.append(self.job(2, check=SILENT))
            return DRAINED if early.drained else IN_SERVICE
        early = self.job(1, check=check)
        self.expect(self.drain(), 1, out=[f"job {early.comm}: h1 nic0 is out of service"],
                    err=[f"job {late[0].comm}, which is new: no rank", "it stays asked for"])
        self.assertEqual(late[0].heard, ["check"])

    def test_undo_gives_the_nic_back_to_each_job_that_answers(self):
        silent = self.job(1, undo=SILENT, check=DRAINED)
        other = self.job(2)
        self.expect(self.drain("--undo"), 1, out=[f"job {other.comm}: h1 nic0 is back"],
                    err=[f"job {silent.comm}: no rank", "is not back in service yet"],
                    never=["stays asked for"])


class ForeignDrainTest(unittest.TestCase):
    """Root's drain beside another user's sockets."""

    def setUp(self):
        foreign_sockets.need_namespaces()
        files = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(files.cleanup)
        self.environment = os.environ | {"XDG_RUNTIME_DIR": files.name}
        directory = os.path.join(files.name, f"r2ccl-{os.geteuid()}")
        os.mkdir(directory, mode=0o700)
        self.job = Job(directory, 1)
        self.addCleanup(self.job.close)

    def drain_beside(self, count, answer_of_all, *words):
        return foreign_sockets.run_beside(count, answer_of_all, "drain", "--timeout", 0.3, *words,
                                          "h1", "nic0", environment=self.environment)

    def test_another_user_cannot_refuse(self):
        for said, why in ((LAST, "it needs h1 nic0"), (SILENT, "no rank on this host answers"),
                          ({"problem": "no", "unknown": "answer"}, "no; it cannot refuse")):
            with self.subTest(said=said):
                self.job.drained = False
                status, out, err, seconds = self.drain_beside(3, said)
                self.assertEqual(status, 0, err)
                self.assertIn(f"job {self.job.comm}: h1 nic0 is out of service", out)
                self.assertTrue(self.job.drained)
                self.assertIn("of user nobody (uid 65534): " + why, err)
                self.assertIn("it cannot refuse without --user 65534", err)
                self.assertLess(seconds, 30)

    def test_a_user_who_is_named_can_refuse(self):
        for user in ("nobody", "65534"):
            status, _, err, _ = self.drain_beside(1, LAST, "--user", user)
            self.assertEqual(status, 1, err)
            self.assertIn("refused: job 0000000000000000 of user nobody", err)
            self.assertFalse(self.job.drained)
        status, _, err, _ = self.drain_beside(1, LAST, "--user", "no-such-user")
        self.assertNotEqual(status, 0)
        self.assertIn("there is no user 'no-such-user'", err)

    def test_a_foreign_job_that_agrees_is_drained_and_may_take_its_time(self):
        status, out, err, _ = self.drain_beside(1, IN_SERVICE)
        self.assertEqual(status, 0, err)
        self.assertIn("is not out of service yet", err)
        status, out, err, _ = self.drain_beside(1, DRAINED)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("of user nobody (uid 65534): h1 nic0 is out of service", out)

    def test_with_foreign_jobs_alone_that_refuse_nothing_is_drained(self):
        self.job.answers["check"] = UNKNOWN_HOST
        status, _, err, _ = self.drain_beside(2, LAST)
        self.assertNotEqual(status, 0, err)


if __name__ == "__main__":
    program.main(__doc__)
