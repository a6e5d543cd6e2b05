"""Groups whose members change. Each test starts processes of its own; their store is in the test, so
that it outlives each of them. With torch 2.14 they use torch's own calls, before that r2ccl's."""

import signal
import tempfile
import time

from processes import Processes

HEAD = """
import contextlib, datetime, os, signal, sys, time
import torch, torch.distributed as dist, r2ccl
torch.set_num_threads(1)
me, size, port = map(int, sys.argv[1:])
store = dist.TCPStore("127.0.0.1", port, is_master=False)
own_call = hasattr(dist, "_reconfigure")

def seconds(bound):
    return datetime.timedelta(seconds=bound)

def init():
    options = {"enable_reconfigure": True} if own_call else {
        "pg_options": r2ccl.Config(reconfigurable=True)}
    dist.init_process_group("r2ccl", store=store, rank=me, world_size=size,
                            timeout=seconds(60), **options)
    store.set(f"handle/{me}", handle())

def handle():
    return dist._get_reconfigure_handle() if own_call else r2ccl.get_reconfigure_handle()

def handles(*numbers):
    return [store.get(f"handle/{number}").decode() for number in numbers]

def of_nobody():
    "Returns the handle of a process that there is not."
    own = handle()
    return own[:-1] + ("1" if own[-1] == "0" else "0")

def change(uuid, members, bound=60):
    if own_call:
        dist._reconfigure(uuid, members, timeout=seconds(bound)).wait()
    else:
        r2ccl.reconfigure(uuid, members, timeout=seconds(bound))

def expect(*numbers):
    "These processes are the ranks now, in this order, and their sums are right."
    assert dist.get_world_size() == len(numbers), dist.get_world_size()
    assert dist.get_rank() == numbers.index(me), dist.get_rank()
    for place in range(3):
        given = torch.tensor([1.0 + 10 * me + place, 2.0 * me])
        dist.all_reduce(given)
        wanted = [sum(1.0 + 10 * n + place for n in numbers), sum(2.0 * n for n in numbers)]
        assert given.tolist() == wanted, (given, wanted)

def settle(name, *numbers):
    "These processes have no operation under way, which the end of their group would fail."
    store.set(f"{name}/{me}", "")
    store.wait([f"{name}/{number}" for number in numbers])

@contextlib.contextmanager
def refused(words):
    try:
        yield
    except RuntimeError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no error with {words!r}")

def say(word):
    print(word, flush=True)

def hear():
    return sys.stdin.readline().strip()

init()
"""


class ReconfigureTest(Processes):
    head = HEAD

    def test_collectives_and_messages_work_after_the_first_call_and_not_before(self):
        self.run_all("""
            group = dist.group.WORLD
            assert group.supports_reconfigure
            assert (group.rank(), group.size()) == (me, size)
            with refused("reconfigure"):
                dist.all_reduce(torch.ones(1))
            change(1, handles(2, 0, 1))
            expect(2, 0, 1)
            got = torch.zeros(2)
            if dist.get_rank() == 0:
                dist.send(torch.tensor([7.0, 8.0]), 2)
            if dist.get_rank() == 2:
                dist.recv(got, 0)
                assert got.tolist() == [7, 8], got
            dist.barrier()
            dist.destroy_process_group()
        """, 3)

    def test_a_set_is_ordered_alike_everywhere(self):
        self.run_all("""
            change(1, set(handles(1, 0, 2)))
            mine = torch.zeros(3, dtype=torch.int64)
            mine[me] = dist.get_rank()
            dist.all_reduce(mine)
            assert sorted(mine.tolist()) == [0, 1, 2], mine
            dist.barrier()
        """, 3)

    def test_ranks_leave_and_come_back(self):
        self.run_all("""
            change(1, handles(0, 1, 2))
            expect(0, 1, 2)
            for turn in range(3):
                out = (2, 1, 0)[turn]  # the last, the middle, and the one that led
                left = [n for n in range(3) if n != out]
                settle(f"turn {turn}", 0, 1, 2)
                if me == out:
                    assert (dist.get_rank(), dist.get_world_size()) == (out, 3)
                else:
                    change(10 + turn, handles(*left))
                    expect(*left)
                change(20 + turn, handles(0, 1, 2))
                expect(0, 1, 2)
            change(30 + me, handles(me))  # each alone
            expect(me)
            change(40, handles(0, 1, 2))
            expect(0, 1, 2)
            dist.barrier()
        """, 3)

    def test_disjoint_groups_form_at_once_and_merge(self):
        self.run_all("""
            own = (0, 1) if me < 2 else (3, 2)
            change(5 + me // 2, handles(*own))
            expect(*own)
            change(7, handles(3, 1, 2, 0))
            expect(3, 1, 2, 0)
            dist.barrier()
        """, 4)

    def test_a_process_that_comes_late_joins(self):
        body = """
            if me < 2:
                change(1, handles(0, 1))
                expect(0, 1)
            change(2, handles(0, 1, 2))  # waits for the handle of 2, and then for its call
            expect(0, 1, 2)
            dist.barrier()
        """
        first = [self.start(body, number, 2) for number in range(2)]
        time.sleep(1)
        self.expect_all([*first, self.start(body, 2, 1)])

    def test_the_dead_are_replaced_also_the_one_that_led(self):
        body = """
            if size < 4:  # a replacement
                change(3, handles(size, 1, 2))
                expect(size, 1, 2)
            else:
                change(1, handles(0, 1, 2))
                expect(0, 1, 2)
                say("works")
                if me == 0:
                    hear()
                with refused("rank 0"):
                    while True:
                        dist.all_reduce(torch.ones(1000))
                change(2, handles(1, 2))
                expect(1, 2)
                say("goes on")
                change(3, handles(3, 1, 2))
                expect(3, 1, 2)
            assert dist.get_process_group_ranks(None) == [0, 1, 2]
            dist.barrier()
        """
        processes = [self.start(body, number, 4) for number in range(3)]
        for process in processes:
            self.expect_line(process, "works")
        processes[0].kill()
        for process in processes[1:]:
            self.expect_line(process, "goes on")
        processes.append(self.start(body, 3, 3))
        for process in processes[1:]:
            self.expect_success(process)

    def test_a_member_that_is_left_out_and_calls_is_told(self):
        self.run_all("""
            change(1, handles(0, 1, 2))
            expect(0, 1, 2)
            settle("all", 0, 1, 2)
            if me == 2:
                with refused("has gone on with other members (reconfigure with uuid=2)"):
                    while True:
                        dist.all_reduce(torch.ones(1000))
                assert dist.get_world_size() == 3
            else:
                change(2, handles(0, 1))
                expect(0, 1)
            change(3, handles(2, 0, 1))
            expect(2, 0, 1)
            dist.barrier()
        """, 3)

    def test_a_member_that_is_interrupted_in_the_call_leaves_no_other_one_waiting(self):
        body = """
            from r2ccl.new_members import Wish
            members = handles(0, 1)
            change(1, members)
            if me == 0:
                try:
                    change(2, members)
                except KeyboardInterrupt:
                    say("interrupted")
            else:
                name = dist.group.WORLD.group_name
                dist.group.WORLD._store.wait([Wish(2, members, 0, name).id_key(1)])
                say("it waits")
                hear()
                with refused("was interrupted in reconfigure"):
                    change(2, members)
                    while True:
                        dist.all_reduce(torch.ones(1000))
            change(3, handles(1, 0))
            expect(1, 0)
            dist.barrier()
        """
        processes = [self.start(body, number, 2) for number in range(2)]
        self.expect_line(processes[1], "it waits")
        processes[0].send_signal(signal.SIGINT)
        self.expect_line(processes[0], "interrupted")
        self.tell(processes[1])
        self.expect_all(processes)

    def test_an_abort_and_a_timeout_are_followed_by_a_new_group(self):
        self.run_all("""
            group = dist.group.WORLD
            kinds = torch._C._distributed_c10d.ErrorType
            change(1, handles(0, 1))
            expect(0, 1)
            settle("both", 0, 1)
            group.abort()
            assert group.get_error() == kinds.SUCCESS
            with refused("reconfigure"):
                dist.all_reduce(torch.ones(1))
            change(2, handles(1, 0))
            expect(1, 0)
            if me == 0:
                group.set_timeout(seconds(0.05))
                with refused("timed out"):
                    dist.recv(torch.zeros(1), 0)
                assert group.get_error() == kinds.TIMEOUT
            change(3, handles(0, 1))
            assert group.get_error() == kinds.SUCCESS
            group.set_timeout(seconds(60))
            expect(0, 1)
            dist.barrier()
        """, 2)

    def test_a_dead_process_in_the_list_ends_the_call_in_time_and_leaves_the_group_as_it_was(self):
        body = """
            if me == 2:
                say("is there")
                hear()
            store.get("dead")
            change(1, handles(0, 1))
            for uuid, members in ((2, handles(0, 2, 1)), (3, handles(2, 0, 1))):
                begin = time.monotonic()
                with refused("timed out"):
                    change(uuid, members, 3)
                assert time.monotonic() - begin < 3 + 20  # and time for a busy machine
                assert (dist.get_rank(), dist.get_world_size()) == (me, 2)
                expect(0, 1)
            change(4, handles(1, 0))
            expect(1, 0)
            dist.barrier()
        """
        processes = [self.start(body, number, 3) for number in range(3)]
        self.expect_line(processes[2], "is there")
        processes[2].kill()
        self.store.set("dead", "yes")
        for process in processes[:2]:
            self.expect_success(process)

    def test_wrong_lists_and_used_numbers_are_refused(self):
        self.run_all("""
            change(1, handles(0, 1))
            for members, words in (([], "1 to"), (["gloo:1"], "no handle"), ([b"x"], "no handle"),
                                   ([handle() + chr(0)], "no handle"),
                                   (handles(me, me), "two handles of one process"),
                                   (handles(1 - me), "is not in the list")):
                with refused(words):
                    change(2, members)
            with refused("a list or"):  # torch's own call takes nothing else
                r2ccl.reconfigure(2, None)
            with refused("already used"):
                change(1, handles(1, 0))
            with refused("uuid=-1"):
                r2ccl.reconfigure(-1, handles(0, 1))
            with refused("uuid=1.5"):
                r2ccl.reconfigure(1.5, handles(0, 1))
            expect(0, 1)
            # Two lists with one number: the first to come has it, or both time out.
            with refused("uuid=3"):
                change(3, handles(0, 1) if me == 0 else handles(1, 0), 3)
            expect(0, 1)
            other = dist.new_group([0, 1])
            with refused("without enable_reconfigure"):
                r2ccl.reconfigure(9, handles(0, 1), other)
            dist.barrier(other)
            with refused("default group"):
                dist.new_group([0, 1], pg_options=r2ccl.Config(reconfigurable=True))
            dist.barrier()
            group = dist.group.WORLD
            dist.destroy_process_group()
            with refused("was destroyed"):
                r2ccl.reconfigure(11, [r2ccl.get_reconfigure_handle(group)], group)
        """, 2)

    def test_other_stores_serve_too(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_all(f"""
                path = "{folder}/store"
                """ """
                dist.destroy_process_group()
                for number, own in enumerate((dist.FileStore(path, 2), dist.HashStore())):
                    options = {"enable_reconfigure": True} if own_call else {
                        "pg_options": r2ccl.Config(reconfigurable=True)}
                    dist.init_process_group("r2ccl", store=own, rank=me, world_size=2, **options)
                    members = (1, 0) if number == 0 else (me,)
                    change(1, handles(*members))
                    expect(*members)
                    with refused("timed out"):
                        change(2, [of_nobody(), handle()], 1)
                    with refused("already used"):
                        change(2, handles(me))
                    expect(*members)
                    dist.barrier()
                    dist.destroy_process_group()
            """, 2)

    def test_who_writes_the_store_and_has_no_key_leads_no_process_anywhere(self):
        body = """
            from r2ccl.new_members import Wish
            if me == 0:
                wish = Wish(1, handles(0, 1), time.monotonic() + 60, dist.group.WORLD.group_name)
                dist.group.WORLD._store.set(wish.id_key(1), bytes(200))
                say("forged")
                hear()
            else:
                with refused("has not sealed this id"):
                    change(1, handles(0, 1))
                say("refused")
            change(2, handles(0, 1))
            expect(0, 1)
            dist.barrier()
        """
        stranger, victim = (self.start(body, number, 2) for number in range(2))
        self.expect_line(stranger, "forged")
        self.expect_line(victim, "refused")
        self.tell(stranger)
        self.expect_success(victim)
        self.expect_success(stranger)

    def test_an_id_for_another_meeting_leads_no_process_there(self):
        self.run_all("""
            from r2ccl.new_members import Wish
            change(1, handles(0, 1))
            inner, name = dist.group.WORLD._store, dist.group.WORLD.group_name
            key = [Wish(uuid, handles(0, 1), 0, name).id_key(1) for uuid in (2, 3)]
            if me == 0:
                with refused("timed out"):
                    change(2, handles(0, 1), 3)  # its sealed id stays in the store
                inner.set(key[1], bytes(inner.get(key[0])))
                store.set("copied", "yes")
                with refused("timed out"):
                    change(4, [of_nobody(), handle()], 1)
            else:
                store.get("copied")
                with refused("has not sealed this id for this process and this meeting"):
                    change(3, handles(0, 1))
            change(5, handles(0, 1))
            expect(0, 1)
            dist.barrier()
        """, 2)

    def test_a_newcomer_makes_groups_with_the_others(self):
        body = """
            if me < 2:
                change(1, handles(0, 1))
                dist.new_group([0, 1])
            change(2, handles(0, 1, 2))
            group = dist.new_group([0, 2])
            if me != 1:
                given = torch.tensor([float(me)])
                dist.all_reduce(given, group=group)
                assert given.item() == 2, given
            dist.barrier()
        """
        self.run_all(body, 3)

    def test_the_average_of_ddp_follows_the_number_of_members(self):
        self.run_all("""
            change(1, handles(0, 1, 2))
            torch.manual_seed(0)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
            def gradient(members):
                model.zero_grad()
                model(torch.full((1, 2), 1.0 + me)).sum().backward()
                wanted = sum(1.0 + n for n in members) / len(members)
                given = model.module.weight.grad
                assert torch.allclose(given, torch.full((1, 2), wanted)), (given, wanted)
            gradient((0, 1, 2))
            settle("all", 0, 1, 2)
            if me == 1:
                sys.exit(0)
            change(2, handles(0, 2))
            gradient((0, 2))
            dist.barrier()
        """, 3)
