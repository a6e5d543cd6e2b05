"""Collectives that copy: every name, every type, uneven sizes, every element."""

import time

import torch
import torch.distributed as dist

from group_case import DTYPES, GroupCase, ranks, values

ODD_TYPES = (torch.bool, torch.int16, torch.uint16, torch.uint32, torch.complex64,
             torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2)


def bytes_of(tensor):
    """float8 has no comparison: compare bytes."""
    return tensor.contiguous().view(torch.uint8)


class BroadcastTest(GroupCase):
    def test_every_root(self):
        for root in range(self.size):
            tensor = values(self.rank, 11)
            dist.broadcast(tensor, root)
            self.assert_same(tensor, values(root, 11))

    def test_every_type(self):
        for dtype in (*DTYPES, *ODD_TYPES):
            with self.subTest(dtype=dtype):
                tensor = values(self.rank, 9).to(dtype)
                dist.broadcast(tensor, self.size - 1)
                self.assert_same(bytes_of(tensor),
                                 bytes_of(values(self.size - 1, 9).to(dtype)))

    def test_conjugate_views(self):
        tensor = torch.complex(values(self.rank, 3), values(self.rank, 3, start=5)).cpu()
        view = tensor.conj() if self.rank % 2 == 0 else tensor  # its memory is that of the tensor
        for root in range(min(self.size, 2)):
            expected = view.clone()
            with self.subTest(root=root):
                options = dist.BroadcastOptions()
                options.rootRank = root
                self.group.broadcast([view], options).wait()
                sent = [expected]
                dist.broadcast_object_list(sent, root)
                self.assert_same(view.resolve_conj(), sent[0].resolve_conj())

    def test_a_tensor_that_is_not_contiguous(self):
        whole = values(self.rank, 12).reshape(3, 4)
        dist.broadcast(whole.t()[::2], 0)
        expected = values(self.rank, 12).reshape(3, 4)
        expected.t()[::2] = values(0, 12).reshape(3, 4).t()[::2]
        self.assert_same(whole, expected)

    def test_objects(self):
        objects = [{"rank": self.rank, "text": "x" * 1000}, None, [self.rank]]
        dist.broadcast_object_list(objects, src=self.size - 1)
        last = self.size - 1
        self.assertEqual(objects, [{"rank": last, "text": "x" * 1000}, None, [last]])


class AllGatherTest(GroupCase):
    def test_lists_of_every_type(self):
        for dtype in (*DTYPES, *ODD_TYPES):
            with self.subTest(dtype=dtype):
                outputs = [torch.zeros(7).to(dtype) for _ in range(self.size)]
                dist.all_gather(outputs, values(self.rank, 7).to(dtype))
                for rank, output in enumerate(outputs):
                    self.assert_same(bytes_of(output), bytes_of(values(rank, 7).to(dtype)))

    def test_lists_of_different_sizes(self):
        outputs = [torch.zeros(rank * 3 + 1) for rank in range(self.size)]
        dist.all_gather(outputs, values(self.rank, self.rank * 3 + 1))
        for rank, output in enumerate(outputs):
            self.assert_same(output, values(rank, rank * 3 + 1))

    def test_lists_with_another_default_device(self):
        outputs, mine = self.all_ranks(lambda _: torch.empty(6)), values(self.rank, 6)
        with torch.device("meta"):
            self.group.allgather([outputs], [mine]).wait()
            self.group.monitored_barrier()
        for rank, output in enumerate(outputs):
            self.assert_same(output, values(rank, 6))

    @ranks(2, 4)
    def test_tensors_of_inference_mode(self):
        with torch.inference_mode():
            outputs = self.all_ranks(lambda _: torch.empty(6))
            if self.rank == 0:
                time.sleep(0.2)  # the others' waits go on in another thread
            dist.all_gather(outputs, values(self.rank, 6))
            for rank, output in enumerate(outputs):
                self.assert_same(output, values(rank, 6))

    def test_lists_that_lie_in_one_tensor_or_are_not_contiguous(self):
        whole = torch.zeros(self.size, 4)
        dist.all_gather(list(whole), values(self.rank, 4))
        self.assert_same(whole, torch.stack(self.all_ranks(lambda rank: values(rank, 4))))
        columns = torch.zeros(4, self.size)
        dist.all_gather(list(columns.t()), values(self.rank, 4))
        self.assert_same(columns.t().contiguous(), whole)

    def test_single_by_every_name(self):
        for name in ("_allgather_base", "all_gather_single"):
            for count in (0, 1, 1000):
                output = torch.zeros(self.size * count)
                getattr(self.group, name)(output, values(self.rank, count)).wait()
                self.assert_same(output, torch.cat(
                    self.all_ranks(lambda rank, count=count: values(rank, count))))
        output = torch.zeros(self.size, 6)
        dist.all_gather_into_tensor(output, values(self.rank, 6))
        self.assert_same(output, torch.stack(self.all_ranks(lambda rank: values(rank, 6))))

    def test_single_in_place(self):
        output = torch.zeros(self.size, 3)
        output[self.rank] = values(self.rank, 3)
        dist.all_gather_into_tensor(output, output[self.rank])
        self.assert_same(output, torch.stack(self.all_ranks(lambda rank: values(rank, 3))))

    def test_coalesced_by_every_name(self):
        for name in ("allgather_into_tensor_coalesced", "all_gather_single_coalesced"):
            outputs = [torch.zeros(self.size * 2), torch.zeros(self.size * 5)]
            inputs = [values(self.rank, 2), values(self.rank, 5, start=1)]
            getattr(self.group, name)(outputs, inputs).wait()
            self.assert_same(outputs[0], torch.cat(self.all_ranks(lambda rank: values(rank, 2))))
            self.assert_same(outputs[1], torch.cat(
                self.all_ranks(lambda rank: values(rank, 5, start=1))))

    def test_coalesced_lists(self):
        lists = [[torch.zeros(2), torch.zeros(3, 2)] for _ in range(self.size)]
        dist.all_gather_coalesced(lists, [values(self.rank, 2), values(self.rank, 6).view(3, 2)])
        for rank, outputs in enumerate(lists):
            self.assert_same(outputs[0], values(rank, 2))
            self.assert_same(outputs[1], values(rank, 6).view(3, 2))

    def test_objects(self):
        objects = [None] * self.size
        dist.all_gather_object(objects, {"rank": self.rank, "list": list(range(self.rank * 100))})
        self.assertEqual(objects, self.all_ranks(
            lambda rank: {"rank": rank, "list": list(range(rank * 100))}))


class GatherTest(GroupCase):
    def test_every_root(self):
        for root in range(self.size):
            outputs = [torch.zeros(2, 3) for _ in range(self.size)] if root == self.rank else None
            dist.gather(values(self.rank, 6).view(2, 3), outputs, dst=root)
            for rank, output in enumerate(outputs or []):
                self.assert_same(output, values(rank, 6).view(2, 3))

    def test_objects(self):
        objects = [None] * self.size if self.rank == 0 else None
        dist.gather_object(("rank", self.rank), objects, dst=0)
        if self.rank == 0:
            self.assertEqual(objects, self.all_ranks(lambda rank: ("rank", rank)))


class ScatterTest(GroupCase):
    def test_every_root(self):
        for root in range(self.size):
            inputs = [values(root, 5, start=rank) for rank in range(self.size)]
            output = torch.zeros(5)
            dist.scatter(output, inputs if root == self.rank else None, src=root)
            self.assert_same(output, values(root, 5, start=self.rank))

    def test_an_output_that_is_not_contiguous(self):
        whole = torch.zeros(3, 4)
        inputs = [values(0, 6, start=rank).view(3, 2) for rank in range(self.size)]
        dist.scatter(whole[:, ::2], inputs if self.rank == 0 else None, src=0)
        self.assert_same(whole[:, ::2].contiguous(), values(0, 6, start=self.rank).view(3, 2))
        self.assert_same(whole[:, 1::2].contiguous(), torch.zeros(3, 2))

    def test_objects(self):
        output = [None]
        objects = [{"for": rank} for rank in range(self.size)] if self.rank == 0 else None
        dist.scatter_object_list(output, objects, src=0)
        self.assertEqual(output, [{"for": self.rank}])


def rows_between(sender, receiver):
    """Returns how many rows one rank sends to another in uneven exchanges."""
    return (sender + 2 * receiver) % 3


class AllToAllTest(GroupCase):
    def test_equal_rows(self):
        source = torch.stack([values(self.rank, 4, start=rank) for rank in range(self.size)])
        output = torch.zeros_like(source)
        dist.all_to_all_single(output, source)
        self.assert_same(output, torch.stack(
            self.all_ranks(lambda rank: values(rank, 4, start=self.rank))))

    def test_uneven_rows_by_every_name(self):
        sends = [rows_between(self.rank, rank) for rank in range(self.size)]
        receives = [rows_between(rank, self.rank) for rank in range(self.size)]
        for name in ("alltoall_base", "all_to_all_single"):
            for dtype in (torch.float32, torch.int16, torch.float8_e5m2):
                source = torch.cat([values(self.rank, rows * 5, start=rank).view(rows, 5)
                                    for rank, rows in enumerate(sends)]).to(dtype)
                output = torch.zeros(sum(receives), 5).to(dtype)
                getattr(self.group, name)(output, source, receives, sends,
                                          dist.AllToAllOptions()).wait()
                expected = torch.cat([values(rank, rows * 5, start=self.rank).view(rows, 5)
                                      for rank, rows in enumerate(receives)]).to(dtype)
                self.assert_same(bytes_of(output), bytes_of(expected))

    def test_some_ranks_give_sizes_and_others_do_not(self):
        source = values(self.rank, self.size)
        output = torch.zeros(self.size)
        sizes = [1] * self.size if self.rank % 2 else None
        dist.all_to_all_single(output, source, sizes, sizes)
        self.assert_same(output, torch.stack(
            self.all_ranks(lambda rank: values(rank, self.size)[self.rank])))

    def test_lists_of_different_sizes(self):
        inputs = [values(self.rank, rows_between(self.rank, rank)) for rank in range(self.size)]
        outputs = [torch.zeros(rows_between(rank, self.rank)) for rank in range(self.size)]
        dist.all_to_all(outputs, inputs)
        for rank, output in enumerate(outputs):
            self.assert_same(output, values(rank, rows_between(rank, self.rank)))

    def test_complex(self):
        source = torch.complex(values(self.rank, self.size), values(self.rank, self.size, start=5))
        output = torch.zeros_like(source)
        dist.all_to_all_single(output, source)
        self.assert_same(output, torch.stack(self.all_ranks(lambda rank: torch.complex(
            values(rank, self.size), values(rank, self.size, start=5))[self.rank])))


class BarrierTest(GroupCase):
    @ranks(2, 4)
    def test_no_rank_passes_before_the_last_comes(self):
        late = self.size - 1
        store = self.group.get_group_store()
        if self.rank == late:
            store.set("the late rank has come", "1")
        dist.barrier()
        self.assertTrue(store.check(["the late rank has come"]))
        dist.barrier()
        if self.rank == late:
            store.delete_key("the late rank has come")

    def test_async(self):
        work = dist.barrier(async_op=True)
        self.assertTrue(work.wait())
        self.assertTrue(work.is_completed())
