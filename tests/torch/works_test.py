"""Work: wait, test, future, timeout, lifetime of tensors, several threads."""

import ctypes
import datetime
import gc
import os
import select
import threading
import time
import weakref
from unittest import mock

import torch
import torch.distributed as dist

import r2ccl
from r2ccl import buffers, futures
from group_case import GroupCase, in_thread, ranks, seconds, since, values


class WorkTest(GroupCase):
    def total(self, count, start=0):
        return sum(self.all_ranks(lambda rank: values(rank, count, start=start)))

    def test_wait_result_and_state(self):
        tensor = values(self.rank, 6)
        work = dist.all_reduce(tensor, async_op=True)
        self.assertTrue(work.wait())
        self.assertTrue(work.is_completed())
        self.assertTrue(work.is_success())
        self.assertIsNone(work.exception())
        self.assertEqual(len(work.result()), 1)
        self.assert_same(work.result()[0], self.total(6))
        self.assertTrue(work.wait(seconds(1)))  # again

    def test_the_longest_timeout(self):
        work = dist.all_reduce(values(self.rank, 6), async_op=True)
        with work._lock:  # another thread waits for the work
            waiting = in_thread(lambda: work.wait(datetime.timedelta.max))
            time.sleep(0.02)
        self.assertTrue(waiting())

    def test_is_completed_becomes_true_without_wait(self):
        tensor = values(self.rank, 6)
        work = dist.all_reduce(tensor, async_op=True)
        deadline = time.monotonic() + 20
        while not work.is_completed():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)
        self.assert_same(tensor, self.total(6))

    def test_a_future_has_the_tensors(self):
        tensor = values(self.rank, 6)
        future = dist.all_reduce(tensor, async_op=True).get_future()
        result = future.then(lambda ended: ended.value()[0] * 2).wait()
        self.assert_same(result, self.total(6) * 2)

    def test_a_future_of_a_complete_work(self):
        work = dist.all_reduce(values(self.rank, 6), async_op=True)
        work.wait()
        self.assert_same(work.get_future().wait()[0], self.total(6))
        self.assertIs(work.get_future(), work.get_future())

    def test_two_threads_that_ask_for_the_first_future_get_the_same_one(self):
        work = dist.all_reduce(values(self.rank, 6), async_op=True)
        work.wait()

        def slow(outputs, new=futures.new):
            time.sleep(0.05)
            return new(outputs)

        with mock.patch.object(futures, "new", slow):
            first, second = in_thread(work.get_future), in_thread(work.get_future)
            self.assertIs(first(), second())
        self.assert_same(work.get_future().wait()[0], self.total(6))

    def test_many_futures_end_in_any_order_of_waits(self):
        tensors = [values(self.rank, 50, start=i) for i in range(40)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        futures = [work.get_future() for work in works]
        for i in reversed(range(40)):
            self.assert_same(futures[i].wait()[0], self.total(50, start=i))
            self.assertTrue(works[i].is_success())

    def test_a_callback_may_wait_for_a_future(self):
        # A callback may run in the thread that completes futures.
        def reduce_again(ended):
            return dist.all_reduce(ended.value()[0], async_op=True).get_future().wait()[0]
        for i in range(20):
            future = dist.all_reduce(values(self.rank, 6, start=i), async_op=True).get_future()
            self.assert_same(future.then(reduce_again).then(lambda ended: ended.value()).wait(),
                             self.total(6, start=i) * self.size)

    @ranks(2)
    def test_a_callback_may_wait_for_a_future_of_an_operation_under_way(self):
        tensors = [values(self.rank, 6, start=i) for i in range(2)]
        if self.rank == 1:
            for tensor in tensors:
                time.sleep(0.2)
                dist.all_reduce(tensor)
            return
        first, second = (dist.all_reduce(tensor, async_op=True).get_future() for tensor in tensors)
        chain = first.then(lambda _: second.wait()[0])
        joined = in_thread(chain.wait)
        deadline = time.monotonic() + 20
        while not chain.done():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assert_same(joined(), self.total(6, start=1))

    def test_a_future_of_several_tensors(self):
        tensors = [values(self.rank, 3), values(self.rank, 5)]
        work = self.group.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions())
        results = work.get_future().wait()
        self.assert_same(results[0], self.total(3))
        self.assert_same(results[1], self.total(5))
        self.assertTrue(work.is_success())
        self.assertIsNone(work.exception())

    def test_the_profiler_has_a_range_for_each_operation(self):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(3):
                dist.all_reduce(values(self.rank, 6))
            dist.barrier()
        names = [event.name for event in profile.events() if event.name.startswith("r2ccl:")]
        self.assertEqual(sorted(names), ["r2ccl:all_reduce"] * 3 + ["r2ccl:barrier"])

    def test_works_that_nobody_waits_for_keep_their_tensors(self):
        for i in range(50):
            dist.all_reduce(values(self.rank, 5000, start=i), async_op=True)
        gc.collect()
        tensor = values(self.rank, 5000)
        dist.all_reduce(tensor)
        self.assert_same(tensor, self.total(5000))
        dist.barrier()
        for _ in range(60):  # each call frees complete ones
            dist.all_reduce(values(self.rank, 1))
        self.assertEqual(len(self.group.works), 0)

    def test_tensors_of_two_owners_are_not_one_buffer(self):
        # The call would keep the first one only, and the other's memory may go.
        class Owner(ctypes.c_char * 16):
            """Memory of four float32."""

        memory = ctypes.create_string_buffer(32)
        tensors = [torch.frombuffer(Owner.from_address(ctypes.addressof(memory) + at),
                                    dtype=torch.float32) for at in (0, 16)]
        self.assertEqual(tensors[1].data_ptr() - tensors[0].data_ptr(), 16)
        self.assertFalse(buffers.are_adjacent(tensors))
        self.assertTrue(buffers.are_adjacent(list(torch.zeros(2, 4, device="cpu"))))

    def test_a_work_that_lasts_does_not_keep_the_later_ones(self):
        lasting = self.group.recv([torch.empty(1)], self.rank, 9)
        for _ in range(60):
            dist.all_reduce(values(self.rank, 100), async_op=True)
        dist.barrier()
        for _ in range(150):
            dist.all_reduce(values(self.rank, 1))
        self.assertEqual(len(self.group.works), 1)
        self.group.send([torch.ones(1)], self.rank, 9).wait()
        lasting.wait()

    def test_a_call_while_another_thread_completes_a_work(self):
        class Changing(dict):
            """As another thread makes it: changed between the start and the step of a loop."""

            def items(self):
                loop = iter(super().items())
                self.pop(next(iter(self)))
                return loop

            def values(self):
                return (work for _, work in self.items())

        works = [dist.all_reduce(values(self.rank, 4), async_op=True)]
        self.group.works = Changing(self.group.works)
        try:
            works.append(dist.all_reduce(values(self.rank, 4), async_op=True))
        finally:
            self.group.works = dict(self.group.works)
        for work in works:
            work.wait()
        self.assert_same(works[1].result()[0], self.total(4))

    @ranks(1)
    def test_the_thread_of_futures_reads_no_file_that_got_a_communicators_number(self):
        poller, (file, end) = futures.Poller(), os.pipe()
        os.write(end, b"of others")

        class Events:
            def poll(self, _):
                poller._thread = None  # one turn
                return [(file, select.EPOLLIN)]
        poller._epoll, poller._thread = Events(), threading.current_thread()
        poller._run()
        os.set_blocking(file, False)
        self.assertEqual(os.read(file, 20), b"of others")
        os.close(file)
        os.close(end)

    def test_several_threads_wait_for_one_work(self):
        tensor = values(self.rank, 100_000)
        work = dist.all_reduce(tensor, async_op=True)
        joins = [in_thread(work.wait) for _ in range(4)]
        self.assertEqual([join() for join in joins], [True] * 4)
        self.assert_same(tensor, self.total(100_000))

    def test_threads_with_a_group_each(self):
        groups = [dist.new_group(list(range(self.size))) for _ in range(3)]

        def run(group, start):
            for i in range(20):
                tensor = values(self.rank, 1000, start=start + i)
                dist.all_reduce(tensor, group=group)
                self.assert_same(tensor, self.total(1000, start=start + i))
        joins = [in_thread(lambda group=group, i=i: run(group, 100 * i))
                 for i, group in enumerate(groups)]
        for join in joins:
            join()
        for group in groups:
            dist.destroy_process_group(group)

    @ranks(2, 4)
    def test_other_threads_run_while_one_waits(self):
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)
        join = in_thread(count)
        if self.rank == 0:
            time.sleep(0.3)
        dist.barrier()
        stop.set()
        join()
        self.assertGreater(counted[0], 20)


class TimeoutTest(GroupCase):
    @ranks(2, 4)
    def test_a_wait_names_the_late_rank_and_the_operation_goes_on(self):
        late = self.size - 1
        tensor = values(self.rank, 8)
        store = self.group.get_group_store()
        if self.rank == late:
            store.wait(["timed out"])
        work = dist.all_reduce(tensor, async_op=True)
        if self.rank == 0:
            started = time.monotonic()
            with self.assertRaisesRegex(r2ccl.WaitTimeoutError, f"rank {late}") as caught:
                work.wait(seconds(1.5))
            self.assertGreater(time.monotonic() - started, 1.4)
            self.assertIn(late, caught.exception.ranks)
            self.assertIsInstance(caught.exception, TimeoutError)
            self.assertIsInstance(caught.exception, dist.DistBackendError)
            self.assertFalse(work.is_completed())
            store.set("timed out", "1")
        work.wait()
        self.assert_same(tensor, sum(self.all_ranks(lambda rank: values(rank, 8))))
        dist.barrier()
        if self.rank == 0:
            store.delete_key("timed out")

    @ranks(2)
    def test_the_timeout_of_a_group_bounds_a_call_and_a_future(self):
        with self.fresh_group(timeout=seconds(1.2)) as group:
            if self.rank == 0:
                with self.assertRaisesRegex(r2ccl.WaitTimeoutError, "rank 1"):
                    dist.all_reduce(torch.ones(2), group=group)
                work = dist.all_reduce(torch.ones(2), group=group, async_op=True)
                started = time.monotonic()
                with self.assertRaisesRegex(RuntimeError, "rank 1"):
                    work.get_future().wait()
                self.assertGreater(time.monotonic() - started, 1.0)
            self.meet()

    @ranks(2)
    def test_a_future_behind_one_that_lasts_ends_at_its_own_timeout(self):
        with self.fresh_group() as group:
            if self.rank == 0:
                lasting = group.recv([torch.zeros(1)], 1, 3).get_future()
                time.sleep(1.2)
                options = dist.BarrierOptions()
                options.timeout = seconds(0.5)
                started = time.monotonic()
                with self.assertRaisesRegex(RuntimeError, "rank 1"):
                    group.barrier(opts=options).get_future().wait()
                self.assertLess(time.monotonic() - started, 15)
                self.assertFalse(lasting.done())
            self.meet()

    @ranks(2)
    def test_a_wait_for_several_works_ends_at_the_first_timeout(self):
        with self.fresh_group() as group:
            if self.rank == 0:
                work = group.allreduce_coalesced([torch.ones(2) for _ in range(4)])
                started = time.monotonic()
                with self.assertRaisesRegex(r2ccl.WaitTimeoutError, "rank 1"):
                    work.wait(seconds(3))
                self.assertLess(time.monotonic() - started, 9)  # four would take 12
            self.meet()

    @ranks(2)
    def test_the_record_of_a_timeout_keeps_no_variable_of_the_caller(self):
        def wait(group):
            variable = torch.ones(1)
            try:  # assertRaises would clear the frames
                group.recv([torch.ones(1)], 1, 3).wait(seconds(0.05))
            except r2ccl.WaitTimeoutError:
                return weakref.ref(variable)
            return self.fail("no timeout")

        with self.fresh_group() as group:
            if self.rank == 0:
                variable = wait(group)
                gc.collect()
                self.assertIsNone(variable())
            self.meet()

    @ranks(2)
    def test_set_timeout_and_the_timeout_of_options(self):
        with self.fresh_group() as group:
            if self.rank == 0:
                options = dist.BarrierOptions()
                options.timeout = seconds(0.3)
                with self.assertRaises(r2ccl.WaitTimeoutError):
                    group.barrier(opts=options).wait()
                group.set_timeout(seconds(0.3))
                with self.assertRaises(r2ccl.WaitTimeoutError):
                    dist.recv(torch.zeros(1), 1, group=group)
            self.meet()

    @ranks(2)
    def test_a_wait_beside_a_longer_one_of_another_thread_ends_in_time(self):
        if self.rank == 0:
            work = dist.barrier(async_op=True)
            join = in_thread(work.wait)
            time.sleep(0.1)
            started = time.monotonic()
            with self.assertRaisesRegex(r2ccl.WaitTimeoutError, "barrier.*300 ms. Another thread"):
                work.wait(seconds(0.3))
            self.assertLess(time.monotonic() - started, 15)
            dist.send(torch.ones(1), 1)
            join()
        else:
            dist.recv(torch.ones(1), 0)
            dist.barrier()

    @since(2, 7)
    @ranks(2)
    def test_the_end_is_in_order_if_the_operation_after_a_timeout_is_complete(self):
        group = dist.new_group([0, 1])
        if self.rank == 0:
            work = dist.barrier(group=group, async_op=True)
            with self.assertRaises(r2ccl.WaitTimeoutError):
                work.wait(seconds(0.1))
            self.meet()
            work.wait()
            dist.isend(values(0, 8), 1, group=group)  # complete before its recv
        else:
            self.meet()
            dist.barrier(group=group)
            time.sleep(0.5)
            tensor = torch.zeros(8)
            dist.recv(tensor, 0, group=group)
            self.assert_same(tensor, values(0, 8))
        dist.destroy_process_group(group)

    # Before torch 2.7 destroy_process_group does not tell a group of a Python class.
    @since(2, 7)
    @ranks(2)
    def test_the_end_after_a_timeout_does_not_wait(self):
        group = dist.new_group([0, 1])
        if self.rank == 0:
            with self.assertRaises(r2ccl.WaitTimeoutError):
                dist.all_reduce(torch.ones(2), group=group, async_op=True).wait(seconds(0.2))
            started = time.monotonic()
            dist.destroy_process_group(group)
            self.assertLess(time.monotonic() - started, 15)
            self.meet()
        else:
            self.meet()
            with self.assertRaisesRegex(r2ccl.RemoteRankError, "rank 0"):
                dist.all_reduce(torch.ones(2), group=group)
            dist.destroy_process_group(group)


class InterruptTest(GroupCase):
    @ranks(2, 4)
    def test_an_interrupt_in_a_call_that_starts_an_operation_frees_no_memory_of_it(self):
        start = self.group._starts.r2cclRecvTagged

        def interrupted(*args):
            start(*args)
            raise KeyboardInterrupt  # as the handler of a signal that came meanwhile

        if self.rank == 0:
            with mock.patch.object(self.group._starts, "r2cclRecvTagged", interrupted):
                with self.assertRaises(KeyboardInterrupt):
                    self.group.recv([torch.zeros(4)], 1, 8)
            works = list(self.group.works.values())
        self.meet()
        if self.rank == 1:
            self.group.send([values(1, 4)], 0, 8).wait()
        elif self.rank == 0:
            self.assertEqual(len(works), 1)
            self.assert_same(works[0].result()[0], values(1, 4))
        self.meet()
