"""torch's own shrink_group, on groups of r2ccl. Each test starts processes of its own; their store is
in the test, so that it outlives each of them. Before torch 2.14 torch refuses, and the group stays."""

import unittest

from r2ccl.backend import IS_USABLE
from processes import Processes

HEAD = """
import contextlib, datetime, json, sys
import torch, torch.distributed as dist, r2ccl
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
me, size, port = map(int, sys.argv[1:])
store = dist.TCPStore("127.0.0.1", port, is_master=False)
dist.init_process_group("r2ccl", store=store, rank=me, world_size=size,
                        timeout=datetime.timedelta(seconds=60))

def values(owner, turn, length=1000):
    "What a process gives in this turn: another number for each process, element and turn."
    return torch.arange(length, dtype=torch.float64) * (owner + 1) + 7 * turn + 5000 * owner

def same(given, wanted):
    assert torch.equal(given, wanted), (given, wanted)

def check_reductions(members, group, turn):
    n, place = len(members), dist.get_rank(group)
    total = sum(values(owner, turn, 100 * n) for owner in members)
    mine = values(me, turn, 100 * n)
    given = mine.clone()
    dist.all_reduce(given, group=group)
    same(given, total)
    work = dist.all_reduce(given.copy_(mine), group=group, async_op=True)
    same(work.get_future().wait()[0], total)  # torch's Work has no other way to ask
    work.wait()
    same(given, total)
    given = mine.clone()
    dist.reduce(given, group_dst=n - 1, group=group)
    if place == n - 1:
        same(given, total)
    part = torch.zeros(100, dtype=torch.float64)
    dist.reduce_scatter(part, list(mine.chunk(n)), group=group)
    same(part, total.chunk(n)[place])
    dist.reduce_scatter_tensor(part.zero_(), mine, group=group)
    same(part, total.chunk(n)[place])
    pair = [mine.clone(), mine.clone() + 1]
    with dist._coalescing_manager(group, torch.device("cpu")):
        for tensor in pair:
            dist.all_reduce(tensor, group=group)
    same(pair[0], total)
    same(pair[1], total + n)

def check_copies(members, group, turn):
    n, place = len(members), dist.get_rank(group)
    mine, all_of = values(me, turn), [values(owner, turn) for owner in members]
    for root in range(n):
        given = mine.clone()
        dist.broadcast(given, group_src=root, group=group)
        same(given, all_of[root])
    given = [torch.zeros_like(mine) for _ in members]
    dist.all_gather(given, mine, group=group)
    same(torch.stack(given), torch.stack(all_of))
    joined = torch.zeros(n * 1000, dtype=torch.float64)
    dist.all_gather_into_tensor(joined, mine, group=group)
    same(joined, torch.cat(all_of))
    given = [torch.zeros_like(mine) for _ in members] if place == 0 else None
    dist.gather(mine, given, group_dst=0, group=group)
    if place == 0:
        same(torch.stack(given), torch.stack(all_of))
    part = torch.zeros_like(mine)
    dist.scatter(part, [each + 1 for each in all_of] if place == 0 else None, group_src=0,
                 group=group)
    same(part, mine + 1)
    objects = [None] * n
    dist.all_gather_object(objects, {"process": me, "turn": turn}, group=group)
    assert objects == [{"process": owner, "turn": turn} for owner in members], objects

def check_exchange(members, group, turn):
    n, place = len(members), dist.get_rank(group)
    def sent(source, target):  # the sizes differ by target
        return values(members[source], turn, 50 + 10 * target) + 3 * target
    given = [torch.zeros(50 + 10 * place, dtype=torch.float64) for _ in members]
    dist.all_to_all(given, [sent(place, target) for target in range(n)], group=group)
    same(torch.cat(given), torch.cat([sent(source, place) for source in range(n)]))
    sizes = [50 + 10 * target for target in range(n)]
    joined = torch.zeros(n * sizes[place], dtype=torch.float64)
    dist.all_to_all_single(joined, torch.cat([sent(place, target) for target in range(n)]),
                           [sizes[place]] * n, sizes, group=group)
    same(joined, torch.cat(given))
    after, before = (place + 1) % n, (place - 1) % n
    got = torch.zeros(1000, dtype=torch.float64)
    work = dist.isend(values(me, turn), group_dst=after, group=group, tag=turn)
    dist.recv(got, group_src=before, group=group, tag=turn)
    work.wait()
    same(got, values(members[before], turn))
    got.zero_()
    for work in dist.batch_isend_irecv([
            dist.P2POp(dist.isend, values(me, turn) + 1, group_peer=after, group=group),
            dist.P2POp(dist.irecv, got, group_peer=before, group=group)]):
        work.wait()
    same(got, values(members[before], turn) + 1)
    dist.barrier(group=group)

def check_gradients(members, turn):
    "Every element of the average that DDP makes of the gradients of the default group."
    model = DistributedDataParallel(torch.nn.Linear(40, 30).double())
    model(values(me, turn, 40)).sum().backward()
    mean = sum(values(owner, turn, 40) for owner in members) / len(members)
    torch.testing.assert_close(model.module.weight.grad, mean.expand(30, 40))
    same(model.module.bias.grad, torch.ones(30, dtype=torch.float64))

def check_health(members, group=None):
    place = members.index(me)
    health = r2ccl.health(group)
    assert (health.rank, health.size, health.failure) == (place, len(members), None), health
    assert {path.peer for path in health.paths} >= set(range(len(members))) - {place}, health
    assert json.loads(r2ccl.report(group))["rank"] == place
    r2ccl.on_verdict(lambda verdict: None, group)
    assert r2ccl.last_error(group) is None

def check(members, group=None):
    "These processes are the ranks of the group, in this order, and all its calls are right."
    assert dist.get_world_size(group) == len(members), dist.get_world_size(group)
    assert dist.get_rank(group) == members.index(me), (dist.get_rank(group), members)
    assert dist.get_backend(group) == "r2ccl"
    for turn in range(3):
        check_reductions(members, group, turn)
        check_copies(members, group, turn)
        check_exchange(members, group, turn)
        if group is None:
            check_gradients(members, turn)
    check_health(members, group)

def error_of(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no error")

def say(word):
    print(word, flush=True)

def hear():
    return sys.stdin.readline().strip()
"""


class Shrinks(Processes):
    head = HEAD


@unittest.skipUnless(IS_USABLE, "torch has no Backend class for Python before 2.14")
class ShrinkTest(Shrinks):
    def expect_others(self, victims):
        """Four processes, of which the victims are killed, one after the other."""
        body = """
            members, turn = [0, 1, 2, 3], 0
            check(members)
            pair = dist.new_group([0, 1])  # ends with the default group
            while len(members) > LEFT:
                say("works")
                def reduce_for_ever():
                    global turn
                    while True:
                        turn += 1
                        given = values(me, turn, 100000)
                        dist.all_reduce(given)
                        same(given, sum(values(owner, turn, 100000) for owner in members))
                error = error_of(reduce_for_ever)
                assert isinstance(error, r2ccl.RemoteRankError), repr(error)
                assert r2ccl.last_error().ranks == error.ranks and len(error.ranks) == 1, error
                made = dist.shrink_group(list(error.ranks))
                assert made is dist.group.WORLD
                del members[error.ranks[0]]
                check(members)
                pair = dist.new_group([0, 1])  # of the new numbers
                if dist.get_rank() < 2:
                    check(members[:2], pair)
            say("done")
            dist.destroy_process_group()
        """.replace("LEFT", str(4 - len(victims)))
        processes = [self.start(body, number, 4) for number in range(4)]
        for victim in victims:
            for process in processes:
                if process.poll() is None:
                    self.expect_line(process, "works")
            processes[victim].kill()
            processes[victim].wait()
        for number, process in enumerate(processes):
            if number not in victims:
                self.expect_line(process, "done")
                self.expect_success(process)

    def test_the_others_go_on_after_a_death_and_after_a_second_one(self):
        self.expect_others([1, 3])

    def test_the_others_go_on_without_the_process_that_led(self):
        self.expect_others([0])

    def test_a_subgroup_shrinks_and_the_default_group_stays(self):
        self.run_all("""
            group = dist.new_group([0, 2, 3])
            if me in (2, 3):
                made = dist.shrink_group([0], group)
                assert dist.get_process_group_ranks(made) == [2, 3]
                check([2, 3], made)
            check([0, 1, 2, 3])
            dist.destroy_process_group()
        """, 4)

    def test_the_flag_abort_ends_the_operations_of_all_and_leaves_a_live_rank_behind(self):
        self.run_all("""
            abort = dist.distributed_c10d.SHRINK_ABORT
            check([0, 1, 2, 3])
            if me == 3:
                error = error_of(lambda: dist.all_reduce(torch.ones(1000)))
                assert isinstance(error, r2ccl.R2cclError), repr(error)
                store.get("made")
                sys.exit(0)
            work = dist.irecv(torch.zeros(1), 3)
            store.set(f"started/{me}", "yes")
            store.wait([f"started/{number}" for number in range(3)])
            dist.shrink_group([3], shrink_flags=abort)
            assert isinstance(error_of(work.wait), r2ccl.R2cclError)
            check([0, 1, 2])
            store.set("made", "yes")
            dist.shrink_group([0], shrink_flags=abort) if me else store.get("again")
            if me:
                check([1, 2])
                store.set("again", "yes")
        """, 4)

    def test_calls_of_torchs_and_of_r2ccl_follow_each_other(self):
        self.run_all("""
            members = [0, 1, 2, 3]
            for call in (dist.shrink_group, r2ccl.shrink_group, dist.shrink_group):
                if me == members.pop(0):
                    store.get("end")
                    sys.exit(0)
                call([0], pg_options=r2ccl.Config(name=f"of {members}"))
                if len(members) > 1:
                    check(members)
            given = values(me, 0)
            dist.all_reduce(given)
            same(given, values(me, 0))
            store.set("end", "yes")
        """, 4)

    def test_the_new_group_takes_the_settings_of_torchs_class(self):
        self.run_all("""
            if me == 0:
                store.get("end")
                sys.exit(0)
            made = dist.shrink_group([0])
            kinds = torch._C._distributed_c10d.ErrorType
            backend = made._get_backend(torch.device("cpu"))
            assert {device.type for device in made._device_types} == {"cpu", "cuda"}
            assert made.name() == "custom" and backend.get_error() == kinds.SUCCESS
            made.set_timeout(datetime.timedelta(seconds=0.05))
            if dist.get_rank() == 0:
                error = error_of(lambda: dist.recv(torch.zeros(1), 1))
                assert isinstance(error, r2ccl.WaitTimeoutError), repr(error)
                assert backend.get_error() == kinds.TIMEOUT
                assert isinstance(error_of(lambda: dist.recv(torch.zeros(1))),
                                  NotImplementedError)
            made.set_timeout(datetime.timedelta(seconds=60))
            dist.barrier()
            words = str(error_of(lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND)))
            assert "float" in words, words
            part = made.split_group([0, 1])
            given = torch.tensor([me + 1.0])
            part.allreduce([given]).wait()
            same(given, torch.tensor([2.0 + 3.0]))
            made.abort()
            error = error_of(lambda: dist.all_reduce(given))
            assert isinstance(error, r2ccl.R2cclError), repr(error)
            store.set("end", "yes")
        """, 3)

    def test_torch_refuses_wrong_lists(self):
        self.run_all("""
            for ranks, kind in (([], ValueError), ([2], ValueError), ([0, 1], ValueError),
                                ([me], RuntimeError), ((0,), TypeError)):
                error = error_of(lambda: dist.shrink_group(ranks))
                assert isinstance(error, kind), repr(error)
            error = error_of(lambda: dist.shrink_group([1 - me], pg_options=object()))
            assert isinstance(error, TypeError) and "r2ccl.Config" in str(error), repr(error)
            check([0, 1])
        """, 2)


@unittest.skipIf(IS_USABLE, "torch's shrink_group works")
class OlderTorchTest(Shrinks):
    def test_torchs_call_is_refused_and_the_group_stays(self):
        self.run_all("""
            if hasattr(dist, "shrink_group"):
                error = error_of(lambda: dist.shrink_group([1 - me]))
                assert isinstance(error, TypeError), repr(error)
                assert "does not support shrinking" in str(error), error
            check([0, 1])
            dist.destroy_process_group()
        """, 2)

    def test_the_groups_own_call_returns_a_group(self):
        self.run_all("""
            if me == 1:
                store.get("end")
                sys.exit(0)
            made = dist.group.WORLD.shrink([1])
            assert isinstance(made, r2ccl.ProcessGroupR2ccl)
            assert (made.rank(), made.size()) == (me // 2, 2)
            given = values(me, 0)
            made.allreduce([given]).wait()
            same(given, values(0, 0) + values(2, 0))
            store.set("end", "yes")
        """, 3)
