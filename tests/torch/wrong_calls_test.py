"""Wrong calls: each raises the exception that a user of torch expects, and the group goes on, or ends
on all ranks with an error that names the cause."""

import torch
import torch.distributed as dist

import r2ccl
from group_case import GroupCase, ranks, values


class RefusedTest(GroupCase):
    """Errors that a rank finds alone. Nothing has started, so the group goes on."""

    def tearDown(self):
        tensor = values(self.rank, 3)
        dist.all_reduce(tensor)
        self.assert_same(tensor, sum(self.all_ranks(lambda rank: values(rank, 3))))

    def test_types_that_cannot_be_reduced(self):
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.int16, torch.uint16):
            with self.assertRaisesRegex(TypeError, "cannot reduce.*Convert"):
                dist.all_reduce(torch.zeros(3).to(dtype))

    def test_quantized_tensors(self):
        for dtype in (torch.quint8, torch.quint4x2):
            zeros = torch.zeros(1, 9, device="cpu")
            scales = torch.ones(1, device="cpu"), torch.zeros(1, device="cpu")
            quantized = torch.quantize_per_channel(zeros, *scales, 0, dtype)
            with self.assertRaisesRegex(TypeError, r"no tensors of.*int_repr\(\)"):
                dist.broadcast(quantized, 0)

    def test_operations_that_a_type_lacks(self):
        with self.assertRaisesRegex(TypeError, "no BOR of tensors of torch.float32"):
            dist.all_reduce(torch.zeros(3), op=dist.ReduceOp.BOR)
        with self.assertRaisesRegex(TypeError, "no AVG of tensors of torch.bool"):
            dist.all_reduce(torch.zeros(3, dtype=torch.bool), op=dist.ReduceOp.AVG)
        with self.assertRaises((TypeError, ValueError)):
            dist.all_reduce(torch.zeros(3, dtype=torch.complex64), op=dist.ReduceOp.MAX)
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.PRODUCT
        with self.assertRaisesRegex(TypeError, "no PRODUCT of tensors of torch.complex64"):
            self.group.allreduce([torch.zeros(3, dtype=torch.complex64)], options)

    def test_devices_and_layouts(self):
        with self.assertRaisesRegex(RuntimeError, "device type meta"):
            dist.all_reduce(torch.zeros(3, device="meta"))
        with self.assertRaisesRegex(ValueError, "dense tensors"):
            self.group.broadcast([torch.eye(3).to_sparse()], dist.BroadcastOptions())

    def test_no_tensor(self):
        with self.assertRaises(TypeError):
            self.group.allreduce(["text"], dist.AllreduceOptions())
        with self.assertRaisesRegex(ValueError, "single-element"):
            self.group.allreduce([torch.ones(1), torch.ones(1)], dist.AllreduceOptions())
        with self.assertRaisesRegex(ValueError, "single-element"):
            self.group.allreduce([], dist.AllreduceOptions())

    def test_roots_ranks_and_tags(self):
        options = dist.BroadcastOptions()
        for root in (-1, self.size):
            options.rootRank = root
            with self.assertRaisesRegex(ValueError, "invalid root"):
                self.group.broadcast([torch.ones(1)], options)
            with self.assertRaisesRegex(ValueError, "invalid rank"):
                self.group.send([torch.ones(1)], root, 0)
        with self.assertRaisesRegex(ValueError, "invalid tag -1"):
            self.group.recv([torch.ones(1)], 0, -1)
        with self.assertRaisesRegex(ValueError, "invalid tag 4294967299.*from 0 to 2147483647"):
            self.group.send([torch.ones(1)], 0, 2**32 + 3)

    def test_factors_that_the_type_lacks(self):
        for dtype, factor in ((torch.int64, 0.5), (torch.complex64, torch.tensor(2j))):
            options = dist.AllreduceOptions()
            options.reduceOp = dist._make_nccl_premul_sum(factor)
            with self.assertRaisesRegex(ValueError, "factor.*is not a value of"):
                self.group.allreduce([torch.ones(2, dtype=dtype)], options)

    def test_ranks_of_a_split(self):
        for wrong in ([0, self.size], [-1], [0, 0]):
            with self.assertRaisesRegex(ValueError, "must be different ranks from 0 to"):
                self.group.split_group(wrong)

    def test_lists_of_the_wrong_length_size_or_type(self):
        good = [torch.zeros(3) for _ in range(self.size)]
        with self.assertRaisesRegex(ValueError, "one for each of the"):
            dist.all_gather(good + [torch.zeros(3)], torch.zeros(3))
        with self.assertRaisesRegex(ValueError, f"size at index {self.rank}"):
            dist.all_gather(good, torch.zeros(4))
        with self.assertRaises((TypeError, ValueError)):
            dist.all_gather(good, torch.zeros(3, dtype=torch.int32))
        with self.assertRaisesRegex(ValueError, "one for each of the"):
            dist.reduce_scatter(torch.zeros(3), good + good)
        with self.assertRaisesRegex(ValueError, f"{3 * self.size}, not"):
            dist.all_gather_into_tensor(torch.zeros(3 * self.size + 1), torch.zeros(3))
        with self.assertRaisesRegex(ValueError, f"{3 * self.size}, not"):
            dist.reduce_scatter_tensor(torch.zeros(3), torch.zeros(3 * self.size + 1))
        with self.assertRaisesRegex(ValueError, "must be as many"):
            self.group.allgather_into_tensor_coalesced([torch.zeros(self.size)], [])
        with self.assertRaisesRegex(ValueError, "one for each of the"):
            self.group.allgather_coalesced([], [torch.zeros(3)])

    def test_scatter_and_gather_lists(self):
        options = dist.ScatterOptions()
        options.rootRank = self.rank
        with self.assertRaisesRegex(ValueError, "size at index 0"):
            self.group.scatter([torch.zeros(3)], [[torch.zeros(2)] * self.size], options)
        options = dist.GatherOptions()
        options.rootRank = self.rank
        with self.assertRaisesRegex(ValueError, "size at index 0"):
            self.group.gather([[torch.zeros(2)] * self.size], [torch.zeros(3)], options)

    @ranks(2, 4)
    def test_lists_of_a_rank_that_is_not_the_root(self):
        options = dist.GatherOptions()
        options.rootRank = (self.rank + 1) % self.size
        with self.assertRaisesRegex(ValueError, "requires empty output"):
            self.group.gather([[torch.zeros(3)] * self.size], [torch.zeros(3)], options)

    def test_split_sizes(self):
        with self.assertRaisesRegex(ValueError, "doesn't match total dim 0"):
            dist.all_to_all_single(torch.zeros(self.size), torch.zeros(self.size),
                                   [2] * self.size, [2] * self.size)
        with self.assertRaisesRegex(ValueError, "not equal to group size"):
            dist.all_to_all_single(torch.zeros(3), torch.zeros(3), [1, 1, 1, 0, 0], [1, 1, 1, 0, 0])

    @ranks(2, 4)
    def test_rows_that_do_not_divide(self):
        with self.assertRaisesRegex(ValueError, "does not divide equally"):
            dist.all_to_all_single(torch.zeros(self.size + 1), torch.zeros(self.size + 1))

    @ranks(2, 4)
    def test_tensors_that_are_not_contiguous(self):
        stretched = torch.zeros(2 * self.size, 2)[::2]
        with self.assertRaisesRegex(ValueError, "contiguous"):
            dist.all_to_all_single(stretched, torch.zeros(self.size, 2))
        with self.assertRaisesRegex(ValueError, "contiguous"):
            self.group.send([stretched], 0, 0)

    def test_a_bad_call_among_several(self):
        with self.assertRaisesRegex(TypeError, "cannot reduce"):
            self.group.allreduce_coalesced(
                [torch.ones(2), torch.ones(2, dtype=torch.int16)],
                dist.AllreduceCoalescedOptions())

    def test_gradients(self):
        # torch refuses the in-place write itself, as for every backend.
        leaf = torch.ones(3, requires_grad=True)
        dist.all_reduce(leaf)
        self.assertTrue(leaf.requires_grad)


class MismatchTest(GroupCase):
    """Calls of the ranks that differ end the group on every rank, with both ranks' numbers."""

    def assert_ends(self, call, text):
        with self.fresh_group() as group:
            with self.assertRaisesRegex(r2ccl.R2cclError, text):
                call(group)
                dist.barrier(group=group)  # a rank whose part was complete gets the error here
                dist.barrier(group=group)
            self.assertIsInstance(r2ccl.health(group).failure, r2ccl.R2cclError)
            with self.assertRaises(r2ccl.R2cclError):
                dist.barrier(group=group)
            self.meet()

    @ranks(2, 4)
    def test_sizes(self):
        self.assert_ends(lambda group: dist.all_reduce(torch.ones(3 + self.rank), group=group),
                         "do not match")

    @ranks(2, 4)
    def test_types(self):
        dtype = torch.float32 if self.rank else torch.int32
        self.assert_ends(lambda group: dist.all_reduce(torch.ones(3, dtype=dtype), group=group),
                         "do not match")

    @ranks(2, 4)
    def test_operations(self):
        op = dist.ReduceOp.SUM if self.rank else dist.ReduceOp.MAX
        self.assert_ends(lambda group: dist.all_reduce(torch.ones(3), op=op, group=group),
                         "do not match")

    @ranks(2, 4)
    def test_collectives(self):
        self.assert_ends(
            lambda group: dist.all_reduce(torch.ones(3), group=group) if self.rank else
            dist.broadcast(torch.ones(3), 0, group=group), "do not match")

    @ranks(2, 4)
    def test_roots(self):
        self.assert_ends(lambda group: dist.broadcast(torch.ones(3), self.rank % 2, group=group),
                         "do not match")

    @ranks(2, 4)
    def test_rows_of_an_exchange(self):
        rows = [1] * self.size
        receives = [2] + [1] * (self.size - 1) if self.rank == 1 else rows
        self.assert_ends(lambda group: dist.all_to_all_single(
            torch.zeros(sum(receives)), torch.zeros(self.size), receives, rows, group=group),
            "do not match|differ")
