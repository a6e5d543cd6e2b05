"""torch's own users of a group: DDP, FSDP2, functional collectives, DTensor, hooks."""

import contextlib
import copy

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
try:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
except ImportError:  # torch 2.4
    from torch.distributed._tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import r2ccl
from group_case import GroupCase, ranks, seconds, since, values

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # torch 2.4 and 2.5
    from torch.distributed._composable.fsdp import fully_shard


def make_model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))


def batch(rank, step):
    generator = torch.Generator("cpu").manual_seed(1000 * step + rank)
    return tuple(torch.randn(6, width, generator=generator, device="cpu").to(
        torch.get_default_device()) for width in (8, 4))


def loss_of(model, rank, step):
    source, target = batch(rank, step)
    return torch.nn.functional.mse_loss(model(source), target)


class TrainingCase(GroupCase):
    STEPS = 4

    def train_alone(self):
        """Returns a model trained by one process with the batches of all ranks."""
        model = make_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(self.STEPS):
            optimizer.zero_grad()
            for rank in range(self.size):
                (loss_of(model, rank, step) / self.size).backward()
            optimizer.step()
        return model

    def train(self, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(self.STEPS):
            optimizer.zero_grad()
            loss_of(model, self.rank, step).backward()
            optimizer.step()

    def assert_close(self, parameters, expected):
        for one, other in zip(parameters, expected):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


class DdpTest(TrainingCase):
    def test_weights_equal_those_of_one_process(self):
        model = DistributedDataParallel(make_model(), bucket_cap_mb=0.0005)
        self.train(model)
        self.assert_close(model.module.parameters(), self.train_alone().parameters())

    def test_static_graph_and_views_of_buckets(self):
        model = DistributedDataParallel(make_model(), static_graph=True,
                                        gradient_as_bucket_view=True)
        self.train(model)
        self.assert_close(model.module.parameters(), self.train_alone().parameters())

    def test_unused_parameters(self):
        class Branches(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.unused = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)

            def forward(self, source):
                return self.used(source)
        torch.manual_seed(7)
        model = DistributedDataParallel(Branches(), find_unused_parameters=True)
        loss_of(model, self.rank, 0).backward()
        self.assertIsNone(model.module.unused.weight.grad)
        grads = [torch.zeros(4, 8) for _ in range(self.size)]
        dist.all_gather(grads, model.module.used.weight.grad)
        for grad in grads:
            self.assert_same(grad, grads[0])

    def test_no_sync_adds_up(self):
        model = DistributedDataParallel(make_model())
        with model.no_sync():
            loss_of(model, self.rank, 0).backward()
        loss_of(model, self.rank, 1).backward()
        alone = make_model()
        for rank in range(self.size):
            for step in (0, 1):
                (loss_of(alone, rank, step) / self.size).backward()
        self.assert_close([p.grad for p in model.parameters()],
                          [p.grad for p in alone.parameters()])

    def test_a_join_with_uneven_inputs(self):
        # torch's C++ code keeps a Work here that Python has dropped.
        model = DistributedDataParallel(make_model())
        with model.join(divide_by_initial_world_size=False):
            for step in range(2 + self.rank):
                loss_of(model, self.rank, step).backward()
        self.assertEqual(model.module[0].weight.grad.shape, (16, 8))
        self.meet()

    def test_a_hook(self):
        def hook(state, bucket):
            future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
            return future.then(lambda ended: ended.value()[0] / (2 * self.size))
        model = DistributedDataParallel(make_model())
        model.register_comm_hook(None, hook)
        loss_of(model, self.rank, 0).backward()
        alone = make_model()
        for rank in range(self.size):
            (loss_of(alone, rank, 0) / (2 * self.size)).backward()
        self.assert_close([p.grad for p in model.parameters()],
                          [p.grad for p in alone.parameters()])

    def test_buffers_are_those_of_rank_0(self):
        torch.manual_seed(self.rank)
        model = DistributedDataParallel(torch.nn.BatchNorm1d(8))
        with torch.no_grad():
            model.module.running_mean.fill_(float(self.rank))
        model.train()
        model(torch.ones(4, 8))
        model(torch.ones(4, 8))
        means = [torch.zeros(8) for _ in range(self.size)]
        dist.all_gather(means, model.module.running_mean)
        # 0.1 of the batch's mean, twice, from rank 0's 0
        for mean in means:
            torch.testing.assert_close(mean, torch.full((8,), 0.19))

    @ranks(2, 4)
    def test_models_that_differ_are_refused(self):
        with self.fresh_group() as group:
            if self.rank == 0:  # the others compare with it: it finds no fault
                with contextlib.suppress(r2ccl.R2cclError):
                    DistributedDataParallel(torch.nn.Linear(9, 4), process_group=group)
            else:
                with self.assertRaisesRegex(RuntimeError, "appears not to match"):
                    DistributedDataParallel(torch.nn.Linear(8, 4), process_group=group)
            self.meet()


class LostRankTest(TrainingCase):
    """DDP waits in C++ for futures: an error must reach it as one, and crash nothing."""

    @ranks(2)
    def test_a_backward_pass_without_the_other_rank_raises_its_number(self):
        group = dist.new_group([0, 1])
        model = DistributedDataParallel(make_model(), process_group=group)
        loss_of(model, self.rank, 0).backward()
        loss = loss_of(model, self.rank, 1)
        if self.rank == 1:
            group.abort()
        else:
            with self.assertRaisesRegex(RuntimeError, "rank 1 .*aborted"):
                loss.backward()
        dist.destroy_process_group(group)
        self.meet()

    @ranks(2)
    def test_a_backward_pass_with_a_late_rank_ends_at_the_timeout(self):
        with self.fresh_group(timeout=seconds(1.5)) as group:
            model = DistributedDataParallel(make_model(), process_group=group)
            if self.rank == 0:
                with self.assertRaisesRegex(RuntimeError, "WaitTimeoutError.*rank 1"):
                    loss_of(model, self.rank, 0).backward()
            self.meet()


class FsdpTest(TrainingCase):
    # FSDP2 of older versions needs CUDA.
    @since(2, 6)
    def test_weights_equal_those_of_one_process(self):
        model = make_model()
        mesh = init_device_mesh(torch.get_default_device().type, (self.size,))
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        self.train(model)
        whole = [parameter.full_tensor() for parameter in model.parameters()]
        self.assert_close(whole, self.train_alone().parameters())

    @since(2, 6)
    def test_divide_factor_and_low_precision(self):
        try:
            from torch.distributed.fsdp import MixedPrecisionPolicy
        except ImportError:
            from torch.distributed._composable.fsdp import MixedPrecisionPolicy
        model = make_model()
        expected = copy.deepcopy(model)
        policy = MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.bfloat16)
        fully_shard(model, mesh=init_device_mesh(torch.get_default_device().type, (self.size,)), mp_policy=policy)
        if hasattr(model, "set_gradient_divide_factor"):
            model.set_gradient_divide_factor(2.0 * self.size)
            scale = 2 * self.size
        else:
            scale = self.size
        loss_of(model, self.rank, 0).backward()
        for rank in range(self.size):
            (loss_of(expected, rank, 0) / scale).backward()
        for one, other in zip(model.parameters(), expected.parameters()):
            torch.testing.assert_close(one.grad.full_tensor(), other.grad, rtol=0.05, atol=1e-3)

    @since(2, 6)
    @ranks(4)
    def test_two_dimensions(self):
        model = make_model()
        mesh = init_device_mesh(torch.get_default_device().type, (2, 2), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh)
        self.train(model)
        whole = [parameter.full_tensor() for parameter in model.parameters()]
        self.assert_close(whole, self.train_alone().parameters())


class FunctionalTest(GroupCase):
    def test_collectives(self):
        source = values(self.rank, 4 * self.size)
        total = sum(self.all_ranks(lambda rank: values(rank, 4 * self.size)))
        own = slice(4 * self.rank, 4 * self.rank + 4)
        self.assert_same(functional.all_reduce(source, "sum", self.group) + 0, total)
        self.assert_same(functional.all_reduce(source, "avg", self.group) + 0, total / self.size)
        self.assert_same(functional.reduce_scatter_tensor(source, "sum", 0, self.group) + 0,
                         total[own])
        self.assert_same(functional.all_gather_tensor(source[own], 0, self.group) + 0, torch.cat(
            self.all_ranks(lambda rank: values(rank, 4 * self.size)[4 * rank:4 * rank + 4])))
        self.assert_same(functional.broadcast(source, self.size - 1, self.group) + 0,
                         values(self.size - 1, 4 * self.size))
        self.assert_same(
            functional.all_to_all_single(source, None, None, self.group) + 0,
            torch.cat(self.all_ranks(lambda rank: values(rank, 4 * self.size)[own])))
        self.assert_same(source, values(self.rank, 4 * self.size))

    def test_coalesced(self):
        sources = [values(self.rank, 2 * self.size), values(self.rank, 3 * self.size, start=1)]
        totals = [sum(self.all_ranks(lambda rank: values(rank, 2 * self.size))),
                  sum(self.all_ranks(lambda rank: values(rank, 3 * self.size, start=1)))]
        for one, total in zip(functional.all_reduce_coalesced(sources, "sum", self.group), totals):
            self.assert_same(one + 0, total)
        parts = functional.reduce_scatter_tensor_coalesced(sources, "sum", [0, 0], self.group)
        for count, one, total in zip((2, 3), parts, totals):
            self.assert_same(one + 0, total[count * self.rank:count * (self.rank + 1)])
        whole = functional.all_gather_into_tensor_coalesced(sources, self.group)
        self.assert_same(whole[0] + 0, torch.cat(
            self.all_ranks(lambda rank: values(rank, 2 * self.size))))

    def test_dtensor_redistribution(self):
        mesh = init_device_mesh(torch.get_default_device().type, (self.size,))
        full = values(3, 8 * self.size).reshape(2 * self.size, 4)
        sharded = distribute_tensor(full, mesh, [Shard(0)])
        self.assert_same(sharded.to_local(), full[2 * self.rank:2 * self.rank + 2])
        self.assert_same(sharded.redistribute(mesh, [Replicate()]).to_local(), full)
        self.assert_same(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), full)
        other = distribute_tensor(full.t(), mesh, [Replicate()])
        self.assert_same((sharded @ other).full_tensor(), full @ full.t())

    def test_a_tensor_whose_elements_are_in_another_one_is_refused(self):
        mesh = init_device_mesh(torch.get_default_device().type, (self.size,))
        shards = distribute_tensor(torch.zeros(4, self.size), mesh, [Shard(1)])
        for call in (lambda: dist.all_reduce(shards), lambda: dist.broadcast(shards, 0)):
            with self.assertRaisesRegex(TypeError, r"a DTensor has no memory.*to_local\(\)"):
                call()
        late = functional.all_reduce(values(self.rank, 3), "sum", self.group)
        with self.assertRaisesRegex(TypeError, r"AsyncCollectiveTensor has no.*wait\(\)"):
            dist.all_reduce(late)
        self.assert_same(late + 0, sum(self.all_ranks(lambda rank: values(rank, 3))))
