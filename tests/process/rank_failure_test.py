#!/usr/bin/env python3
"""Ranks that die, stop, leave, abort or come late: the others get a clear error in time, or wait
and continue, depending on the state of the missing rank. Needs nothing but the loopback interface.

usage: rank_failure_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import re
import signal
import tempfile
import threading
import time
import unittest

import program
import r2ccl_api as api
from local_job import BUSY_S, LocalJobCase, rank_number, telling

NOTICED_WITHIN_S = 2 + BUSY_S  # from the death of a rank to the error on all others
STOPPED_S = 10
COUNT = 200_000


def reduce_until_error(lib, lines):
    """Runs AllReduces without end; reports how it ended and that abort and destroy still work."""
    comm = api.Comm.from_environment(lib)
    data = api.buffer(api.FLOAT32, [1.0] * COUNT)
    out = api.buffer(api.FLOAT32, [0.0] * COUNT)
    comm.all_reduce(data, out, COUNT)
    lines.say(event="started")
    with telling(lines, "error"):
        while True:
            comm.all_reduce(data, out, COUNT)
    lines.say(event="async", code=comm.async_error())
    with telling(lines, "abort"):
        comm.abort()
    with telling(lines, "destroy"):
        comm.destroy()


class KilledRankTest(LocalJobCase):
    def assert_all_name(self, told, rank, since):
        for other, message in told.items():
            with self.subTest(rank=other):
                self.assertEqual(message["code"], api.REMOTE, message["text"])
                blamed = re.match(r"rank (\d+) .*died", message["text"])
                self.assertIsNotNone(blamed, message["text"])
                self.assertEqual(int(blamed[1]), rank, message["text"])
                self.assertLess(message["at"] - since, NOTICED_WITHIN_S)

    def expect_orderly_rest(self, others):
        for message in self.hear_all(others, "async").values():
            self.assertEqual(message["code"], api.REMOTE)
        for event in ("abort", "destroy"):
            for message in self.hear_all(others, event).values():
                self.assert_ok(message)
                self.assertLess(message["seconds"], 2 + BUSY_S)
        self.expect_end(others)

    def kill_one(self, victim, job):
        since = time.monotonic()
        job[victim].kill()
        others = {r: p for r, p in job.items() if r != victim}
        self.assert_all_name(self.hear_all(others, "error"), victim, since)
        self.expect_orderly_rest(others)

    def test_a_killed_rank_is_named_to_all_others_in_time(self):
        for victim in (3, 0, 1):  # the highest, the lowest (the fault localiser), one between
            with self.subTest(victim=victim):
                job = self.start(4, reduce_until_error)
                self.hear_all(job, "started")
                time.sleep(0.2)  # into the middle of an operation
                self.kill_one(victim, job)

    def test_a_killed_rank_is_noticed_though_its_forked_child_lives(self):
        files = tempfile.TemporaryDirectory()
        self.addCleanup(files.cleanup)
        pid_file = os.path.join(files.name, "pid")

        def fork_worker(lines):  # like a data loader's: has the memory, does nothing, stays
            if os.fork() == 0:
                os.close(lines.read_fd)
                os.close(lines.write_fd)
                with open(pid_file, "w", encoding="ascii") as out:
                    out.write(str(os.getpid()))
                signal.pause()

        def body(lib, lines):
            if rank_number() == 1:
                threading.Timer(0.1, fork_worker, (lines,)).start()
            reduce_until_error(lib, lines)

        job = self.start(3, body)
        self.hear_all(job, "started")
        worker = self.read_pid(pid_file)
        self.addCleanup(os.kill, worker, signal.SIGKILL)
        self.kill_one(1, job)
        os.kill(worker, 0)  # it lived all the time

    def read_pid(self, pid_file):
        deadline = time.monotonic() + BUSY_S
        while time.monotonic() < deadline:
            if os.path.exists(pid_file):
                with open(pid_file, encoding="ascii") as text:
                    if pid := text.read():
                        return int(pid)
            time.sleep(0.01)
        self.fail("the worker was not forked")

    def test_a_rank_that_exits_without_a_word_counts_as_dead(self):
        def body(lib, lines):
            if rank_number() != 2:
                return reduce_until_error(lib, lines)
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1.0] * COUNT)
            comm.all_reduce(data, data, COUNT)
            lines.say(event="started")
            lines.hear()
            os._exit(0)
        job = self.start(3, body)
        self.hear_all(job, "started")
        since = time.monotonic()
        job[2].lines.say(go=True)
        others = {0: job[0], 1: job[1]}
        self.assert_all_name(self.hear_all(others, "error"), 2, since)

    def test_two_ranks_killed_together_leave_the_others_with_an_error(self):
        job = self.start(4, reduce_until_error)
        self.hear_all(job, "started")
        since = time.monotonic()
        job[1].kill()
        job[2].kill()
        others = {0: job[0], 3: job[3]}
        for message in self.hear_all(others, "error").values():
            self.assertEqual(message["code"], api.REMOTE)
            self.assertRegex(message["text"], r"^rank [12] .*died")
            self.assertLess(message["at"] - since, NOTICED_WITHIN_S)
        self.expect_orderly_rest(others)

    def test_a_rank_killed_between_calls_is_an_async_error(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            lines.say(event="started")
            deadline = time.monotonic() + BUSY_S
            while comm.async_error() == api.SUCCESS and time.monotonic() < deadline:
                time.sleep(0.01)
            lines.say(event="async", code=comm.async_error(), at=time.monotonic())
            comm.destroy()
        job = self.start(3, body)
        self.hear_all(job, "started")
        since = time.monotonic()
        job[0].kill()
        others = {1: job[1], 2: job[2]}
        for message in self.hear_all(others, "async").values():
            self.assertEqual(message["code"], api.REMOTE)
            self.assertLess(message["at"] - since, NOTICED_WITHIN_S)
        self.expect_end(others)


def connections_to_accept():
    """Returns the number of connections that wait at all the listeners of this machine."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        sockets = [line.split() for line in table.readlines()[1:]]
    return sum(int(queues.split(":")[1], 16) for _, _, _, state, queues, *_ in sockets
               if state == "0A")


class StoppedRankTest(LocalJobCase):
    def test_a_rank_stopped_for_ten_seconds_is_waited_for_without_a_verdict(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.INT32, [rank_number() + 1] * COUNT)
            out = api.buffer(api.INT32, [0] * COUNT)
            right = bytes(api.buffer(api.INT32, [6] * COUNT))
            comm.barrier()
            lines.say(event="started", at=time.monotonic())
            wrong, longest = 0, 0.0
            stop = time.monotonic() + STOPPED_S + 2
            more = api.buffer(api.INT32, [1])
            while more[0]:
                start = time.monotonic()
                comm.all_reduce(data, out, COUNT, api.INT32)
                longest = max(longest, time.monotonic() - start)
                wrong += bytes(out) != right
                more[0] = time.monotonic() < stop
                comm.broadcast(more, more, 1, 0, api.INT32)
            lines.say(event="result", wrong=wrong, longest=longest, report=comm.report())
            comm.destroy()
        job = self.start(3, body, {"R2CCL_CUTOFF_S": "2"})
        self.hear_all(job, "started")
        time.sleep(0.3)
        job[1].kill(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        waiting = connections_to_accept()
        job[1].kill(signal.SIGCONT)
        # The rank's kernel holds few connections, and must answer to the end.
        self.assertLess(waiting, 10)
        longest = 0
        for message in self.hear_all(job, "result").values():
            self.assertEqual(message["wrong"], 0)
            self.assertEqual(json.loads(message["report"])["verdicts"], [])
            longest = max(longest, message["longest"])
        self.assertGreater(longest, STOPPED_S - 1)  # proof that they waited
        self.expect_end(job)


class LeavingTest(LocalJobCase):
    def test_abort_by_one_rank_is_a_remote_error_that_names_it(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1.0] * COUNT)
            comm.all_reduce(data, data, COUNT)
            lines.say(event="started")
            if rank_number() == 1:
                lines.hear()
                with telling(lines, "abort"):
                    comm.abort()
                with telling(lines, "call"):
                    comm.all_reduce(data, data, COUNT)
            else:
                with telling(lines, "call"):
                    comm.all_reduce(data, data, COUNT)
            with telling(lines, "destroy"):
                comm.destroy()
        job = self.start(3, body)
        self.hear_all(job, "started")
        time.sleep(0.3)
        job[1].lines.say(go=True)
        aborted = self.hear(job[1], "abort")
        self.assert_ok(aborted)
        self.assertLess(aborted["seconds"], 1 + BUSY_S)
        told = self.hear_all(job, "call")
        self.assertEqual(told[1]["code"], api.ABORTED, told[1]["text"])
        for rank in (0, 2):
            self.assertEqual(told[rank]["code"], api.REMOTE, told[rank]["text"])
            self.assertRegex(told[rank]["text"], r"^rank 1 .*abort")
        for message in self.hear_all(job, "destroy").values():
            self.assert_ok(message)
            self.assertLess(message["seconds"], 2 + BUSY_S)
        self.expect_end(job)

    def test_an_abort_is_known_though_the_process_ends_at_once_after_it(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.FLOAT32, [1.0] * COUNT)
            comm.all_reduce(data, data, COUNT)
            lines.say(event="started")
            if rank_number() == 1:
                lines.hear()
                comm.abort()
                os._exit(0)
            with telling(lines, "call"):
                comm.all_reduce(data, data, COUNT)
            # Rank 0 ends without a message, too.
            if rank_number() == 0:
                comm.abort()
                os._exit(0)
            with telling(lines, "destroy"):
                comm.destroy()
        job = self.start(3, body)
        self.hear_all(job, "started")
        # A stopped rank looks like one that computes, or whose host is busy.
        job[2].kill(signal.SIGSTOP)
        job[1].lines.say(go=True)
        job[1].wait()
        told = {0: self.hear(job[0], "call")}
        job[0].wait()
        job[2].kill(signal.SIGCONT)
        told[2] = self.hear(job[2], "call")
        for message in told.values():
            self.assertEqual(message["code"], api.REMOTE, message["text"])
            self.assertRegex(message["text"], r"^rank 1 .*abort")
        self.assert_ok(self.hear(job[2], "destroy"))
        self.expect_end({2: job[2]})

    def test_abort_from_another_thread_ends_a_blocking_call(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            if rank_number() == 0:
                threading.Timer(0.3, comm.abort).start()
            with telling(lines, "recv"):  # no rank sends
                comm.recv(api.buffer(api.FLOAT32, [0.0] * 8), 8, 1 - rank_number())
            comm.destroy()
        told = self.hear_all(self.start(2, body), "recv")
        self.assertEqual(told[0]["code"], api.ABORTED, told[0]["text"])
        self.assertEqual(told[1]["code"], api.REMOTE, told[1]["text"])

    def test_finalize_waits_for_a_late_rank(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            if rank_number() == 1:
                time.sleep(1.5)
            with telling(lines, "finalize"):
                comm.finalize()
            with telling(lines, "after"):
                comm.barrier()
            with telling(lines, "destroy"):
                comm.destroy()
        job = self.start(3, body)
        for rank, message in self.hear_all(job, "finalize").items():
            self.assert_ok(message)
            if rank != 1:
                self.assertGreater(message["seconds"], 1)
        for message in self.hear_all(job, "after").values():
            self.assertEqual(message["code"], api.INVALID_USAGE, message["text"])
        for message in self.hear_all(job, "destroy").values():
            self.assert_ok(message)

    def test_finalize_waits_for_others_no_longer_than_the_cutoff(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            if rank_number() == 1:
                time.sleep(4)  # and never finalizes
                comm.abort()
                return
            with telling(lines, "finalize"):
                comm.finalize()
        told = self.hear(self.start(2, body, {"R2CCL_CUTOFF_S": "1"})[0], "finalize")
        self.assertEqual(told["code"], api.TIMEOUT, told["text"])
        self.assertRegex(told["text"], "no goodbye from rank 1 .*R2CCL_CUTOFF_S")
        self.assertGreater(told["seconds"], 0.9)
        self.assertLess(told["seconds"], 3 + BUSY_S)

    def test_destroy_without_finalize_ends_in_order_with_work_under_way(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.INT32, [1] * COUNT)
            request = comm.all_reduce(data, data, COUNT, api.INT32, wait=False)
            with telling(lines, "destroy"):
                comm.destroy()
            lines.say(event="sum", right=all(v == 3 for v in data), kept=bool(request.handle))
        job = self.start(3, body)
        for message in self.hear_all(job, "destroy").values():
            self.assert_ok(message)
        for message in self.hear_all(job, "sum").values():
            self.assertTrue(message["right"])

    def test_a_rank_that_left_while_others_still_call_is_named(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            if rank_number() == 1:
                with telling(lines, "call"):
                    comm.destroy()
                return
            data = api.buffer(api.FLOAT32, [1.0] * COUNT)
            with telling(lines, "call"):
                comm.all_reduce(data, data, COUNT)
            comm.destroy()
        job = self.start(3, body)
        told = self.hear_all(job, "call")
        for rank in (0, 2):
            self.assertEqual(told[rank]["code"], api.REMOTE, told[rank]["text"])
            self.assertRegex(told[rank]["text"], "rank 1 .*left")
            self.assertLess(told[rank]["seconds"], NOTICED_WITHIN_S)

    def test_messages_that_a_rank_sent_before_it_left_can_still_be_received(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.INT32, [5] * 100)
            if rank_number() == 0:
                comm.send(data, 100, 1, api.INT32)
            else:
                time.sleep(1)  # rank 0 has said goodbye by now
                out = api.buffer(api.INT32, [0] * 100)
                with telling(lines, "received"):
                    comm.recv(out, 100, 0, api.INT32)
                lines.say(event="value", right=bytes(out) == bytes(data))
                with telling(lines, "one more"):
                    comm.recv(out, 100, 0, api.INT32)
            comm.destroy()
        job = self.start(2, body)
        self.assert_ok(self.hear(job[1], "received"))
        self.assertTrue(self.hear(job[1], "value")["right"])
        told = self.hear(job[1], "one more")
        self.assertEqual(told["code"], api.REMOTE, told["text"])
        self.assertRegex(told["text"], "rank 0 .*left")
        self.assertLess(told["seconds"], NOTICED_WITHIN_S)


class RequestTest(LocalJobCase):
    def test_a_wait_that_timed_out_can_be_taken_up_again(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            data = api.buffer(api.INT32, [rank_number()] * 1000)
            if rank_number() == 1:
                lines.hear()
                comm.all_reduce(data, data, 1000, api.INT32)
                return comm.destroy()
            request = comm.all_reduce(data, data, 1000, api.INT32, wait=False)
            with telling(lines, "wait"):
                request.wait(100)
            lines.say(event="test", done=request.test(), kept=bool(request.handle))
            with telling(lines, "wait"):
                request.wait(0)
            lines.say(event="go")
            with telling(lines, "wait"):
                request.wait(60_000)
            lines.say(event="value", right=list(data) == [1] * 1000, kept=bool(request.handle))
            comm.destroy()
        job = self.start(2, body)
        told = self.hear(job[0], "wait")
        self.assertEqual(told["code"], api.TIMEOUT, told["text"])
        self.assertTrue(0.09 < told["seconds"] < 2 + BUSY_S, told["seconds"])
        self.assertEqual(self.hear(job[0], "test"), {"event": "test", "done": False, "kept": True})
        self.assertEqual(self.hear(job[0], "wait")["code"], api.TIMEOUT)
        self.hear(job[0], "go")
        job[1].lines.say(go=True)
        self.assert_ok(self.hear(job[0], "wait"))
        self.assertEqual(self.hear(job[0], "value"),
                         {"event": "value", "right": True, "kept": False})
        self.expect_end(job)

    def test_an_aborted_request_touches_its_buffer_no_more(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            comm.barrier()
            if rank_number() == 1:
                data = api.buffer(api.INT32, [7] * COUNT)
                lines.hear()
                with telling(lines, "send"):
                    comm.send(data, COUNT, 0, api.INT32)
                return comm.destroy()
            data = api.buffer(api.INT32, [0] * COUNT)
            request = comm.recv(data, COUNT, 1, api.INT32, wait=False)
            with telling(lines, "aborted"):
                request.abort()
            before = bytes(data)
            lines.say(event="go", freed=not request.handle)
            time.sleep(0.5)
            lines.say(event="same", same=before == bytes(data))
            comm.destroy()
        job = self.start(2, body)
        self.assert_ok(self.hear(job[0], "aborted"))
        self.assertTrue(self.hear(job[0], "go")["freed"])
        job[1].lines.say(go=True)
        told = self.hear(job[1], "send")
        self.assertEqual(told["code"], api.REMOTE, told["text"])
        self.assertIn("rank 0", told["text"])
        self.assertTrue(self.hear(job[0], "same")["same"])
        self.expect_end(job)


class ForkTest(LocalJobCase):
    def test_a_forked_child_gets_a_clear_error_and_disturbs_no_rank(self):
        def body(lib, lines):
            comm = api.Comm.from_environment(lib)
            data = api.buffer(api.INT32, [1] * COUNT)
            comm.all_reduce(data, data, COUNT, api.INT32)
            if rank_number() == 0:
                child = os.fork()
                if child == 0:
                    mine = api.buffer(api.INT32, [1] * 8)
                    for name, call in (("call", lambda: comm.all_reduce(mine, mine, 8, api.INT32)),
                                       ("report", comm.report), ("abort", comm.abort),
                                       ("finalize", comm.finalize)):
                        with telling(lines, "child", name=name):
                            call()
                    with telling(lines, "child", name="destroy"):
                        comm.destroy()
                    os._exit(0)
                os.waitpid(child, 0)
            with telling(lines, "parent"):
                for _ in range(5):
                    comm.all_reduce(data, data, COUNT, api.INT32)
            lines.say(event="sum", value=data[COUNT - 1], errors=comm.async_error())
            comm.destroy()
        job = self.start(2, body)
        for name in ("call", "report", "abort", "finalize"):
            told = self.hear(job[0], "child")
            with self.subTest(call=name):
                self.assertEqual(told["code"], api.INVALID_USAGE, told["text"])
                self.assertIn("fork", told["text"])
        self.assert_ok(self.hear(job[0], "child"))  # destroy only frees
        for message in self.hear_all(job, "parent").values():
            self.assert_ok(message)
        for message in self.hear_all(job, "sum").values():
            self.assertEqual((message["value"], message["errors"]), (64, api.SUCCESS))
        self.expect_end(job)


if __name__ == "__main__":
    program.main(__doc__)
