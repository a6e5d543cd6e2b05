#!/usr/bin/env python3
"""Attackers who speak the whole protocol (wire.py) against jobs: without the run's token they take
over nothing and learn nothing, and a rank of another run is a stranger. Needs nothing but the
loopback interface.

usage: security_test.py PATH_OF_R2CCL [unittest arguments]
"""
import itertools
import os
import time

import program
import r2ccl_api as api
import wire
from attacked_job import RANKS, SecurityCase, derived, environments, job_name, work
from local_job import SECRET, free_port, telling

WORDS = b"\x1b[31mSTRANGER WAS HERE\n"


def every_connection():
    """Returns (from, to, path, kind, NICs) of all possible connections of two ranks with two NICs
    each."""
    for one, other in itertools.permutations(range(RANKS), 2):
        for lower, higher in itertools.product(range(2), repeat=2):
            nics = (lower, higher) if one < other else (higher, lower)
            for kind in (wire.DATA, wire.CONTROL, wire.CALL, wire.JOIN):
                yield one, other, lower << 8 | higher, kind, nics
        yield one, other, wire.LOOPBACK_PATH, wire.DATA, (wire.NO_NIC, wire.NO_NIC)


class Stranger:
    """Tries every connection of a job with one key; after an accepted handshake does its worst."""

    def __init__(self, run):
        self.run, self.let_in, self.words = run, 0, set()

    def attack(self, endpoints):
        for endpoint, where in itertools.product(endpoints, every_connection()):
            payload = wire.address_notice(0, "127.0.0.1", 9) if where[3] == wire.CALL else b""
            try:
                opened = wire.open_path_connection(endpoint, self.run, *where[:4], nics=where[4],
                                                   incarnation=1000, payload=payload)
            except wire.Refused as refused:
                self.words.add(str(refused))
                continue
            except (OSError, AssertionError) as error:
                self.words.add(type(error).__name__)
                continue
            self.let_in += 1
            self.take_over(endpoint, where, *opened)

    def take_over(self, endpoint, where, connection, key, incarnation):
        if where[3] == wire.CONTROL:
            connection.send(wire.failure_frame(key, WORDS))
            time.sleep(0.2)
        if where[3] == wire.DATA:
            try:
                control, key, _ = wire.open_path_connection(
                    endpoint, self.run, *where[:3], wire.JOIN, nics=where[4],
                    incarnation=incarnation)
                control.send(wire.failure_frame(key, WORDS))
                time.sleep(0.2)
                control.close()
            except (OSError, wire.Refused):
                pass
        connection.close()


class TakeoverTest(SecurityCase):
    """Jobs without a secret, from the end of the start on."""

    def guesses(self, name):
        """Returns the runs that an attacker with all public knowledge could make up."""
        number = wire.job_number(name)
        for run_number in (number, wire.Run.of(number, bytes(32), b"").number, bytes(16)):
            yield wire.Run(run_number, bytes(32))
        yield wire.Run(number, wire.hashed("r2ccl job secret", b""))

    def test_a_stranger_takes_over_no_path_and_none_of_his_messages_is_accepted(self):
        port = free_port()
        job = self.start_work(environments(port)["torchrun"])
        self.hear_all(job, "ready")
        for run in self.guesses(job_name(port + 1, run_id="none")):
            stranger = Stranger(run)
            stranger.attack(self.ports(job))
            self.assertEqual(stranger.let_in, 0)
            self.assertTrue(stranger.words)
            self.assertFalse([words for words in stranger.words if "path" in words],
                             "he learns nothing of the paths")
        self.expect_unharmed(job)

    def test_a_stranger_with_the_public_number_of_the_run_fares_no_better(self):
        rendezvous = self.open_rendezvous()
        job = self.start_work({"ID": rendezvous.id()})
        self.hear_all(job, "ready")
        run = rendezvous.known_run()
        for key in (bytes(32), os.urandom(32), wire.keyed(bytes(32), "r2ccl run 2: key")):
            stranger = Stranger(wire.Run(run.number, key))
            stranger.attack(self.ports(job))
            self.assertEqual(stranger.let_in, 0)
        # The token alone does not suffice either: the key binds the table that the ranks hold.
        stranger = Stranger(wire.Run.of(rendezvous.job, rendezvous.token, rendezvous.table + b"x"))
        stranger.attack(self.ports(job))
        self.assertEqual(stranger.let_in, 0)
        self.expect_unharmed(job)

    def test_the_same_attack_with_the_token_ends_the_job(self):
        """The same attack succeeds with the token, so the tests above would see an attack that
        works."""
        rendezvous = self.open_rendezvous()
        job = self.start_work({"ID": rendezvous.id()})
        self.hear_all(job, "ready")
        stranger = Stranger(rendezvous.known_run())
        stranger.attack(self.ports(job))
        self.assertGreater(stranger.let_in, 0)
        over = self.hear(job[1], "over")
        self.assertEqual(over["code"], api.REMOTE, over["text"])
        # Each listener takes the paths of its own NIC alone.
        self.assertTrue([words for words in stranger.words if "listener of another NIC" in words])

    def test_every_launcher_keys_each_run_anew(self):
        for launcher in environments(0):
            with self.subTest(launcher=launcher):
                port = free_port()
                ranks = {"Open MPI": "OMPI_COMM_WORLD_RANK", "Slurm": "SLURM_PROCID"}
                environment = environments(port)[launcher]

                def body(lib, lines, variable=ranks.get(launcher)):
                    if variable:
                        os.environ[variable] = os.environ["OWN_RANK"] = os.environ.pop("RANK")
                        del os.environ["WORLD_SIZE"]
                    work(lib, lines)
                job = self.start(RANKS, body, {"R2CCL_SECRET": "", "LOGS": self.files}
                                 | environment)
                self.hear_all(job, "ready")
                name = {"torchrun": job_name(port + 1, run_id="none"),
                        "Open MPI": job_name(port, "Open MPI"),
                        "Slurm": job_name(port, "Slurm", slurm_job="17"),
                        "R2CCL_COMM_ID": job_name(port)}[launcher]
                stranger = Stranger(wire.Run(wire.job_number(name), bytes(32)))
                stranger.attack(self.ports(job))
                self.assertEqual(stranger.let_in, 0)
                self.expect_unharmed(job)


class OtherRunTest(SecurityCase):
    """One secret, two runs: a rank of one run is a stranger to the other run."""

    def start_known(self, job_number):
        rendezvous = self.open_rendezvous()
        rendezvous.job = job_number
        job = self.start_work({"ID": rendezvous.id()})
        self.hear_all(job, "ready")
        return job, rendezvous.known_run()

    def test_a_rank_of_a_run_that_is_over_is_refused_and_named(self):
        number = os.urandom(16)
        job, zombie = self.start_known(number)
        job[0].lines.say(stop=True)
        self.hear_all(job, "over")
        self.hear_all(job, "result")
        self.expect_end(job)
        job, _ = self.start_known(number)
        for run in (zombie, wire.Run(number, bytes(32))):
            stranger = Stranger(run)
            stranger.attack(self.ports(job))
            self.assertEqual(stranger.let_in, 0)
            self.assertTrue([words for words in stranger.words
                             if "another run of this one" in words])
        self.expect_unharmed(job)
        self.assertIn("says that it is rank 1, belongs to another job or to another run",
                      self.text())

    def test_a_rank_of_a_job_with_the_same_secret_is_refused(self):
        jobs = []
        for _ in range(2):
            port = free_port()
            number = wire.job_number(job_name(port))
            jobs.append((self.start_work({"R2CCL_SECRET": SECRET, "MASTER_PORT": str(port)}), number,
                         derived(SECRET, number)))
        for job, _, _ in jobs:
            self.hear_all(job, "ready")
        # Every rank here has the secret; no rank has the token of the other job.
        for (job, _, _), (_, number, secret) in itertools.product(jobs, jobs):
            for run in (wire.Run.of(number, bytes(32), b"", secret), wire.Run(number, secret),
                        wire.Run(number, bytes(32))):
                stranger = Stranger(run)
                stranger.attack(self.ports(job)[:3])
                self.assertEqual(stranger.let_in, 0)
        for job, _, _ in jobs:
            self.expect_unharmed(job)

    def test_a_rank_that_a_restart_left_behind_is_refused_at_the_rendezvous_and_told_why(self):
        def body(lib, lines):
            with telling(lines, "init"):
                api.Comm.from_environment(lib)
        port = str(free_port())
        same = {"MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none", "R2CCL_INIT_TIMEOUT_S": "3"}
        self.start(3, body, same | {"TORCHELASTIC_RESTART_COUNT": "1"}, ranks=(0,))
        zombie = self.start(3, body, same | {"TORCHELASTIC_RESTART_COUNT": "0"}, ranks=(1,))
        told = self.hear(zombie[1], "init")
        self.assertNotEqual(told["code"], api.SUCCESS)
        self.assertIn("belongs to another job, or to another run of this one", told["text"])

    def test_ranks_that_were_told_different_tables_do_not_meet_and_say_so(self):
        def lie(rank, table):
            if rank != 0:
                return table
            infos = wire.infos_of(table)
            infos[1] = wire.replace_in_info(infos[1], pid=4711)
            return wire.table_of(infos)
        rendezvous = self.open_rendezvous(lie)
        job = self.start_work({"ID": rendezvous.id(), "R2CCL_INIT_TIMEOUT_S": "2"})
        for rank in (0, 1):
            text = self.hear(job[rank], "exception")["text"]
            self.assertIn("do not hold the same table of ranks" if rank == 0 else "reaches", text)

    def test_a_rank_notices_that_the_table_says_something_else_of_itself(self):
        def lie(rank, table):
            infos = wire.infos_of(table)
            infos[rank] = wire.replace_in_info(infos[rank], pid=4711)
            return wire.table_of(infos)
        rendezvous = self.open_rendezvous(lie)
        job = self.start_work({"ID": rendezvous.id()})
        self.assertIn("tells the ranks something else of this rank than it said",
                      self.hear(job[0], "exception")["text"])


if __name__ == "__main__":
    program.main(__doc__)
