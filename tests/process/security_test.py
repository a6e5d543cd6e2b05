#!/usr/bin/env python3
"""Attackers who speak the whole protocol (wire.py) against jobs: without the run's token they take
over nothing and learn nothing, and a rank of another run is a stranger. Needs nothing but the
loopback interface.

usage: security_test.py PATH_OF_R2CCL [unittest arguments]
"""
import ctypes
import hashlib
import itertools
import json
import os
import socket
import stat
import subprocess
import tempfile
import threading
import time
import unittest

import program
import r2ccl_api as api
import wire
from local_job import LocalJobCase, PATIENCE_S, SECRET, free_port, telling
from proc import listening_ports

COUNT = 20_000
WORDS = b"\x1b[31mSTRANGER WAS HERE\n"
RANKS = 2
ROUNDS = 10  # at least


def work(lib, lines):
    """Runs AllReduces and checks each one, until the test ends it."""
    rank = int(os.environ.get("OWN_RANK") or os.environ["RANK"])
    os.environ["R2CCL_HOST_ID"] = f"host{rank}"  # so that paths are between NICs
    log = os.environ["R2CCL_DEBUG_FILE"] = os.environ["LOGS"] + f"/log.{rank}"
    error = os.open(log + ".stderr", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(error, 2)
    if "ID" in os.environ:
        comm = api.Comm.from_id(lib, bytes.fromhex(os.environ["ID"]), RANKS, rank)
    else:
        comm = api.Comm.from_environment(lib)
    lines.say(event="ready")
    data = api.buffer(api.INT32, [rank + 1] * COUNT)
    out = api.buffer(api.INT32, [0] * COUNT)
    right = bytes(api.buffer(api.INT32, [sum(range(1, RANKS + 1))] * COUNT))
    stop = api.buffer(api.INT32, [0])
    wrong = rounds = 0
    with telling(lines, "over"):
        while not stop[0]:
            comm.all_reduce(data, out, COUNT, api.INT32)
            wrong += bytes(out) != right
            rounds += 1
            if rank == 0 and rounds >= ROUNDS:
                try:
                    lines.hear(0.001)
                    stop[0] = 1
                except TimeoutError:
                    pass
            comm.broadcast(stop, stop, 1, 0, api.INT32)
    lines.say(event="result", wrong=wrong, rounds=rounds, report=comm.report())
    comm.destroy()


def job_name(port, launcher="torchrun", run_id="", slurm_job=""):
    """Returns the library's name for a job whose launcher counts no restarts."""
    return f"{launcher}/{run_id}/{slurm_job}///////{port}"


def environments(port):
    """Returns the variables that each launcher sets, but for the rank."""
    return {
        "torchrun": {"TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": str(port)},
        "Open MPI": {"OMPI_COMM_WORLD_SIZE": str(RANKS), "MASTER_PORT": str(port)},
        "Slurm": {"SLURM_NTASKS": str(RANKS), "SLURM_JOB_ID": "17", "MASTER_PORT": str(port)},
        "R2CCL_COMM_ID": {"R2CCL_COMM_ID": f"127.0.0.1:{port}"},
    }


class SecurityCase(LocalJobCase):
    def setUp(self):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        self.files = files.name
        self.own_ports = set()

    def open_rendezvous(self, *change):
        rendezvous = Rendezvous(*change)
        self.own_ports.add(rendezvous.endpoint)
        self.addCleanup(rendezvous.close)
        rendezvous.start()
        return rendezvous

    def start_work(self, environment=None):
        more = {"R2CCL_SECRET": "", "LOGS": self.files, "R2CCL_DEBUG": "TRACE",
                "R2CCL_INIT_TIMEOUT_S": "20"}
        job = self.start(RANKS, work, more | (environment or {}))
        return job

    def ports(self, job):
        # Forks of this test have its listeners, too.
        return [e for process in job.values() for e in listening_ports(process.pid)
                if e not in self.own_ports]

    def text(self):
        out = ""
        for name in os.listdir(self.files):
            with open(os.path.join(self.files, name), encoding="utf-8", errors="replace") as text:
                out += text.read()
        return out

    def expect_unharmed(self, job):
        job[0].lines.say(stop=True)
        for told in self.hear_all(job, "over").values():
            self.assert_ok(told)
        for told in self.hear_all(job, "result").values():
            self.assertEqual(told["wrong"], 0)
            self.assertGreaterEqual(told["rounds"], ROUNDS)
            report = json.loads(told["report"])
            self.assertEqual(report["verdicts"], [])
            for path in report["paths"]:
                self.assertEqual((path["downs"], path["incarnation"]), (0, 1), path)
            self.assertNotIn("STRANGER", told["report"])
        self.expect_end(job)
        self.assertNotIn("STRANGER", self.text())


def every_connection():
    """Returns (from, to, path, kind, NICs) of all possible connections of two ranks with two NICs
    each."""
    for one, other in itertools.permutations(range(RANKS), 2):
        for lower, higher in itertools.product(range(2), repeat=2):
            nics = (lower, higher) if one < other else (higher, lower)
            for kind in (wire.DATA, wire.CONTROL, wire.CALL):
                yield one, other, lower << 8 | higher, kind, nics
        yield one, other, wire.LOOPBACK_PATH, wire.DATA, (wire.NO_NIC, wire.NO_NIC)


def derived(secret, job):
    """Returns the key of the job for a text that is not of `r2ccl secret`."""
    salt, text = wire.hashed("r2ccl secret 2: salt", job)[:16], secret.encode()
    out = ctypes.create_string_buffer(32)
    assert wire.sodium().crypto_pwhash(
        out, ctypes.c_ulonglong(32), text, ctypes.c_ulonglong(len(text)), salt,
        ctypes.c_ulonglong(2), ctypes.c_size_t(64 << 20), 2) == 0
    return out.raw


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
        if where[3] == wire.DATA:
            try:
                control, key, _ = wire.open_path_connection(
                    endpoint, self.run, *where[:3], wire.CONTROL, nics=where[4],
                    incarnation=incarnation)
                control.send(wire.failure_frame(key, WORDS))
                time.sleep(0.2)
                control.close()
            except (OSError, wire.Refused):
                pass
        connection.close()


class Rendezvous(threading.Thread):
    """A rendezvous under the control of the test, reached by a forged id: it knows the token of the
    run. `change(rank, table)` may give the ranks different tables."""

    def __init__(self, change=lambda rank, table: table):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = self.listener.getsockname()
        self.job, self.token, self.change, self.table = os.urandom(16), os.urandom(32), change, b""

    def id(self):
        return wire.forged_unique_id(self.endpoint, self.job).hex()

    def run(self):
        guests = {}
        while len(guests) < RANKS:
            connection = wire.Connection(self.listener.accept()[0], PATIENCE_S)
            try:
                messages, rank = wire.accept_rendezvous(connection)
                _, arrival = messages.receive()
            except (OSError, AssertionError):
                continue
            guests[rank] = messages, arrival[28:]
        self.table = wire.table_of([guests[rank][1] for rank in range(RANKS)])
        for rank, (messages, _) in guests.items():
            messages.send(wire.TOKEN, self.token)
            messages.send(wire.TABLE, self.change(rank, self.table))
        for messages, _ in guests.values():
            try:
                messages.receive()
            except OSError:
                pass  # a rank that got a false table leaves
            messages.connection.close()

    def close(self):
        self.listener.close()

    def known_run(self):
        return wire.Run.of(self.job, self.token, self.table)


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


class SecretTest(SecurityCase):
    """Attempts to learn a secret from answers, from the wire, and from a process."""

    def serve(self, secret, port=None):
        """Starts a job whose rank 1 never comes, so that its rendezvous stays; returns its
        endpoint."""
        def body(lib, lines):
            with telling(lines, "init"):
                api.Comm.from_environment(lib)
        port = port or free_port()
        job = self.start(2, body, {"MASTER_PORT": str(port), "R2CCL_SECRET": secret,
                                   "R2CCL_INIT_TIMEOUT_S": "30"}, ranks=(0,))
        deadline = time.monotonic() + PATIENCE_S
        while ("127.0.0.1", port) not in listening_ports(job[0].pid):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        return job, ("127.0.0.1", port)

    def job_id(self, port):
        return wire.job_number(job_name(port))

    def all_bytes(self, endpoint, secret):
        """Returns the answer of a rendezvous to a HELLO and a proof that is made of a guess."""
        connection = wire.Connection.to(endpoint)
        greeting = wire.hello(self.job_id(endpoint[1]), 1, wire.RENDEZVOUS_RANK, 0,
                              wire.RENDEZVOUS, secret=True)
        nonce, scalar = greeting[-32:], wire.random_scalar()
        greeting += wire.multiply(scalar, wire.generator(secret, self.job_id(endpoint[1]), 1,
                                                         nonce))
        connection.send(greeting)
        reply = connection.frame(wire.REPLY)
        root = wire.rendezvous_root(wire.multiply(scalar, reply[-32:]), nonce, greeting, reply)
        connection.add(greeting, reply)
        final = b"R2CL" + bytes([wire.FINAL, wire.VERSION, 0, 0])
        connection.send(final + connection.prove(final, "r2ccl rendezvous 2: FINAL", root))
        with self.assertRaises(wire.Refused) as refused:
            connection.frame(wire.CONFIRM)
        connection.close()
        return reply, str(refused.exception)

    def test_no_byte_of_an_answer_depends_on_the_secret(self):
        answers = []
        for secret in ("production-cluster-2026", "production-cluster-2027"):
            _, endpoint = self.serve(secret)
            answers.append(self.all_bytes(endpoint, b"a guess".ljust(32)))
        (one, one_words), (other, other_words) = answers
        self.assertEqual(one_words, other_words)
        # A number and a point, both random, and nothing else: 16 bytes, 32, 32.
        self.assertEqual(len(one), 80)
        self.assertEqual(one[:16], other[:16])

    def test_a_stranger_with_the_secret_is_let_in_at_the_same_place(self):
        """The right secret gets in, so the test above asked in the right way."""
        secret = "production-cluster-2026"
        _, endpoint = self.serve(secret)
        messages = wire.open_rendezvous(endpoint, self.job_id(endpoint[1]), 1,
                                        derived(secret, self.job_id(endpoint[1])))
        messages.connection.close()

    def test_a_word_list_finds_nothing_in_an_answer(self):
        secret = "production-cluster-2026"
        _, endpoint = self.serve(secret)
        reply, _ = self.all_bytes(endpoint, b"a guess".ljust(32))
        key = derived(secret, self.job_id(endpoint[1]))
        for label in ("FINAL", "CONFIRM", "root"):
            for text in (reply[:-32], reply, reply[:16]):
                digest = hashlib.blake2b(text, digest_size=32).digest()
                self.assertNotIn(wire.keyed(key, "r2ccl rendezvous 2: " + label, digest), reply)

    def bench(self, environment):
        """A job of one rank that does its best to leave copies of secrets in memory."""
        process = subprocess.Popen(
            [program.PATH, "bench", "-b", "4K", "--duration", "20"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "R2CCL_SOCKET_IFNAME": "=lo@127.0.0.1", "RANK": "0",
                 "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + PATIENCE_S
        while len(listening_ports(process.pid)) < 3:  # the rendezvous, the NIC and lo
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        time.sleep(0.5)
        return process.pid

    def hits(self, pid, wanted):
        """Returns [(name of the mapping, address, is in core dumps)] of each place that holds the
        bytes."""
        found, where = [], None
        with open(f"/proc/{pid}/smaps", encoding="ascii") as maps, \
                open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                words = line.split()
                if words[0] == "VmFlags:" and where:
                    begin, end, name = where
                    if end - begin > 4 << 30:
                        continue  # the shadow memory of a sanitizer, which holds no data
                    try:
                        memory.seek(begin)
                        data = memory.read(end - begin)
                    except (OSError, OverflowError):
                        continue
                    at = data.find(wanted)
                    while at >= 0:
                        found.append((name, begin + at, "dd" not in words))
                        at = data.find(wanted, at + 1)
                elif not words[0].endswith(":"):
                    begin, _, end = words[0].partition("-")
                    name = words[5] if len(words) > 5 else ""
                    where = (int(begin, 16), int(end, 16), name) if words[1][0] == "r" else None
        return found

    def test_a_rank_keeps_no_text_of_a_secret_and_its_key_in_a_locked_page_alone(self):
        name = os.path.join(self.files, "secret")
        self.assertEqual(program.run("secret", name).returncode, 0)
        with open(name, encoding="ascii") as text:
            generated = text.read().strip()
        weak = "correct-horse-" + generated[-12:]
        weak_file = os.path.join(self.files, "weak")
        with open(os.open(weak_file, os.O_WRONLY | os.O_CREAT, 0o600), "w",
                  encoding="ascii") as text:
            text.write(weak + "\n")
        for secret, file in ((generated, name), (weak, weak_file)):
            for environment in ({"R2CCL_SECRET": secret}, {"R2CCL_SECRET_FILE": file}):
                with self.subTest(length=len(secret), by=list(environment)[0]):
                    port = free_port()
                    pid = self.bench(environment | {"MASTER_PORT": str(port)})
                    for name_, *_ in self.hits(pid, secret.encode()):
                        self.assertEqual(name_, "[stack]", "the environment is there")
                        self.assertIn("R2CCL_SECRET", environment)
                    if secret == weak:
                        key = derived(secret, self.job_id(port))
                    else:
                        key = wire.keyed(bytes.fromhex(secret[13:]), "r2ccl secret 2: job",
                                         self.job_id(port))
                    hits = self.hits(pid, key)
                    self.assertTrue(hits, "the scan knows where to look")
                    self.assertEqual([hit for hit in hits if hit[2]], [])

    def test_the_command_makes_a_file_for_its_owner_alone_and_overwrites_none(self):
        name = os.path.join(self.files, "secret")
        self.assertEqual(program.run("secret", name).returncode, 0)
        self.assertEqual(stat.S_IMODE(os.stat(name).st_mode), 0o600)
        with open(name, encoding="ascii") as text:
            before = text.read()
        again = program.run("secret", name)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("File exists", again.stderr)
        with open(name, encoding="ascii") as text:
            self.assertEqual(text.read(), before)
        printed = program.run("secret")
        self.assertEqual(printed.returncode, 0)
        self.assertRegex(printed.stdout, r"^r2ccl-secret-[0-9a-f]{64}\n$")

    def test_a_secret_file_that_others_can_read_or_a_fifo_ends_the_start_at_once(self):
        def body(lib, lines):
            with telling(lines, "init"):
                api.Comm.from_environment(lib)
        open_file, fifo = (os.path.join(self.files, name) for name in ("open", "fifo"))
        with open(open_file, "w", encoding="ascii") as text:
            text.write("correct horse battery staple\n")
        os.chmod(open_file, 0o644)
        os.mkfifo(fifo, 0o600)
        for name, words in ((open_file, "other users can read or change the file: chmod 600"),
                            (fifo, "it is not a regular file")):
            with self.subTest(file=os.path.basename(name)):
                job = self.start(1, body, {"R2CCL_SECRET": "", "R2CCL_SECRET_FILE": name})
                told = self.hear(job[0], "init")
                self.assertEqual(told["code"], api.INVALID_ARGUMENT)
                self.assertIn(words, told["text"])
                self.assertLess(told["seconds"], 5)


class WarningTest(SecurityCase):
    def run_ranks(self, address, **environment):
        more = {"R2CCL_SECRET": "", "LOGS": self.files, "R2CCL_DEBUG": "", "MASTER_ADDR": address}
        job = self.start(RANKS, work, more | environment)
        self.hear_all(job, "ready")
        self.expect_unharmed(job)
        return self.text()

    def own_address(self):
        for line in subprocess.run(["ip", "-4", "-o", "addr"], text=True, check=True,
                                   stdout=subprocess.PIPE).stdout.splitlines():
            address = line.split()[3].partition("/")[0]
            if not address.startswith("127."):
                return address
        self.skipTest("this machine has no address but loopback")

    def test_an_open_start_is_told_in_one_line_unless_it_is_on_loopback_or_has_a_secret(self):
        address = self.own_address()
        self.assertEqual(self.run_ranks("127.0.0.1"), "")
        self.assertEqual(self.run_ranks(address, R2CCL_SECRET=SECRET), "")
        text = self.run_ranks(address)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertIn("the start of this job is open to strangers who reach " + address, text)
        self.assertIn("r2ccl secret", text)


if __name__ == "__main__":
    program.main(__doc__)
