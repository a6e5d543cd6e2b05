"""Groups: subgroups, splits, the end, the same store again, settings, the record of operations."""

import dataclasses
import itertools
import json
import os
import sys
import threading
import time
from unittest import mock

import torch
import torch.distributed as dist

import r2ccl
from r2ccl import library, recorder
from group_case import GroupCase, in_thread, ranks, seconds, since, values


class SubgroupTest(GroupCase):
    @ranks(2, 4)
    def test_members_only_take_part(self):
        group = dist.new_group([0, self.size - 1])
        if self.rank in (0, self.size - 1):
            tensor = values(self.rank, 5)
            dist.all_reduce(tensor, group=group)
            self.assert_same(tensor, values(0, 5) + values(self.size - 1, 5))
            self.assertEqual(dist.get_world_size(group), 2)
            self.assertEqual(dist.get_backend(group), "r2ccl")
        else:
            self.assertEqual(dist.get_rank(group), -1)
        if self.rank in (0, self.size - 1):
            dist.destroy_process_group(group)
        self.meet()

    @ranks(4)
    def test_disjoint_groups_run_at_the_same_time(self):
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        group = groups[self.rank % 2]
        for i in range(10):
            tensor = values(self.rank, 100, start=i)
            dist.all_reduce(tensor, group=group)
            self.assert_same(tensor, values(self.rank % 2, 100, start=i)
                             + values(self.rank % 2 + 2, 100, start=i))
        source = torch.tensor([float(self.rank)])
        dist.broadcast(source, src=self.rank % 2, group=group)  # a rank of the world
        self.assertEqual(source.item(), self.rank % 2)
        dist.destroy_process_group(group)

    @ranks(2, 4)
    def test_groups_end_in_any_order_on_each_rank(self):
        for order in itertools.permutations(range(3)):
            groups = [dist.new_group() for _ in range(3)]
            for group in groups:
                dist.all_reduce(values(self.rank, 4), group=group)
            start = time.monotonic()
            for place in range(3):
                # Rank 0 in the order of their making, rank 1 in this one, the others shifted.
                number = order[(place + self.rank) % 3] if self.rank else place
                dist.destroy_process_group(groups[number])
            self.assertLess(time.monotonic() - start, 60)  # R2CCL_CUTOFF_S is 300
        self.meet()

    @ranks(2)
    def test_the_other_ranks_hear_that_rank_0_has_no_library(self):
        refusal = library.LibraryError("cannot load r2ccl's library")
        is_first = self.rank == 0
        with mock.patch.object(library, "load", **({"side_effect": refusal} if is_first else {
                "wraps": library.load})):
            with self.assertRaisesRegex(library.LibraryError if is_first else r2ccl.RemoteRankError,
                                        "cannot load r2ccl's library"):
                dist.new_group([0, 1]).barrier().wait()  # rank 1 may hear it after new_group
        self.meet()

    def test_a_timeout_of_a_month(self):
        with self.fresh_group(timeout=seconds(30 * 24 * 3600)) as group:
            dist.barrier(group=group)
            self.meet()

    @ranks(4)
    def test_a_split(self):
        half = self.group.split_group([0, 1] if self.rank < 2 else [3, 2], timeout=seconds(20))
        order = [0, 1, 3, 2]
        self.assertEqual((half.size(), half.rank()), (2, order.index(self.rank) % 2))
        tensor = values(self.rank, 7)
        half.allreduce([tensor], dist.AllreduceOptions()).wait()
        self.assert_same(tensor, values(self.rank, 7) + values(self.rank ^ 1, 7))
        half.shutdown()

    @ranks(2, 4)
    def test_a_split_without_this_rank(self):
        one = self.group.split_group([0], group_name="only rank 0", group_desc="one")
        if self.rank == 0:
            self.assertEqual((one.group_name, one.group_desc), ("only rank 0", "one"))
            one.shutdown()
        else:
            self.assertIsNone(one)

    def test_names_and_numbers(self):
        group = self.group
        self.assertEqual((group.rank(), group.size()), (self.rank, self.size))
        self.assertEqual((group.getRank(), group.getSize()), (self.rank, self.size))
        self.assertEqual((group.name(), group.getBackendName()), ("r2ccl", "r2ccl"))
        self.assertEqual(dist.get_backend(), "r2ccl")
        self.assertIs(group._get_backend(torch.device("cpu")), group)
        before = group._get_sequence_number_for_group()
        dist.barrier()
        self.assertEqual(group._get_sequence_number_for_group(), before + 1)


class EndTest(GroupCase):
    # Before torch 2.7 destroy_process_group does not tell a group of a Python class.
    @since(2, 7)
    def test_a_destroyed_group_refuses_calls_and_others_go_on(self):
        group = dist.new_group(list(range(self.size)))
        dist.all_reduce(torch.ones(2), group=group)
        dist.destroy_process_group(group)
        with self.assertRaisesRegex(r2ccl.R2cclError, "destroyed or aborted"):
            group.allreduce([torch.ones(2)], dist.AllreduceOptions())
        self.assertEqual(group._get_sequence_number_for_group(), 1)  # a refused call has no number
        with self.assertRaisesRegex(r2ccl.R2cclError, "destroyed or aborted"):
            r2ccl.health(group)
        with self.assertRaises(ValueError):  # torch's own check
            dist.all_reduce(torch.ones(2), group=group)
        group.shutdown()  # again: nothing to do
        dist.all_reduce(torch.ones(2))

    @since(2, 7)
    def test_the_end_completes_works_and_futures(self):
        group = dist.new_group(list(range(self.size)))
        tensor = values(self.rank, 1000)
        future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
        work = dist.all_reduce(values(self.rank, 10), group=group, async_op=True)
        dist.destroy_process_group(group)
        self.assertTrue(work.is_completed())
        self.assert_same(future.wait()[0],
                         sum(self.all_ranks(lambda rank: values(rank, 1000))))

    @ranks(2, 4)
    def test_abort_ends_a_wait_here_and_on_the_other_ranks(self):
        group = dist.new_group(list(range(self.size)))
        if self.rank == 0:
            joined = in_thread(lambda: dist.all_reduce(torch.ones(3), group=group))
            future = dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future()
            time.sleep(0.2)
            group.abort()
            with self.assertRaises(r2ccl.AbortedError):
                joined()
            with self.assertRaisesRegex(RuntimeError, "r2cclCommAbort"):
                future.wait()
        else:
            with self.assertRaisesRegex(r2ccl.RemoteRankError, "rank 0") as caught:
                dist.recv(torch.ones(1), 0, group=group)
            self.assertEqual(caught.exception.ranks, (0,))
        dist.destroy_process_group(group)
        self.meet()

    def test_the_same_store_serves_group_after_group(self):
        store = dist.PrefixStore("again", self.group.get_group_store())
        for _ in range(3):
            options = dist.distributed_c10d._DistributedBackendOptions()
            options.store, options.group_rank = store, self.rank
            options.group_size, options.timeout = self.size, seconds(20)
            options.group_id, options.global_ranks_in_group = "again", []
            group = r2ccl.process_group.create(options)
            tensor = values(self.rank, 3)
            group.allreduce([tensor], dist.AllreduceOptions()).wait()
            self.assert_same(tensor, sum(self.all_ranks(lambda rank: values(rank, 3))))
            group.shutdown()

    @ranks(2)
    def test_a_rank_that_does_not_come_is_named(self):
        store = dist.PrefixStore("late", self.group.get_group_store())
        if self.rank == 0:
            options = dist.distributed_c10d._DistributedBackendOptions()
            options.store, options.group_rank = store, 0
            options.group_size, options.timeout = 2, seconds(1)
            options.group_id, options.global_ranks_in_group = "late", []
            with self.assertRaisesRegex(r2ccl.WaitTimeoutError, "rank.* 1"):
                r2ccl.process_group.create(options)
        self.meet()


class MonitoredBarrierTest(GroupCase):
    def test_all_come(self):
        self.group.monitored_barrier(seconds(20))

    @ranks(4)
    def test_the_missing_ranks_are_named(self):
        for every, text in ((False, "Rank 1 failed to pass monitoredBarrier"),
                            (True, "Ranks 1, 3 failed to pass monitoredBarrier")):
            with self.fresh_group() as group:
                if self.rank == 0:
                    with self.assertRaisesRegex(r2ccl.WaitTimeoutError, text) as caught:
                        group.monitored_barrier(seconds(0.5), wait_all_ranks=every)
                    self.assertEqual(caught.exception.ranks, (1, 3) if every else (1,))
                elif self.rank == 2:
                    with self.assertRaisesRegex(r2ccl.WaitTimeoutError, "check rank 0 logs"):
                        group.monitored_barrier(seconds(0.5))
                self.meet()


class ConfigTest(GroupCase):
    def test_fields_of_a_wrong_type_or_size(self):
        wrong = {"name": 5, "ifname": ["eth0"], "algorithm": b"ring", "reproducible": "no",
                 "cutoff_ms": 2.5}
        for field, value in wrong.items():
            with self.assertRaisesRegex(TypeError, f"r2ccl.Config: {field}=.* must be a"):
                r2ccl.Config(**{field: value})
        with self.assertRaisesRegex(ValueError, "r2ccl.Config: cutoff_ms=4294967297 must be"):
            r2ccl.Config(cutoff_ms=2**32 + 1)

    def test_options_of_another_type_are_refused_on_all_ranks(self):
        with self.assertRaisesRegex((TypeError, r2ccl.RemoteRankError), "r2ccl.Config, not dict"):
            made = dist.new_group(pg_options={"name": "dp"} if self.rank == 0 else None)
            made.barrier().wait()  # the news may come after new_group, which waits for no rank
        with self.assertRaisesRegex(TypeError, "r2ccl.Config, not dict"):
            self.group.split_group([0], opts={})

    def test_a_callback_that_cannot_be_called(self):
        with self.assertRaisesRegex(TypeError, "on_verdict takes a function, not int"):
            r2ccl.on_verdict(3)

    @since(2, 7)  # destroy_process_group
    @ranks(2, 4)
    def test_health_of_a_group_without_this_rank(self):
        made = dist.new_group([0])
        if self.rank != 0:
            with self.assertRaisesRegex(ValueError, "this rank is not in the group"):
                r2ccl.health(made)
        else:
            dist.destroy_process_group(made)
            with self.assertRaisesRegex(r2ccl.R2cclError, "^health: the group was destroyed"):
                r2ccl.health(made)

    def test_a_name_is_in_the_report(self):
        group = dist.new_group(list(range(self.size)),
                               pg_options=r2ccl.Config(name="my group", reproducible=True))
        self.assertIn('"name":"my group"', r2ccl.report(group))
        dist.destroy_process_group(group)

    def test_health(self):
        health = r2ccl.health()
        self.assertEqual((health.rank, health.size), (self.rank, self.size))
        self.assertTrue(health.is_whole)
        self.assertEqual(health.verdicts, [])
        self.assertEqual({path.peer for path in health.paths}, set(range(self.size)) - {self.rank})
        path = [(field.name, field.type) for field in dataclasses.fields(r2ccl.Path)]
        self.assertEqual(path, [
            ("peer", int), ("state", str), ("nic", str), ("peer_nic", str), ("peer_host", str),
            ("remote", str), ("state_ns", int), ("incarnation", int), ("rate", int),
            ("round_trip_ns", int), ("one_way_excess_ns", int), ("tx_bytes", int),
            ("rx_bytes", int), ("retransmitted_bytes", int), ("packets_sent", int),
            ("packets_lost", int), ("suspicions", int), ("downs", int), ("returns", int),
            ("loss_ppm", int), ("drained", int)])
        verdict = [(field.name, field.type) for field in dataclasses.fields(r2ccl.Verdict)]
        self.assertEqual(verdict, [
            ("number", int), ("rank", int), ("scope", str), ("kind", str), ("process", int),
            ("host", str), ("nic", str), ("peer_host", str), ("peer_nic", str), ("at_ns", int),
            ("detected_ns", int), ("stall_ns", int), ("retransmitted_bytes", int),
            ("loss_ppm", int)])
        with self.assertRaisesRegex(TypeError, "not r2ccl"):
            gloo = dist.new_group(list(range(self.size)), backend="gloo")
            r2ccl.health(gloo)


class RecordTest(GroupCase):
    @ranks(1)
    def test_a_dump_while_another_thread_starts_operations(self):
        record, stop, interval = recorder.Recorder("busy", [0], 0), [], sys.getswitchinterval()

        def add():
            while not stop:
                record.add(recorder.Entry("barrier", []))
        join = in_thread(add)
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(3000):
                record.last(recorder.STARTED)
        finally:
            sys.setswitchinterval(interval)
            stop.append(True)
            join()
            record.forget()

    def test_numbers_of_groups_differ(self):
        first = dist.new_group(list(range(self.size)))
        second = dist.new_group(list(range(self.size)))
        numbers = [second._record.number, self.group._record.number]
        first.shutdown()
        third = dist.new_group(list(range(self.size)))
        self.assertNotIn(third._record.number, numbers)
        for group in (first, second, third):
            dist.destroy_process_group(group)

    def test_the_record_has_the_last_operations(self):
        dist.all_reduce(torch.zeros(3, 5, dtype=torch.int32), op=dist.ReduceOp.MAX)
        entry = [each for each in recorder.fields()["entries"]
                 if each["process_group"][0] == self.group.group_name][-1]
        self.assertEqual(entry["profiling_name"], "r2ccl:all_reduce")
        self.assertEqual((entry["input_sizes"], entry["input_dtypes"]), ([[3, 5]], ["Int"]))
        self.assertEqual((entry["state"], entry["reduction"]), ("completed", "MAX"))
        self.assertLess(abs(time.time_ns() - entry["time_created_ns"]), 20e9)
        self.assertGreaterEqual(entry["time_discovered_completed_ns"], entry["time_created_ns"])
        self.assertEqual(entry["collective_seq_id"], self.group._get_sequence_number_for_group())
        config = recorder.fields()["pg_config"][str(self.group._record.number)]
        self.assertEqual(config["ranks"], str(list(range(self.size))))

    @ranks(2)
    def test_an_error_names_the_file_with_the_record(self):
        with self.fresh_group() as group:
            if self.rank == 0:
                with self.assertRaises(r2ccl.WaitTimeoutError) as caught:
                    group.recv([torch.zeros(4)], 1, 9).wait(seconds(0.1))
                self.assertIn(caught.exception.dump, str(caught.exception))
                with open(caught.exception.dump, encoding="utf-8") as file:
                    dump = json.load(file)
                entry = dump["entries"][-1]
                self.assertEqual(entry["profiling_name"], "r2ccl:recv 0<-1")
                self.assertEqual((entry["state"], entry["tag"]), ("started", 9))
                self.assertIn("not complete", entry["error"])
            self.meet()

    @ranks(1)
    def test_settings(self):
        os.environ[recorder.ENTRIES_VARIABLE] = "3"
        try:
            group = dist.new_group([0])
            for _ in range(9):
                dist.barrier(group=group)
            self.assertEqual(len(group._record.entries), 3)
            dist.destroy_process_group(group)
            os.environ[recorder.ENTRIES_VARIABLE] = "many"
            with self.assertRaisesRegex(ValueError, "must be a whole number"):
                recorder.entries_max()
            os.environ[recorder.ENTRIES_VARIABLE] = "0"
            self.assertIsNone(recorder.dump(0))
        finally:
            del os.environ[recorder.ENTRIES_VARIABLE]

    @ranks(1)
    def test_threads_may_ask_while_operations_run(self):
        stop, failures = threading.Event(), []

        def ask():
            while not stop.is_set():
                try:
                    recorder.fields()
                    r2ccl.health()
                except Exception as error:
                    failures.append(error)
                    return
        joined = in_thread(ask)
        for _ in range(300):
            dist.all_reduce(torch.ones(3))
        stop.set()
        joined()
        self.assertEqual(failures, [])
