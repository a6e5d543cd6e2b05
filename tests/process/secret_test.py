#!/usr/bin/env python3
"""A job's secret: attempts to learn it, its file, and the warning without one. Needs nothing but the
loopback interface.

usage: secret_test.py PATH_OF_R2CCL [unittest arguments]
"""
import hashlib
import os
import stat
import subprocess
import time

import program
import r2ccl_api as api
import wire
from attacked_job import RANKS, SecurityCase, derived, job_name, work
from local_job import BUSY_S, PATIENCE_S, SECRET, free_port, telling
from proc import listening_ports


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
            # Without R2CCL_STATUS=0 the tests of `r2ccl status` find this job, when they run beside it.
            env={"PATH": os.environ["PATH"], "R2CCL_SOCKET_IFNAME": "=lo@127.0.0.1", "RANK": "0",
                 "R2CCL_STATUS": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                 **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + PATIENCE_S
        while len(listening_ports(process.pid)) < 2:  # the NIC and lo
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
                self.assertLess(told["seconds"], 5 + BUSY_S)


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
