"""Send and recv: tags, order, types, batches."""

import torch
import torch.distributed as dist

import r2ccl
from group_case import DTYPES, GroupCase, ranks, values


class MessageTest(GroupCase):
    @ranks(2, 4)
    def test_a_ring_of_every_type(self):
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for dtype in (*DTYPES, torch.bool, torch.int16, torch.complex64):
            with self.subTest(dtype=dtype):
                received = torch.zeros(9).to(dtype)
                sent = dist.isend(values(self.rank, 9).to(dtype), after)
                dist.recv(received, before)
                sent.wait()
                self.assert_same(received, values(before, 9).to(dtype))

    @ranks(2, 4)
    def test_large_messages_in_both_directions(self):
        peer = self.rank ^ 1
        received = torch.zeros(500_000)
        works = [dist.irecv(received, peer), dist.isend(values(self.rank, 500_000), peer)]
        for work in works:
            work.wait()
        self.assert_same(received, values(peer, 500_000))

    @ranks(2, 4)
    def test_tags_meet_their_own(self):
        if self.rank == 0:
            for tag in (7, 5, 6):
                dist.send(values(tag, 4), 1, tag=tag)
        elif self.rank == 1:
            for tag in (5, 6, 7):
                received = torch.zeros(4)
                self.assertEqual(dist.recv(received, 0, tag=tag), 0)
                self.assert_same(received, values(tag, 4))

    @ranks(2, 4)
    def test_messages_of_one_tag_keep_their_order(self):
        if self.rank == 0:
            works = [dist.isend(values(number, 1000), 1) for number in range(20)]
            for work in works:
                work.wait()
        elif self.rank == 1:
            buffers = [torch.zeros(1000) for _ in range(20)]
            works = [dist.irecv(buffer, 0) for buffer in buffers]
            for number in reversed(range(20)):
                works[number].wait()
                self.assert_same(buffers[number], values(number, 1000))

    @ranks(2, 4)
    def test_a_recv_waits_for_no_collective(self):
        if self.rank == 0:
            received = torch.zeros(3)
            work = dist.irecv(received, 1)
            dist.barrier()
            dist.all_reduce(torch.ones(3))
            work.wait()
            self.assert_same(received, values(1, 3))
        else:
            dist.barrier()
            dist.all_reduce(torch.ones(3))
            if self.rank == 1:
                dist.send(values(1, 3), 0)

    @ranks(2, 4)
    def test_a_batch(self):
        received = [torch.zeros(5) for _ in range(self.size)]
        others = [rank for rank in range(self.size) if rank != self.rank]
        batch = [dist.P2POp(dist.isend, values(self.rank, 5, start=rank), rank) for rank in others]
        batch += [dist.P2POp(dist.irecv, received[rank], rank) for rank in others]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        for rank in others:
            self.assert_same(received[rank], values(rank, 5, start=self.rank))

    @ranks(2, 4)
    def test_a_group_of_calls(self):
        peer = self.rank ^ 1
        received = torch.zeros(100_000)
        self.group._start_coalescing(torch.device("cpu"))
        dist.isend(values(self.rank, 100_000), peer)
        dist.irecv(received, peer)
        self.group._end_coalescing(torch.device("cpu")).wait()
        self.assert_same(received, values(peer, 100_000))

    def test_to_itself(self):
        received = torch.zeros(4)
        work = self.group.send([values(self.rank, 4)], self.rank, 3)
        self.group.recv([received], self.rank, 3).wait()
        work.wait()
        self.assert_same(received, values(self.rank, 4))

    @ranks(2, 4)
    def test_objects(self):
        if self.rank == 0:
            dist.send_object_list([{"a": 1}, "text", None], dst=1)
        elif self.rank == 1:
            objects = [None, None, None]
            dist.recv_object_list(objects, src=0)
            self.assertEqual(objects, [{"a": 1}, "text", None])

    @ranks(2, 4)
    def test_empty_messages(self):
        if self.rank == 0:
            dist.send(torch.empty(0), 1)
        elif self.rank == 1:
            dist.recv(torch.empty(0, 2), 0)

    @ranks(2, 4)
    def test_a_shorter_message_is_an_error_of_the_recv_alone(self):
        if self.rank == 0:
            dist.send(values(0, 3), 1, tag=2)
        elif self.rank == 1:
            with self.assertRaisesRegex(r2ccl.R2cclError, "has 3 elements, the tensor 5"):
                dist.recv(torch.zeros(5), 0, tag=2)
        dist.barrier()

    @ranks(2, 4)
    def test_a_longer_message_ends_the_group_and_names_both_sizes(self):
        with self.fresh_group() as group:
            if self.rank < 2:
                with self.assertRaisesRegex(r2ccl.R2cclError, "20 bytes of float32.*at most 12 bytes"):
                    if self.rank == 0:
                        dist.send(values(0, 5), 1, group=group)
                        dist.recv(torch.zeros(1), 1, group=group)
                    else:
                        dist.recv(torch.zeros(3), 0, group=group)
            self.meet()
