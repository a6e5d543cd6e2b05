"""Whole processes: exit, crash, Ctrl-C, installation. Each test starts its own."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import torch.distributed as dist

from run import environment, free_port

HEAD = """
import os, sys, time, datetime
import torch, torch.distributed as dist, r2ccl
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("r2ccl", timeout=datetime.timedelta(seconds=60))
"""


def start(body, rank=0, size=1, port=None, **env):
    """Starts one rank that runs the body after the group is there."""
    env = {**environment(), "RANK": str(rank), "WORLD_SIZE": str(size),
           "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": str(port or free_port()), **env}
    return subprocess.Popen([sys.executable, "-c", HEAD + textwrap.dedent(body)], env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def next_line(process):
    """Returns the next line of output, or an empty one from a process that hangs."""
    watchdog = threading.Timer(90, process.kill)
    watchdog.start()
    try:
        return process.stdout.readline().strip()
    finally:
        watchdog.cancel()


def run(body, size):
    """Runs all ranks. Returns [(exit code, standard output, standard error)]."""
    port = free_port()
    processes = [start(body, rank, size, port) for rank in range(size)]
    outcomes = [process.communicate(timeout=120) for process in processes]
    return [(process.returncode, error, output)
            for process, (output, error) in zip(processes, outcomes)]


class ExitTest(unittest.TestCase):
    def test_a_script_that_destroys_nothing_ends_well(self):
        results = run("""
            tensor = torch.ones(3) * (rank + 1)
            dist.all_reduce(tensor)
            dist.all_reduce(torch.ones(3), async_op=True)
            print(tensor.tolist())
        """, 2)
        for code, error, output in results:
            self.assertEqual((code, output.strip()), (0, "[3.0, 3.0, 3.0]"), error)

    def test_a_group_ends_in_order_where_no_thread_can_start(self):
        # So it is from Python 3.12 on while the interpreter exits.
        results = run("""
            import atexit, threading
            def refuse(thread):
                raise RuntimeError("can't create new thread at interpreter shutdown")
            atexit.register(lambda: setattr(threading.Thread, "start", refuse))
            dist.barrier()
            if rank == 0:
                dist.isend(torch.ones(3), 1)  # complete before its recv
            else:
                time.sleep(0.5)
                dist.recv(torch.zeros(3), 0)
        """, 2)
        for code, error, _ in results:
            self.assertEqual((code, error), (0, ""))

    def test_a_forked_child_may_end_the_group_of_its_parent(self):
        results = run("""
            dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
            child = os.fork()
            if child == 0:
                dist.destroy_process_group()
                os._exit(0)
            print(os.waitpid(child, 0)[1])
            dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
            dist.destroy_process_group()
        """, 2)
        for code, error, output in results:
            self.assertEqual((code, output.strip()), (0, "0"), error)

    def test_a_rank_that_raises_ends_the_others_at_once(self):
        started = time.monotonic()
        (code0, error0, _), (code1, error1, _) = run("""
            dist.barrier()
            if rank == 1:
                raise ValueError("a mistake of the script")
            dist.all_reduce(torch.ones(3))
        """, 2)
        self.assertLess(time.monotonic() - started, 60)
        self.assertNotEqual((code0, code1), (0, 0))
        self.assertIn("a mistake of the script", error1)
        self.assertRegex(error0, r"RemoteRankError: rank 1 .* aborted: raised ValueError: a mistake")

    def test_a_handler_of_ddps_error_gets_the_typed_one_and_the_other_ranks_exception(self):
        (code, error, output), _ = run("""
            import json
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
            loss = model(torch.ones(2, 4)).sum()
            print(json.dumps(r2ccl.last_error()))
            dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(torch.ones(1), 0)
            if rank == 1:
                time.sleep(0.5)  # usually rank 0 waits in backward() by now
                raise KeyError("a broken\\nbatch\\x1b[31m" + 5000 * "!")
            try:
                loss.backward()
            except RuntimeError as error:
                typed = r2ccl.last_error()
                print(json.dumps([str(error), str(typed), type(typed).__name__, typed.ranks]))
        """, 2)
        self.assertEqual(code, 0, error)
        before, after = map(json.loads, output.splitlines())
        self.assertIsNone(before)
        text, typed_text, name, ranks = after
        self.assertEqual((name, ranks), ("RemoteRankError", [1]))
        self.assertRegex(typed_text, r"^rank 1 .* aborted: raised KeyError: '?a broken")
        self.assertLess(len(typed_text), 1500)
        self.assertTrue(typed_text.isprintable(), typed_text)
        self.assertTrue(text.endswith(typed_text), text)

    def test_a_child_of_multiprocessing_that_raises_ends_the_others_with_its_exception(self):
        # It runs no function of atexit, on which other processes rely.
        code = """
            import multiprocessing, os, sys, torch, torch.distributed as dist, r2ccl
            def child(rank, wrapped):
                os.environ["RANK"] = str(rank)
                dist.init_process_group("r2ccl")
                try:
                    if rank == 1:
                        raise ValueError("a mistake of the child")
                except ValueError:
                    if wrapped:
                        sys.exit(1)  # as the children of torch.multiprocessing.spawn do
                    raise
                try:
                    dist.all_reduce(torch.ones(3))
                except r2ccl.RemoteRankError as error:
                    print(error, flush=True)
            context = multiprocessing.get_context("fork")
            children = [context.Process(target=child, args=(rank, sys.argv[1:] == ["wrapped"]))
                        for rank in (0, 1)]
            for each in children: each.start()
            for each in children: each.join()
            print([each.exitcode for each in children])
        """
        for words in ([], ["wrapped"]):
            with self.subTest(words=words):
                env = {**environment(), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(free_port())}
                done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *words], env=env,
                                      capture_output=True, text=True, timeout=120, check=False)
                self.assertRegex(done.stdout, r"^rank 1 .* aborted: raised ValueError: a mistake",
                                 done.stderr)
                self.assertTrue(done.stdout.endswith("[0, 1]\n"), done.stdout + done.stderr)

    def test_a_rank_that_is_killed_is_named_recorded_and_logged(self):
        port = free_port()
        body = """
            import logging, threading
            logged = threading.Event()
            class Heard(logging.Handler):
                def emit(self, record):
                    if record.levelno == logging.WARNING:  # a verdict; the call's error is an ERROR
                        logged.set()
            logging.getLogger("torch.distributed.r2ccl").addHandler(Heard())
            dist.barrier()
            print("ready", flush=True)
            if rank == 1:
                time.sleep(60)
            try:
                dist.all_reduce(torch.ones(3))
            except r2ccl.RemoteRankError as error:
                print(error.ranks, error.dump, [str(v) for v in r2ccl.health().verdicts])
            print("logged", logged.wait(10))
        """
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "dump_")
            first = start(body, 0, 2, port, R2CCL_TORCH_DUMP_PREFIX=prefix)
            second = start(body, 1, 2, port)
            for process in (first, second):  # both have passed the barrier
                self.assertEqual(next_line(process), "ready")
            second.kill()
            second.communicate()
            output, error = first.communicate(timeout=60)
            found = re.match(r"\(1,\) (\S+) (.*)", output)
            self.assertTrue(found, output + error)
            self.assertIn("rank 1 died", found.group(2))
            with open(found.group(1), encoding="utf-8") as file:
                entries = json.load(file)["entries"]
        self.assertEqual([entry["profiling_name"] for entry in entries],
                         ["r2ccl:barrier", "r2ccl:all_reduce"])
        self.assertEqual(first.returncode, 0)
        self.assertIn("\nlogged True\n", output)

    def test_ctrl_c_ends_a_wait(self):
        # A script in the background of a shell may have started this with the signal ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # The group has a cut-off of its own, so its ranks meet by the store.
        for wait in ("dist.recv(torch.ones(1), 1)", "dist.barrier()",
                     "dist.new_group([0, 1], pg_options=r2ccl.Config(cutoff_ms=60_000))"):
            with self.subTest(wait=wait):
                port = free_port()
                body = f"""
                    if rank == 0:
                        print("ready", flush=True)
                        try:
                            {wait}
                        except KeyboardInterrupt:
                            print("interrupted", flush=True)
                            raise
                    time.sleep(60)
                """
                first, second = (start(body, rank, 2, port) for rank in (0, 1))
                self.assertEqual(next_line(first), "ready")
                time.sleep(1.0)
                started = time.monotonic()
                first.send_signal(signal.SIGINT)
                self.assertEqual(next_line(first), "interrupted")
                self.assertLess(time.monotonic() - started, 15)  # and no 60, busy or not
                first.communicate(timeout=30)
                second.kill()
                second.communicate()
                self.assertNotEqual(first.returncode, 0)
                self.assertLess(time.monotonic() - started, 45)

    def test_a_handler_of_a_signal_that_exits_in_a_wait_ends_the_other_ranks_at_once(self):
        started = time.monotonic()
        (code, error, _), (_, other_error, _) = run("""
            import signal
            dist.barrier()
            if rank == 0:
                signal.signal(signal.SIGALRM, lambda *_: sys.exit(3))
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                dist.all_reduce(torch.ones(3))
            dist.recv(torch.ones(1), 0)
        """, 2)
        self.assertLess(time.monotonic() - started, 50)
        self.assertEqual(code, 3, error)
        self.assertRegex(other_error, r"RemoteRankError: rank 0 .*aborted")

    def test_a_callback_hears_of_a_rank_that_dies_and_its_errors_are_logged(self):
        port = free_port()
        body = """
            if rank == 0:
                def fails(verdict):
                    raise RuntimeError("a mistake of the callback")
                r2ccl.on_verdict(fails)
                r2ccl.on_verdict(lambda verdict: print(verdict.scope, verdict.process, flush=True))
            dist.barrier()
            print("ready", flush=True)
            time.sleep(60)
        """
        first, second = (start(body, rank, 2, port) for rank in (0, 1))
        self.assertEqual(next_line(second), "ready")
        self.assertEqual(next_line(first), "ready")
        second.kill()
        second.communicate()
        self.assertEqual(next_line(first), "process 1")
        first.kill()
        error = first.communicate()[1]
        self.assertIn("rank 1 died", error)
        self.assertIn("a mistake of the callback", error)


class InstallationTest(unittest.TestCase):
    def python(self, code, *options, **env):
        return subprocess.run([sys.executable, *options, "-c", code], env={**environment(), **env},
                              capture_output=True, text=True, timeout=60, check=False)

    def test_a_library_that_is_missing_or_no_library_is_named_with_the_remedy(self):
        code = "import r2ccl.library as l, r2ccl\nl.load()"
        for path in ("/does/not/exist.so", os.path.abspath(__file__)):
            done = self.python(code, R2CCL_LIBRARY=path)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, f"LibraryError: .*{re.escape(path)}.*R2CCL_LIBRARY")

    def test_a_library_of_another_version_is_refused(self):
        code = ("import r2ccl.c_api as c\nc.R2CCL_VERSION_CODE += 100\n"
                "import r2ccl.library as l\nl.load()")
        done = self.python(code)
        self.assertRegex(done.stderr, "LibraryError: .*has version 0.1.0.*needs 0.2.0")

    def test_the_package_works_without_torch(self):
        code = "import r2ccl\nfrom r2ccl import library\nprint(r2ccl.__all__, library.load().version)"
        done = self.python(code, "-S")  # without the environment's packages
        self.assertEqual(done.stdout.strip(), "['__version__'] 100", done.stderr)

    def test_the_hook_of_import_torch_registers_the_backend_and_loads_nothing(self):
        code = """
            import sys, torch, torch.distributed as dist, r2ccl_autoload
            r2ccl_autoload.register()
            print("r2ccl" in sys.modules)
            dist.init_process_group("r2ccl", store=dist.HashStore(), rank=0, world_size=1)
            total = torch.ones(2)
            dist.all_reduce(total)
            print(total.tolist(), dist.get_backend())
        """
        # An installed wheel has called the hook already.
        done = self.python(textwrap.dedent(code), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        self.assertEqual(done.stdout, "False\n[1.0, 1.0] r2ccl\n", done.stderr)

    def test_a_map_of_devices_that_torch_does_not_honour_is_told(self):
        code = """
            import torch, torch.distributed as dist, r2ccl
            dist.init_process_group("{}", store=dist.HashStore(), rank=0, world_size=1)
            dist.all_reduce(torch.ones(2))
        """
        for backends, others in (("cpu:gloo,cuda:r2ccl", "cpu:gloo"), ("cpu:r2ccl,cuda:r2ccl", ""),
                                 ("r2ccl", "")):
            done = self.python(textwrap.dedent(code).format(backends))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("So r2ccl takes those of cpu:gloo, too" in done.stderr, others != "",
                             done.stderr)

    def test_info(self):
        done = subprocess.run([sys.executable, "-m", "r2ccl.info", "--json"], env=environment(),
                              capture_output=True, text=True, timeout=60, check=True)
        facts = json.loads(done.stdout)
        self.assertEqual((facts["package"], facts["backend"]), ("0.1.0", "registered"))
        self.assertTrue(all("name" in nic for nic in facts["nics"]))
        done = subprocess.run([sys.executable, "-m", "r2ccl.info"], capture_output=True,
                              env={**environment(), "R2CCL_LIBRARY": "/none"}, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot load r2ccl's library", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class DeathTest(unittest.TestCase):
    """Ranks are killed, and the others go on in a smaller group."""

    BODY = """
        from torch.nn.parallel import DistributedDataParallel
        def go_on(error):
            dead = set(error.ranks)
            for _ in range(100):
                try:
                    return r2ccl.shrink_group(sorted(dead))
                except r2ccl.R2cclError as again:
                    if isinstance(again, r2ccl.RemoteRankError) and not set(again.ranks) - dead:
                        raise
                    dead |= set(again.ranks)
            raise error
        def gradient():
            torch.manual_seed(1)
            model = DistributedDataParallel(torch.nn.Linear(4, 3))
            model(torch.full((2, 4), rank + 1.0)).sum().backward()
            return model.module.weight.grad[0, 0].item()
        dist.new_group([0, 1])
        print("up", flush=True)
        while dist.get_world_size() > LEFT:
            try:
                while True:
                    dist.all_reduce(torch.ones(10000))
            except r2ccl.RemoteRankError as error:
                go_on(error)
        total = torch.tensor([rank + 1.0])
        dist.all_reduce(total)
        pair = dist.new_group([0, 1])
        if dist.get_rank() < 2:
            dist.barrier(group=pair)
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, rank)
        print(dist.get_rank(), dist.get_world_size(), total.item(), round(gradient(), 3), gathered,
              flush=True)
        dist.destroy_process_group()
    """

    def expect_others(self, ranks, victims):
        left = [rank for rank in range(ranks) if rank not in victims]
        # The store has a process of its own, so that it outlives every rank.
        port = free_port()
        store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        self.addCleanup(lambda: store)
        processes = [start(self.BODY.replace("LEFT", str(len(left))), rank, ranks, port,
                           TORCHELASTIC_USE_AGENT_STORE="True") for rank in range(ranks)]
        for process in processes:
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            self.assertEqual(next_line(process), "up")
        for victim in victims:
            time.sleep(0.3)
            processes[victim].kill()
        total = float(sum(rank + 1 for rank in left))
        # The gradient of two equal samples, over the ranks.
        mean = round(2 * total / len(left), 3)
        for place, rank in enumerate(left):
            line = next_line(processes[rank])
            self.assertEqual(line, f"{place} {len(left)} {total} {mean} {left}",
                             "" if line else processes[rank].stderr.read())
            self.assertEqual(processes[rank].wait(60), 0)

    def test_the_others_go_on(self):
        self.expect_others(4, [2])

    def test_the_others_go_on_without_rank_0_and_a_second_one(self):
        self.expect_others(4, [0, 3])
