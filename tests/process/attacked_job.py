"""Jobs that the tests of security_test.py and secret_test.py attack, and a rendezvous under the
control of the test."""
import ctypes
import json
import os
import socket
import tempfile
import threading

import r2ccl_api as api
import wire
from local_job import LocalJobCase, PATIENCE_S, telling
from proc import listening_ports

COUNT = 20_000
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


def derived(secret, job):
    """Returns the key of the job for a text that is not of `r2ccl secret`."""
    salt, text = wire.hashed("r2ccl secret 2: salt", job)[:16], secret.encode()
    out = ctypes.create_string_buffer(32)
    assert wire.sodium().crypto_pwhash(
        out, ctypes.c_ulonglong(32), text, ctypes.c_ulonglong(len(text)), salt,
        ctypes.c_ulonglong(2), ctypes.c_size_t(64 << 20), 2) == 0
    return out.raw


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
