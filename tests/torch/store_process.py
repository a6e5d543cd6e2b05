"""Strangers at torch's store, which anybody who reaches it reads and writes."""

import datetime
import subprocess
import sys
import tempfile
import unittest

import torch.distributed as dist

from r2ccl import errors, library, rendezvous
from r2ccl.communicator import Communicator, Config
from run import environment

KEY = "0//cpu//r2ccl/id"
SECRET = "a secret that the store never sees"
PATIENCE_S = 240  # a busy machine takes a minute to import torch
RANK = """
import datetime, os, sys
import torch, torch.distributed as dist, r2ccl
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
store = dist.TCPStore("127.0.0.1", int(os.environ["PORT"]), is_master=False)
try:
    dist.init_process_group("r2ccl", store=store, rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=float(os.environ["BOUND"])))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
tensor = torch.ones(3) * (rank + 1)
dist.all_reduce(tensor)
print(tensor.tolist())
dist.destroy_process_group()
"""


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                                   timeout=datetime.timedelta(seconds=PATIENCE_S))
        self.processes = []
        self.addCleanup(lambda: [process.communicate() for process in self.processes])
        self.addCleanup(lambda: [process.kill() for process in self.processes])

    def start(self, rank, bound_s=PATIENCE_S, **env):
        env = {**environment(), "RANK": str(rank), "PORT": str(self.store.port),
               "BOUND": str(bound_s), **env}
        self.processes.append(subprocess.Popen(
            [sys.executable, "-c", RANK], env=env, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE))
        return self.processes[-1]

    def expect_sum(self, process):
        output, error = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, output.strip()), (0, "[3.0, 3.0, 3.0]"), error)
        return error

    def join(self, identity, rank=1, bound_s=6):
        """A stranger in this process, which has no secret, takes a rank's place."""
        made = Communicator.create(library.load(), identity, 2, rank, Config(),
                                   int(bound_s * 1000))
        made.abort()
        made.destroy()

    def test_with_a_secret_a_stranger_who_reads_the_store_cannot_join(self):
        for name in ("R2CCL_SECRET", "R2CCL_SECRET_FILE"):
            with self.subTest(by=name), tempfile.NamedTemporaryFile() as file:
                file.write(SECRET.encode())
                file.flush()
                secret = {name: SECRET if name == "R2CCL_SECRET" else file.name,
                          "R2CCL_REQUIRE_AUTH": "1"}
                first = self.start(0, **secret)
                identity = bytes(self.store.get(KEY))
                with self.assertRaises(errors.WaitTimeoutError) as refused:
                    self.join(identity)
                self.assertIn("has a secret", str(refused.exception))
                second = self.start(1, **secret)
                self.expect_sum(first)
                self.expect_sum(second)

    def test_with_a_secret_a_stranger_who_writes_the_store_leads_no_rank_anywhere(self):
        forged = Communicator.public_id(library.load(), Config(), PATIENCE_S * 1000)
        self.store.set(KEY, forged)
        rank = self.start(1, bound_s=3, R2CCL_SECRET=SECRET)
        _, error = rank.communicate(timeout=PATIENCE_S)
        self.assertNotEqual(rank.returncode, 0)
        self.assertIn("has not proved that it belongs to this job", error)

    def test_the_store_has_no_secret_and_a_start_without_one_is_told(self):
        first = self.start(0)
        identity = bytes(self.store.get(KEY))
        self.assertEqual(identity[5], 0, "the id says that it holds no secret")
        self.assertEqual(identity[24:56], bytes(32))
        is_loopback = identity[59:60] == b"\x7f"
        second = self.start(1)
        told = self.expect_sum(first)
        self.assertEqual(self.expect_sum(second), "")
        self.assertEqual("open to strangers" in told, not is_loopback, told)
        # It closes when all have met.
        with self.assertRaises(errors.R2cclError):
            self.join(identity, bound_s=1)

    def test_require_auth_without_a_secret_is_an_error_on_all_ranks(self):
        ranks = [self.start(rank, R2CCL_REQUIRE_AUTH="1") for rank in range(2)]
        for rank in ranks:
            _, error = rank.communicate(timeout=PATIENCE_S)
            self.assertNotEqual(rank.returncode, 0)
            self.assertIn("R2CCL_SECRET_FILE", error)

    def test_ranks_with_different_secrets_do_not_meet(self):
        ranks = [self.start(rank, bound_s=3, R2CCL_SECRET=SECRET + str(rank)) for rank in range(2)]
        for rank in ranks:
            _, error = rank.communicate(timeout=PATIENCE_S)
            self.assertNotEqual(rank.returncode, 0)
            self.assertIn("wrong secret", error)

    def test_a_text_of_the_store_is_shown_on_one_line_and_bounded(self):
        self.store.set(KEY, b"error: run this\n\x1b[2Jnow \xe2\x80\xae\xff" + b"x" * 100_000)
        with self.assertRaises(errors.RemoteRankError) as told:
            rendezvous.identity(None, dist.PrefixStore("0//cpu/", self.store), 1, 2,
                                None, 0)
        text = str(told.exception)
        self.assertIn("torch's store says", text)
        self.assertTrue(text.isprintable())
        self.assertLess(len(text), 1000)
        with self.assertRaises(errors.RemoteRankError):
            rendezvous.told(b"12 bytes....")


if __name__ == "__main__":
    unittest.main()
