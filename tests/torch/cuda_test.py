"""CUDA tensors: the order of operations, kernels and copies on streams. Ranks may share a GPU.

torch.cuda._sleep() delays a kernel, so that a missing wait shows: the result is then an old one.
"""

import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from group_case import DTYPES, GroupCase, ranks, values, with_cuda

COUNT = 1 << 20
LATE = 50_000_000  # cycles: some 25 ms


def filled(value, count=COUNT):
    """Returns a tensor that a late kernel of the current stream fills."""
    tensor = torch.zeros(count, device="cuda")
    torch.cuda._sleep(LATE)
    return tensor.fill_(value)


class StreamTest(GroupCase):
    def assert_all(self, tensor, value):
        self.assert_same(tensor.cpu(), torch.full((tensor.numel(),), float(value), device="cpu"))

    @with_cuda
    def test_every_type_and_element(self):
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                tensor = values(self.rank, 1001, dtype).cuda()
                dist.all_reduce(tensor)
                self.assert_same(tensor.cpu(), sum(self.all_ranks(
                    lambda rank, dtype=dtype: values(rank, 1001, dtype).cpu())))

    @with_cuda
    def test_the_input_of_a_late_kernel_on_a_side_stream(self):
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = filled(self.rank + 1)
            dist.all_reduce(tensor)
            self.assert_all(tensor, sum(range(1, self.size + 1)))

    @with_cuda
    def test_a_late_reader_of_the_output_sees_the_old_elements(self):
        tensor, root = torch.full((COUNT,), 7.0, device="cuda"), self.size - 1
        torch.cuda._sleep(LATE)
        before = tensor + 0
        if self.rank == root:
            tensor.fill_(9)
        dist.broadcast(tensor, root)
        self.assert_all(before, 7)
        self.assert_all(tensor, 9)

    @with_cuda
    def test_kernels_after_a_wait_see_the_result(self):
        tensor = torch.full((COUNT,), 1.0, device="cuda")
        work = dist.all_reduce(tensor, async_op=True)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            work.wait()
            twice = tensor * 2
        side.synchronize()
        self.assert_all(twice, 2 * self.size)

    @with_cuda
    def test_a_completed_work_needs_no_wait_on_any_stream(self):
        tensor = torch.full((COUNT,), 1.0, device="cuda")
        work = dist.all_reduce(tensor, async_op=True)
        deadline = time.monotonic() + 20
        while not work.is_completed():
            self.assertLess(time.monotonic(), deadline)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            twice = tensor * 2
        side.synchronize()
        self.assert_all(twice, 2 * self.size)

    @with_cuda
    def test_callbacks_of_a_future_see_the_result(self):
        tensor = torch.full((COUNT,), 1.0, device="cuda")
        future = dist.all_reduce(tensor, async_op=True).get_future()
        twice = future.then(lambda ended: ended.value()[0] * 2).wait()
        self.assert_all(twice, 2 * self.size)

    @with_cuda
    @ranks(2, 4)
    def test_a_future_has_the_error(self):
        with self.fresh_group() as group:
            tensor = torch.ones(8 if self.rank else 9, device="cuda")
            future = group.allreduce([tensor]).get_future()
            with self.assertRaisesRegex(RuntimeError, "do not match"):
                future.wait()
        self.meet()

    @with_cuda
    def test_tensors_that_the_program_drops_are_whole(self):
        kept = []
        for number in range(20):
            tensor = torch.full((COUNT // 4,), float(number), device="cuda")
            kept.append(dist.all_reduce(tensor, async_op=True))
            del tensor
            torch.full((COUNT // 4,), -1.0, device="cuda")  # takes the memory if it is free
        for number, work in enumerate(kept):
            work.wait()
            self.assert_all(work.result()[0], number * self.size)

    @with_cuda
    def test_a_graph_that_captures_a_call_gets_an_error(self):
        tensor = torch.ones(8, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "CUDA graph"):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                dist.all_reduce(tensor)
        torch.cuda.synchronize()
        self.meet()

    @with_cuda
    def test_lists_views_and_uneven_sizes(self):
        outputs = [torch.zeros(rank + 1, device="cuda") for rank in range(self.size)]
        dist.all_gather(outputs, values(self.rank, self.rank + 1).cuda())
        for rank, output in enumerate(outputs):
            self.assert_same(output.cpu(), values(rank, rank + 1).cpu())
        whole = torch.zeros(6, 4, device="cuda")
        column = whole[:, 1]
        column += self.rank + 1
        dist.all_reduce(column)
        self.assertEqual(whole.sum().item(), 6 * sum(range(1, self.size + 1)))

    @with_cuda
    def test_conjugate_and_negative_views(self):
        source = torch.complex(values(self.rank, COUNT), values(self.rank, COUNT, start=5))
        view, output = source.cuda().conj(), torch.zeros(COUNT * self.size, device="cuda")
        self.assertTrue(view.imag.is_neg())
        torch.cuda._sleep(LATE)
        dist.all_gather_into_tensor(output, view.imag)
        for rank in range(self.size):
            self.assert_same(output[rank * COUNT:][:COUNT].cpu(),
                             -values(rank, COUNT, start=5).cpu())
        for call in (lambda: self.group.allreduce([view]),
                     lambda: self.group.allgather([[view] * self.size], [source.cuda()])):
            with self.assertRaisesRegex(RuntimeError, "conjugate and negative views"):
                call()

    @with_cuda
    @ranks(2, 4)
    def test_messages(self):
        peer, received = self.rank ^ 1, torch.zeros(COUNT, device="cuda")
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, filled(self.rank + 1), peer),
            dist.P2POp(dist.irecv, received, peer)])
        for work in works:
            work.wait()
        self.assert_all(received, peer + 1)


class TrainingTest(GroupCase):
    def model(self):
        torch.manual_seed(7)
        return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(),
                                   torch.nn.Linear(256, 8)).cuda()

    def loss(self, model, rank, step):
        generator = torch.Generator("cpu").manual_seed(1000 * step + rank)
        source = torch.randn(32, 64, generator=generator, device="cpu").cuda()
        return model(source).square().mean()

    def train(self, model, ranks_of_batch, steps=5):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(steps):
            optimizer.zero_grad()
            for rank in ranks_of_batch:
                (self.loss(model, rank, step) / len(ranks_of_batch)).backward()
            optimizer.step()

    def check(self, parameters):
        alone = self.model()
        self.train(alone, range(self.size))
        for mine, other in zip(parameters, alone.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)

    @with_cuda
    def test_ddp(self):
        model = DistributedDataParallel(self.model(), device_ids=[torch.cuda.current_device()],
                                        bucket_cap_mb=0.01)
        self.train(model, [self.rank])
        self.check(model.module.parameters())

    @with_cuda
    def test_fsdp(self):
        model = FullyShardedDataParallel(self.model(), device_id=torch.cuda.current_device())
        self.train(model, [self.rank])
        with FullyShardedDataParallel.summon_full_params(model):
            self.check([parameter.detach().clone() for parameter in model.parameters()])
