#!/usr/bin/env python3
"""scripts/msccl_plan.py: plans of algorithms in the XML of MSCCL, and the errors of others.
That the plans are proved, tests/process/plan_test.py shows."""

import argparse
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import msccl_plan  # noqa: E402


def step_xml(number, words):
    """Returns a step such as "rrc i 0 o 1 2": a type, source, target and count. " <0.1" is a wait
    for step 1 of thread block 0."""
    kind, source, first, target, second, count, *wait = words.split()
    block, step = wait[0].strip("<").split(".") if wait else (-1, -1)
    return (f'<step s="{number}" type="{kind}" srcbuf="{source}" srcoff="{first}" '
            f'dstbuf="{target}" dstoff="{second}" cnt="{count}" depid="{block}" deps="{step}" '
            'hasdep="1"/>\n')


def algorithm(collective, chunks, gpus, in_place=False):
    """Each GPU is a list of thread blocks (send, receive, channel, steps)."""
    lines = [f'<algo name="test" coll="{collective}" nchunksperloop="{chunks}" '
             f'ngpus="{len(gpus)}" inplace="{int(in_place)}">\n']
    for gpu, blocks in enumerate(gpus):
        lines.append(f'<gpu id="{gpu}" s_chunks="8">')
        for name, (send, receive, channel, steps) in enumerate(blocks):
            lines.append(f'<tb id="{name}" send="{send}" recv="{receive}" chan="{channel}">\n')
            lines += [step_xml(number, words) for number, words in enumerate(steps)]
            lines.append("</tb>")
        lines.append("</gpu>\n")
    return "".join(lines) + "</algo>"


def plan_of(xml, count=None):
    options = argparse.Namespace(count=count, type="float32", op="sum", root=0, hosts="", view="")
    return msccl_plan.plan_of(msccl_plan.Algorithm(xml), options)


def two_gpus():
    """AllReduce of two GPUs: each adds one half of the vector and returns it."""
    return [[[1, 1, 0, ["s i 1 o 1 1", "rrc i 0 o 0 1", "s o 0 o 0 1", "r o 1 o 1 1"]]],
            [[0, 0, 0, ["s i 0 o 0 1", "rrc i 1 o 1 1", "s o 1 o 1 1", "r o 0 o 0 1"]]]]


# A broadcast of two GPUs, from 0 to 1: line 4 is the step of GPU 0.
BROADCAST = """\
<algo name="small" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="broadcast" inplace="1">
<gpu id="0" i_chunks="2" o_chunks="2" s_chunks="3">
<tb id="7" send="1" recv="-1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="0" cnt="1" depid="8" deps="0" hasdep="0"/>
</tb>
<tb id="8" send="-1" recv="-1" chan="0">
<step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="2" cnt="1" depid="-1" deps="-1" hasdep="1"/>
</tb>
</gpu>
<gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">
<tb id="0" send="-1" recv="0" chan="0">
<step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb>
</gpu>
</algo>
"""


class Plans(unittest.TestCase):
    def test_a_step_comes_after_those_that_use_its_chunks(self):
        self.assertEqual(plan_of(algorithm("allreduce", 2, two_gpus()), 10), """\
r2ccl-plan 1 collective all_reduce algorithm automatic type float32 op sum ranks 2 root 0 count 10
rank 0 steps 4 scratch 40
0 send peer 1 source input:5+5
1 receive_reduce peer 1 source input:0+5 target output:0+5 operands own_first last_reduction
2 send peer 1 source output:0+5 after 1
3 receive peer 1 target output:5+5
rank 1 steps 4 scratch 40
0 send peer 0 source input:0+5
1 receive_reduce peer 0 source input:5+5 target output:5+5 operands received_first last_reduction
2 send peer 0 source output:5+5 after 1
3 receive peer 0 target output:0+5
""")

    def test_in_place_the_input_is_the_output(self):
        plan = plan_of(algorithm("allreduce", 2, two_gpus(), in_place=True))
        self.assertIn("rank 0 steps 4 scratch 8 in_place\n0 send peer 1 source output:1+1\n", plan)
        scatter = [[[1, 1, 0, ["s i 1 s 0 1", "rrc i 0 o 0 1"]]],
                   [[0, 0, 0, ["s i 0 s 0 1", "rrc i 1 o 0 1"]]]]
        for name in ("reducescatter", "reduce_scatter"):
            plan = plan_of(algorithm(name, 2, scatter, in_place=True))
            self.assertIn("1 receive_reduce peer 0 source output:0+1 target output:0+1 ", plan)

    def test_an_addition_joins_the_receive_of_its_chunk(self):
        gpus = [[[1 - gpu, 1 - gpu, 0, ["s i 0 s 0 2", "r i 0 s 0 2", "re s 1 i 1 1",
                                        "re s 0 i 0 1"]]] for gpu in range(2)]
        plan = plan_of(algorithm("allreduce", 2, gpus, in_place=True))
        self.assertEqual(plan.count(" last_reduction"), 4, "the message is cut, also at its sender")
        self.assertEqual(plan.count(" send "), 4)
        for gpu in gpus:
            gpu[0][3] = ["s i 0 s 0 2", "r i 0 o 0 2", "re i 0 o 0 2"]
        plan = plan_of(algorithm("allreduce", 2, gpus))
        self.assertEqual((plan.count(" send "), plan.count(" last_reduction")), (2, 2))

    def test_a_chain_sums_in_scratch_and_a_copy_in_place_is_nothing(self):
        gpus = [[[-1, 1, 0, ["rrc i 0 o 0 1"]]], [[0, 2, 0, ["rrs i 0 o 0 1"]]],
                [[1, -1, 0, ["cpy i 0 i 0 1", "s i 0 o 0 1"]]]]
        self.assertIn("rank 1 steps 2 scratch 9\n0 receive_reduce peer 2 source input:0+1 "
                      "target scratch:8+1 operands own_first\n1 send peer 0 source scratch:8+1 "
                      "after 0\nrank 2 steps 1 ", plan_of(algorithm("reduce", 1, gpus)))


class Refusals(unittest.TestCase):
    def assert_refused(self, xml, error, count=None):
        with self.assertRaises(msccl_plan.Wrong) as caught:
            plan_of(xml, count)
        self.assertEqual(str(caught.exception), error)

    def assert_wrong(self, gpus, error, chunks=2, in_place=False):
        self.assert_refused(algorithm("allreduce", chunks, gpus, in_place), error)

    def test_an_addition_of_other_chunks(self):
        gpus = two_gpus()
        gpus[0].append([-1, -1, 0, ["re i 0 o 0 1 <0.1"]])
        self.assert_wrong(gpus, "line 8: GPU 0, thread block 1, step 0: `re` adds a chunk that did "
                          "not come by `r`, or that has other users; plans add only what arrives: "
                          "use rrc at the receiver")
        gpus = [[[1 - gpu, 1 - gpu, 0, ["s i 0 s 0 1", "r i 0 s 0 1", "re s 0 i 0 1", last]]]
                for gpu, last in enumerate(("s s 0 i 0 1", "r s 0 s 1 1"))]
        self.assert_wrong(gpus, "line 6: GPU 0, thread block 0, step 3: it uses a chunk that line 5 "
                          "has added to another one; let `re` be the only user of a chunk that it "
                          "adds", chunks=1, in_place=True)
        copies = [-1, -1, 0, ["cpy i 0 s 1 1"] * 3 + ["re s 0 i 0 1"]]
        gpus = [[[1 - gpu, 1 - gpu, 0, ["s i 0 s 0 1", "r i 0 s 0 1"]], copies] for gpu in range(2)]
        self.assert_wrong(gpus, "line 9: GPU 0, thread block 1, step 3: it adds a chunk that line 4 "
                          "receives, and does not wait for it", chunks=1, in_place=True)

    def test_a_message_without_its_other_end(self):
        gpus = two_gpus()
        gpus[0][0][3].pop()
        self.assert_wrong(gpus, "line 10: GPU 1, thread block 0, step 2: no step receives this "
                          "message from GPU 1 to GPU 0 on channel 0")
        gpus = two_gpus()
        gpus[1][0][3][0] = "s i 0 o 0 2"
        self.assert_wrong(gpus, "line 4: GPU 0, thread block 0, step 1: cnt is 1, and it is 2 on "
                          "line 9, which sends the message")
        gpus = two_gpus()
        gpus[0].append([1, -1, 0, ["s i 0 o 0 1"]])
        self.assert_wrong(gpus, "line 8: GPU 0, thread block 1, step 0: another thread block has "
                          "messages from GPU 0 to GPU 1 on channel 0 too; give them different "
                          "channels")

    def test_steps_that_wait_in_a_circle(self):
        gpus = [[[1 - gpu, 1 - gpu, 0, ["r i 0 o 0 1", "s i 0 o 0 1"]]] for gpu in range(2)]
        self.assert_wrong(gpus, "line 3: GPU 0, thread block 0, step 0: it never starts, because "
                          "steps wait for each other in a circle")

    def test_chunks_and_counts_that_do_not_fit(self):
        gpus = two_gpus()
        gpus[0][0][3][0] = "s s 8 o 1 1"
        self.assert_wrong(gpus, "line 3: GPU 0, thread block 0, step 0: it uses chunk 8 of the "
                          "scratch memory, which has 8 chunks")
        self.assert_refused(algorithm("allreduce", 2, two_gpus()), "the algorithm cuts 7 elements "
                            "into equal chunks; take a multiple of 2", count=7)

    def test_xml_that_is_no_algorithm(self):
        self.assert_refused("", "line 1: the XML is broken: no element found")
        for old, new, error in (
                ("<algo", "<!DOCTYPE algo>\n<algo",
                 "line 1: a document type is not allowed; remove <!DOCTYPE ...>"),
                ("</tb>", "", "line 6: the element 'tb' stands where <step> must"),
                ("<gpu", "<cpu", "line 2: the element 'cpu' stands where <gpu> must"),
                ('hasdep="0"/>', 'hasdep="0"><step/></step>',
                 "line 4: <step> has no elements, and one stands in it"),
                ("</algo>", "", "line 16: the XML is broken: no element found"),
                ("</gpu>", "</tb>", "line 9: the XML is broken: mismatched tag"),
                ('name="small"', "", "line 1: <algo>: the attribute name is missing"),
                ('"broadcast"', '"custom"', "line 1: <algo>: coll='custom' is none of allreduce, "
                 "allgather, reducescatter, reduce_scatter, alltoall, broadcast, reduce, gather, "
                 "scatter"),
                ('ngpus="2"', 'ngpus="1025"',
                 "line 1: <algo>: ngpus='1025' is no number from 1 to 1024"),
                ('ngpus="2"', 'ngpus="3"',
                 "line 16: there are 3 GPUs (attribute ngpus), and no <gpu> with id 2"),
                ('nchunksperloop="2" ngpus="2" coll="broadcast"',
                 'nchunksperloop="3" ngpus="2" coll="allgather"',
                 "line 1: <algo>: nchunksperloop is no multiple of ngpus, and each GPU has a block "
                 "of chunks"),
                ('gpu id="1"', 'gpu id="0"', "line 10: <gpu>: GPU 0 stands twice"),
                ('depid="8"', 'depid="9"',
                 "line 4: <step>: depid=9 is no thread block of this GPU"),
                ('deps="0"', 'deps="1"', "line 4: <step>: deps=1 is no step of thread block 8")):
            with self.subTest(error=error):
                self.assertIn(old, BROADCAST)
                self.assert_refused(BROADCAST.replace(old, new, 1), error)


if __name__ == "__main__":
    unittest.main()
