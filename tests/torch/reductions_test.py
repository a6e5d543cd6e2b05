"""Reductions: every type and operation, every name, every element."""

import functools
import operator

import torch
import torch.distributed as dist

import r2ccl
from group_case import DTYPES, GroupCase, ranks, values

COUNT = 37
ALL_TYPES = (*DTYPES, torch.uint32, torch.uint64)
FOLDS = {
    dist.ReduceOp.SUM: operator.add,
    dist.ReduceOp.PRODUCT: operator.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
}
BITWISE = {
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}
INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)


def small(rank, dtype, count=COUNT):
    """Returns elements 0 to 3, so that products of four are exact in every type."""
    return ((torch.arange(count) + rank * 2) % 4).to(dtype)


class AllReduceTest(GroupCase):
    def reduced(self, op, make):
        result = make(self.rank)
        dist.all_reduce(result, op=op)
        return result

    def test_every_operation_of_every_type(self):
        for dtype in DTYPES:
            for op, fold in FOLDS.items():
                with self.subTest(dtype=dtype, op=op):
                    parts = self.all_ranks(lambda rank, dtype=dtype: small(rank, dtype))
                    self.assert_same(self.reduced(op, lambda rank, dtype=dtype: small(rank, dtype)),
                                     functools.reduce(fold, parts))

    def test_sums_of_unsigned_types(self):
        for dtype in (torch.uint32, torch.uint64):
            with self.subTest(dtype=dtype):
                result = self.reduced(dist.ReduceOp.SUM, lambda rank, d=dtype: values(rank, COUNT, d))
                total = sum(self.all_ranks(lambda rank: values(rank, COUNT, torch.int64)))
                self.assert_same(result.to(torch.int64), total)

    def test_bitwise_operations(self):
        for dtype in INTEGERS:
            for op, fold in BITWISE.items():
                with self.subTest(dtype=dtype, op=op):
                    parts = self.all_ranks(lambda rank, dtype=dtype: values(rank, COUNT, dtype))
                    self.assert_same(
                        self.reduced(op, lambda rank, dtype=dtype: values(rank, COUNT, dtype)),
                        functools.reduce(fold, parts))

    def test_average(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            with self.subTest(dtype=dtype):
                result = self.reduced(dist.ReduceOp.AVG,
                                      lambda rank, dtype=dtype: small(rank, dtype))
                total = sum(self.all_ranks(lambda rank, dtype=dtype: small(rank, dtype)))
                self.assert_same(result, total / self.size)

    def test_a_negative_view(self):
        # Its memory has the elements without the sign.
        result = self.reduced(dist.ReduceOp.MAX,
                              lambda rank: torch._neg_view(small(rank, torch.float32).cpu()))
        self.assert_same(result.resolve_neg(), torch.stack(
            self.all_ranks(lambda rank: -small(rank, torch.float32).cpu())).amax(0))

    def test_a_factor_has_all_its_digits(self):
        for factor in (0.1, torch.tensor(0.1, dtype=torch.float64)):
            tensor = torch.ones(2, dtype=torch.float64)
            with torch.device("meta"):
                dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
            expected = sum(torch.full((2,), 0.1, dtype=torch.float64) for _ in range(self.size))
            self.assertTrue(torch.allclose(tensor, expected, rtol=1e-14, atol=0))

    def test_integers_with_a_factor(self):
        result = self.reduced(dist._make_nccl_premul_sum(3.0), lambda rank: small(rank, torch.int32))
        self.assert_same(result, sum(self.all_ranks(lambda rank: 3 * small(rank, torch.int32))))

    def test_average_of_integers_truncates(self):
        result = self.reduced(dist.ReduceOp.AVG, lambda rank: small(rank, torch.int32))
        total = sum(self.all_ranks(lambda rank: small(rank, torch.int32)))
        self.assert_same(result, total.div(self.size, rounding_mode="trunc"))

    def test_sum_with_a_factor(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            for factor in (0.5, torch.tensor([0.25])):
                with self.subTest(dtype=dtype, factor=factor):
                    result = self.reduced(dist._make_nccl_premul_sum(factor),
                                          lambda rank, dtype=dtype: small(rank, dtype))
                    parts = self.all_ranks(lambda rank, dtype=dtype: small(rank, dtype))
                    self.assert_same(result, sum(part * float(factor) for part in parts))
                    self.assertEqual(self.group._factors, [])  # none is left in the library

    def test_logic_of_bool(self):
        def make(rank):
            return values(rank, COUNT, torch.int64) % (2 + rank) == 0
        parts = self.all_ranks(make)
        either, both = functools.reduce(torch.logical_or, parts), functools.reduce(
            torch.logical_and, parts)
        odd = functools.reduce(torch.logical_xor, parts)
        for op, expected in ((dist.ReduceOp.SUM, either), (dist.ReduceOp.MAX, either),
                             (dist.ReduceOp.BOR, either), (dist.ReduceOp.PRODUCT, both),
                             (dist.ReduceOp.MIN, both), (dist.ReduceOp.BAND, both),
                             (dist.ReduceOp.BXOR, odd)):
            with self.subTest(op=op):
                result = self.reduced(op, make)
                self.assert_same(result, expected)
                self.assertLessEqual(int(result.view(torch.uint8).max()), 1)

    def test_sums_of_complex(self):
        for dtype in (torch.complex64, torch.complex128):
            def make(rank, dtype=dtype):
                return torch.complex(values(rank, COUNT, torch.float64),
                                     values(rank, COUNT, torch.float64, 7)).to(dtype)
            with self.subTest(dtype=dtype):
                self.assert_same(self.reduced(dist.ReduceOp.SUM, make), sum(self.all_ranks(make)))

    def test_scalars_and_empty_tensors(self):
        scalar = torch.tensor(float(self.rank + 1))
        dist.all_reduce(scalar)
        self.assert_same(scalar, torch.tensor(float(sum(range(1, self.size + 1)))))
        empty = torch.empty(0, 3)
        dist.all_reduce(empty)
        self.assertEqual(empty.shape, (0, 3))

    def test_tensors_that_are_not_contiguous(self):
        def make(rank):
            return values(rank, 24).reshape(4, 6)
        expected = sum(self.all_ranks(make))
        whole = make(self.rank)
        part = whole[:, ::2]
        dist.all_reduce(part)
        self.assert_same(part.contiguous(), expected[:, ::2].contiguous())
        self.assert_same(whole[:, 1::2].contiguous(), make(self.rank)[:, 1::2].contiguous())
        # Ranks whose strides differ reduce by element, not by place in memory.
        mine = make(self.rank).t().contiguous().t() if self.rank % 2 else make(self.rank)
        dist.all_reduce(mine)
        self.assert_same(mine.contiguous(), expected)

    def test_a_large_tensor(self):
        result = self.reduced(dist.ReduceOp.SUM, lambda rank: values(rank, 3_000_001))
        self.assert_same(result, sum(self.all_ranks(lambda rank: values(rank, 3_000_001))))

    def test_sparse_tensors(self):
        def part(rank):
            return torch.sparse_coo_tensor([[0, rank + 1]], values(rank, 6).view(2, 3), (5, 3))
        total = sum(self.all_ranks(lambda rank: part(rank).to_dense()))
        result = part(self.rank)
        self.assertTrue(dist.all_reduce(result, async_op=True).is_completed())
        self.assert_same(result.to_dense(), total)
        result = part(self.rank)
        dist.all_reduce(result, op=dist.ReduceOp.AVG)
        self.assert_same(result.to_dense(), total / self.size)
        with self.assertRaisesRegex(TypeError, "no MAX of sparse tensors"):
            dist.all_reduce(result, op=dist.ReduceOp.MAX)

    @ranks(2, 4)
    def test_sparse_tensors_that_differ_are_refused_on_every_rank(self):
        wrong = torch.sparse_coo_tensor([[0]], [1.0], (5 + self.rank,))
        with self.assertRaisesRegex(ValueError, "rank 1's differs from rank 0's"):
            dist.all_reduce(wrong)
        dist.barrier()  # the group goes on

    def test_requires_grad_is_kept(self):
        leaf = values(self.rank, 5).requires_grad_()
        with torch.no_grad():
            dist.all_reduce(leaf)
        self.assertTrue(leaf.requires_grad)
        self.assert_same(leaf.detach(), sum(self.all_ranks(lambda rank: values(rank, 5))))

    def test_coalesced(self):
        sizes = (1, 7, 0, 1000)
        tensors = [values(self.rank, size, start=i) for i, size in enumerate(sizes)]
        self.group.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions()).wait()
        for i, (size, tensor) in enumerate(zip(sizes, tensors)):
            self.assert_same(tensor, sum(self.all_ranks(
                lambda rank, size=size, i=i: values(rank, size, start=i))))

    def test_coalescing_manager(self):
        tensors = [values(self.rank, 5, start=i) for i in range(3)]
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        for i, tensor in enumerate(tensors):
            self.assert_same(tensor, sum(self.all_ranks(
                lambda rank, i=i: values(rank, 5, start=i))))

    def test_coalescing_with_a_device_starts_mixed_calls_together(self):
        tensor, copy = values(self.rank, 5), values(self.rank, 4)
        self.group._start_coalescing(torch.device("cpu"))
        first = self.group.allreduce([tensor], dist.AllreduceOptions())
        options = dist.BroadcastOptions()
        options.rootRank = self.size - 1
        self.group.broadcast([copy], options)
        with self.assertRaisesRegex(r2ccl.R2cclError, "has not started"):
            first.wait()
        self.group._end_coalescing(torch.device("cpu")).wait()
        self.assert_same(tensor, sum(self.all_ranks(lambda rank: values(rank, 5))))
        self.assert_same(copy, values(self.size - 1, 4))


class ReduceTest(GroupCase):
    def test_every_root(self):
        for root in range(self.size):
            for op, fold in FOLDS.items():
                tensor = small(self.rank, torch.float32)
                dist.reduce(tensor, root, op=op)
                expected = functools.reduce(
                    fold, self.all_ranks(lambda rank: small(rank, torch.float32)))
                own = small(self.rank, torch.float32)
                self.assert_same(tensor, expected if self.rank == root else own)

    def test_with_a_factor_and_not_contiguous(self):
        tensor = values(self.rank, 24).reshape(4, 6)
        dist.reduce(tensor[:, 1:3], 0, op=dist._make_nccl_premul_sum(2.0))
        expected = values(self.rank, 24).reshape(4, 6)
        if self.rank == 0:
            total = sum(self.all_ranks(lambda rank: values(rank, 24).reshape(4, 6)))
            expected[:, 1:3] = 2 * total[:, 1:3]
        self.assert_same(tensor, expected)


class ReduceScatterTest(GroupCase):
    def block(self, count):
        total = sum(self.all_ranks(lambda rank: values(rank, count * self.size)))
        return total[self.rank * count:(self.rank + 1) * count]

    def test_single(self):
        for count in (0, 1, 5, 4096):
            output = torch.full((count,), -1.0)
            dist.reduce_scatter_tensor(output, values(self.rank, count * self.size))
            self.assert_same(output, self.block(count))

    def test_both_names(self):
        for name in ("_reduce_scatter_base", "reduce_scatter_single"):
            output = torch.empty(3)
            options = dist.ReduceScatterOptions()
            getattr(self.group, name)(output, values(self.rank, 3 * self.size), options).wait()
            self.assert_same(output, self.block(3))

    def test_average_and_factor_of_bfloat16(self):
        source = small(self.rank, torch.bfloat16, 4 * self.size)
        total = sum(self.all_ranks(lambda rank: small(rank, torch.bfloat16, 4 * self.size)))
        mine = total[4 * self.rank:4 * self.rank + 4]
        output = torch.empty(4, dtype=torch.bfloat16)
        dist.reduce_scatter_tensor(output, source, op=dist.ReduceOp.AVG)
        self.assert_same(output, mine / self.size)
        dist.reduce_scatter_tensor(output, source, op=dist._make_nccl_premul_sum(0.5))
        self.assert_same(output, mine * 0.5)

    def test_lists(self):
        inputs = [values(self.rank, 6, start=i).reshape(2, 3) for i in range(self.size)]
        output = torch.empty(2, 3)
        dist.reduce_scatter(output, inputs)
        self.assert_same(output, sum(self.all_ranks(
            lambda rank: values(rank, 6, start=self.rank).reshape(2, 3))))

    def test_lists_of_different_sizes(self):
        inputs = [values(self.rank, i + 1, start=i) for i in range(self.size)]
        output = torch.empty(self.rank + 1)
        dist.reduce_scatter(output, inputs, op=dist.ReduceOp.MAX)
        self.assert_same(output, functools.reduce(torch.maximum, self.all_ranks(
            lambda rank: values(rank, self.rank + 1, start=self.rank))))

    def test_outputs_that_are_not_contiguous(self):
        whole = torch.zeros(4, 4)
        dist.reduce_scatter_tensor(whole[:, ::2], values(self.rank, 8 * self.size))
        self.assert_same(whole[:, ::2].contiguous(), self.block(8).reshape(4, 2))
        self.assert_same(whole[:, 1::2].contiguous(), torch.zeros(4, 2))

    def test_in_place(self):
        source = values(self.rank, 3 * self.size)
        output = source[3 * self.rank:3 * self.rank + 3]
        expected = self.block(3)
        dist.reduce_scatter_tensor(output, source)
        self.assert_same(output, expected)

    def test_coalesced_by_both_names(self):
        for name in ("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"):
            outputs = [torch.empty(2), torch.empty(5)]
            inputs = [values(self.rank, 2 * self.size), values(self.rank, 5 * self.size)]
            getattr(self.group, name)(outputs, inputs, dist.ReduceScatterOptions()).wait()
            self.assert_same(outputs[0], self.block(2))
            self.assert_same(outputs[1], self.block(5))


class BitsTest(GroupCase):
    @ranks(2, 4)
    def test_every_rank_has_the_same_bits(self):
        torch.manual_seed(self.rank)
        for dtype in (torch.float32, torch.bfloat16):
            tensor = torch.randn(10_001).to(dtype)
            dist.all_reduce(tensor)
            copies = [torch.empty_like(tensor) for _ in range(self.size)]
            dist.all_gather(copies, tensor)
            for copy in copies:
                self.assert_same(copy, copies[0])
