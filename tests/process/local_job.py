"""A job of several ranks on this machine, each a forked process that talks to the test by lines.

Loopback addresses stand for NICs, so no packet leaves the machine, and any machine suffices. Every
wait has a bound, and the test kills every process that remains at its end.
"""
import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
import unittest

import r2ccl_api as api
from program import PATIENCE_S

NICS = "=lo@127.0.0.1,lo@127.0.0.2"
SECRET = "the secret of this test"
# Other programs may have the processors for as long. So these tests find an event that never comes,
# or comes by a longer timer; unit tests and simulations hold the exact bounds, in virtual time.
BUSY_S = 20


HELD_PORTS = []


def free_port():
    """Returns a port. The kernel gives it to no connection while this process lives.

    A socket that is bound and does not listen holds it: a listener with SO_REUSEADDR may share it,
    and no connection of a test beside this one is given it as its own port.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    HELD_PORTS.append(held)
    return held.getsockname()[1]


class Lines:
    """Whole JSON lines over a pair of pipes, with a bound on every read."""

    def __init__(self, read_fd, write_fd):
        self.read_fd, self.write_fd, self.rest = read_fd, write_fd, b""

    def say(self, **message):
        os.write(self.write_fd, json.dumps(message).encode() + b"\n")

    def hear(self, timeout=PATIENCE_S):
        """Returns None at the end of the stream; raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                raise TimeoutError
            data = os.read(self.read_fd, 65536)
            if not data:
                return None
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def close(self):
        for fd in (self.read_fd, self.write_fd):
            os.close(fd)


class RankProcess:
    def __init__(self, body, rank, environment, others):
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        sys.stdout.flush()
        self.rank = rank
        self.pid = os.fork()
        if self.pid == 0:
            for other in others:
                other.lines.close()
            os.close(down_write)
            os.close(up_read)
            for held in HELD_PORTS:  # a test counts the descriptors of its ranks
                held.close()
            run_rank(body, Lines(down_read, up_write), environment)
        os.close(down_read)
        os.close(up_write)
        self.lines = Lines(up_read, down_write)
        self.status = None

    def kill(self, number=signal.SIGKILL):
        if self.status is None:
            os.kill(self.pid, number)

    def wait(self):
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def end(self):
        self.kill()
        self.wait()
        self.lines.close()


def run_rank(body, lines, environment):
    try:
        for name in list(os.environ):
            if name.startswith(("R2CCL_", "NCCL_")):
                del os.environ[name]
        os.environ.update(environment)
        body(api.load(), lines)
        lines.say(event="end")
    except BaseException:  # the test shall read any error
        lines.say(event="exception", text=traceback.format_exc())
    os._exit(0)


@contextlib.contextmanager
def telling(lines, event, **more):
    """Tells the test how the block ended: {event, code, text, seconds}."""
    start = time.monotonic()
    code, text = api.SUCCESS, ""
    try:
        yield
    except api.R2cclError as error:
        code, text = error.code, error.text
    lines.say(event=event, code=code, text=text, seconds=time.monotonic() - start,
              at=time.monotonic(), **more)


def rank_number():
    """Returns the rank of the calling process, in the body of a rank."""
    return int(os.environ["RANK"])


class LocalJobCase(unittest.TestCase):
    def start(self, count, body, environment=None, ranks=None):
        """Forks ranks (all if None) that run body(library, lines); returns them by number."""
        common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port()), "R2CCL_SECRET": SECRET,
                  "R2CCL_SOCKET_IFNAME": NICS}
        common.update(environment or {})
        job = {}
        for rank in range(count) if ranks is None else ranks:
            own = common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            job[rank] = RankProcess(body, rank, own, job.values())
            self.addCleanup(job[rank].end)
        return job

    def hear(self, process, event, timeout=PATIENCE_S):
        try:
            message = process.lines.hear(timeout)
        except TimeoutError:
            self.fail(f"rank {process.rank} did not say '{event}' within {timeout} s")
        self.assertIsNotNone(message, f"rank {process.rank} ended before '{event}'")
        if message["event"] != event:
            self.fail(f"rank {process.rank} said {message['event']} in place of {event}: "
                      + message.get("text", str(message)))
        return message

    def hear_all(self, job, event, timeout=PATIENCE_S):
        deadline = time.monotonic() + timeout
        return {rank: self.hear(process, event, max(deadline - time.monotonic(), 0.01))
                for rank, process in job.items()}

    def tell_all(self, job, **message):
        for process in job.values():
            process.lines.say(**message)

    def expect_end(self, job):
        for rank, process in job.items():
            self.hear(process, "end")
            self.assertEqual(process.wait(), 0, f"rank {rank}'s exit status")

    def assert_ok(self, message):
        self.assertEqual(message["code"], api.SUCCESS, message["text"])
