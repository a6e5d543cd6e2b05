#!/usr/bin/env python3
"""`r2ccl plan`: the steps, totals and proof of a collective, and plans that come from a file.

usage: plan_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import program

TIME_S = 60
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

TABLE = """\
broadcast of 3 elements int8, sum, 3 ranks on 2 hosts, root 1, algorithm halving_doubling (asked: automatic)

algorithm         predicted us
halving_doubling  80.0          used
ring              80.0

rank 0: 1 step
step  kind     peer  source  target        reduction  after
0     receive  1             output[0, 3)

rank 1: 3 steps
step  kind  peer  source       target        reduction  after
0     send  2     input[0, 3)
1     send  0     input[0, 3)
2     copy        input[0, 3)  output[0, 3)

rank 2: 1 step
step  kind     peer  source  target        reduction  after
0     receive  1             output[0, 3)

transfers on an ideal fabric, 70.0 us:
from  to  source       target          start us  end us
1     2   input[0, 3)  output[0, 3)    0.0       70.0
1     0   input[0, 3)  output[0, 3)    0.0       24.0

rank  messages sent  bytes sent
0     0              0
1     2              6
2     0              0

2 messages, 1 hop in the longest chain
proved
"""

TEXT = """\
r2ccl-plan 1 collective all_reduce algorithm ring type float32 op sum ranks 2 root 0 count 5
rank 0 steps 4 scratch 0 in_place
0 send peer 1 source input:0+3
1 receive_reduce peer 1 source input:3+2 target output:3+2 operands own_first last_reduction
2 send peer 1 source output:3+2 after 1
3 receive peer 1 target output:0+3 after 0
rank 1 steps 4 scratch 0 in_place
0 send peer 0 source input:3+2
1 receive_reduce peer 0 source input:0+3 target output:0+3 operands own_first last_reduction
2 send peer 0 source output:0+3 after 1
3 receive peer 0 target output:3+2 after 0
"""

COLLECTIVES = ("all_reduce", "broadcast", "barrier", "reduce", "all_gather", "reduce_scatter",
               "gather", "scatter", "all_to_all")
ALGORITHMS = ("automatic", "ring", "halving_doubling", "recursive_doubling", "hierarchical",
              "direct")


def show(*words):
    return program.run("plan", "show", *words, timeout=TIME_S)


class ShowTest(unittest.TestCase):
    def test_prints_steps_totals_and_proof(self):
        done = show("broadcast", "-p", 3, "-c", 3, "-t", "int8", "--root", 1, "--hosts", "2,1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, TABLE)

    def test_prints_the_text_form(self):
        done = show("all_reduce", "-p", 2, "-c", 5, "--algorithm", "ring", "--in-place", "--text")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, TEXT)

    def test_shows_one_rank_alone(self):
        done = show("all_gather", "-p", 4, "-c", 7, "--rank", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line for line in done.stdout.split("\n") if line.startswith("rank ")],
                         ["rank 2: 7 steps", "rank  messages sent  bytes sent"])

    def test_counts_the_hops_of_the_longest_chain(self):
        for words, hops in ((["all_reduce", "--algorithm", "ring"], 14),
                            (["all_reduce", "--algorithm", "recursive_doubling"], 3),
                            (["all_reduce", "--algorithm", "halving_doubling"], 6),
                            (["broadcast", "--algorithm", "ring"], 7),
                            (["broadcast", "--algorithm", "halving_doubling"], 3),
                            (["all_gather", "--algorithm", "ring"], 7),
                            (["all_gather", "--algorithm", "direct"], 1),
                            (["barrier"], 3)):
            with self.subTest(words=words):
                done = show(*words, "-p", 8, "-c", 8, "--json")
                self.assertEqual(json.loads(done.stdout)["totals"]["hops"], hops)

    def test_json_has_the_facts_of_the_steps(self):
        words = ["reduce_scatter", "-p", 3, "-c", 5, "--in-place"]
        plan = json.loads(show(*words, "--json").stdout)
        self.assertTrue(plan["proved"])
        sent = [sum(step["source"]["count"] * 4 for step in part["steps"]
                    if step["kind"] == "send") for part in plan["parts"]]
        self.assertEqual([rank["bytes_sent"] for rank in plan["totals"]["ranks"]], sent)

    def test_chooses_by_the_costs(self):
        words = ["all_gather", "-p", 8, "-c", 1, "--hosts", "4,4", "--json"]
        cheap, dear = "1000,1000,1000,1000,1000,1000,1000", "1000,1000,1000,1000,999999,999999,1"
        for memory, used in ((cheap, "hierarchical"), (dear, "direct")):
            plan = json.loads(show(*words, "--memory-costs", memory, "--network-costs",
                                   "20000,9000,100,100,20000,1000,100").stdout)
            times = plan["predicted_ns"]
            self.assertEqual(plan["algorithm_used"], used)
            self.assertEqual(min(times, key=times.get), used)
            self.assertEqual(set(times), {"hierarchical", "recursive_doubling", "direct", "ring"})

    def test_takes_the_names_that_the_configuration_has(self):
        for short, name in (("auto", "automatic"), ("hd", "halving_doubling"),
                            ("rd", "recursive_doubling"), ("hier", "hierarchical")):
            words = ["all_reduce", "-p", 4, "-c", 9, "--hosts", "2,2", "--algorithm"]
            self.assertEqual(show(*words, short).stdout, show(*words, name).stdout)
            self.assertNotEqual(show(*words, short).stdout, "")

    def test_a_slow_host_slows_its_transfers(self):
        words = ["broadcast", "-p", 2, "-c", 1000000, "--json"]
        whole = json.loads(show(*words).stdout)
        for option, factor in ((["--loss", 50], 2), (["--view", "1000:1/250:1000"], 1),
                               (["--view", "2x1000/2x1000:125"], 8)):
            with self.subTest(option=option):
                plan = json.loads(show(*words, *option).stdout)
                self.assertAlmostEqual(plan["end_ns"] / whole["end_ns"], factor, delta=0.02 * factor)
                self.assertEqual(len(plan["view"]), 2)
                self.assertEqual(len(plan["transfers"]), plan["totals"]["messages"])

    def test_draws_the_transfers(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "plan.svg"
            done = show("all_reduce", "-p", 4, "-c", 100, "--loss", 25, "--svg", picture)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            root = xml.etree.ElementTree.parse(picture).getroot()
            text = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("rank 3", text)
            self.assertIn("view 750/3*1000", text[0])
            done = show("all_reduce", "-p", 4, "--svg", picture.parent)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("--svg", done.stderr)

    def test_refuses_nonsense(self):
        for words, said in (
                (["all_reduce", "-p", 2, "--memory-costs", "1,2,3"],
                 "--memory-costs: '1,2,3' is not seven numbers of ns, as 60000,20000,"),
                (["all_reduce", "-p", 2, "--network-costs", "1,2,3,4,5,6,7,"],
                 "--network-costs: '1,2,3,4,5,6,7,' is not seven"),
                (["all_reduce", "-p", 2, "-c", "-1"], "--count: '-1' is less than 0"),
                (["all_reduces", "-p", 2], "no collective 'all_reduces'; there are all_reduce, "),
                (["all_reduce"], "--ranks is required"),
                (["all_reduce", "-p", 0], "--ranks: Value 0 not in range 1 to 256"),
                (["all_reduce", "-p", 257], "--ranks: Value 257 not in range 1 to 256"),
                (["all_to_all", "-p", 2, "--in-place"], "--in-place: an AllToAll writes blocks "),
                (["all_reduce", "-p", 2, "-c", "x"], "Could not convert: --count = x"),
                (["all_reduce", "-p", 2, "-c", "99999999999999999"],
                 "--count: 99999999999999999 is more than 8589934592"),
                (["all_to_all", "-p", 256, "-c", "67108864"], "more than 1000000 steps"),
                (["all_reduce", "-p", 2, "-t", "float31"], "--type: no type 'float31'; there are int8, "),
                (["broadcast", "-p", 2, "--root", 2], "--root: 2 is none of 2 ranks"),
                (["broadcast", "-p", 2, "--rank", 2], "--rank: 2 is none of 2 ranks"),
                (["all_reduce", "-p", 2, "--algorithm", "tree"], "no algorithm 'tree'; there are"),
                (["all_reduce", "-p", 5, "--hosts", "2,2"], "the hosts have 4 of 5 ranks"),
                (["all_reduce", "-p", 3, "--hosts", "2,2"],
                 "--hosts: host 1 has 2 ranks, and 1 of 3 are left"),
                (["all_reduce", "-p", 3, "--hosts", "3,"], "--hosts: '' is no number of ranks"),
                (["all_reduce", "-p", 3, "--hosts", "0,3"], "--hosts: '0' is no number of ranks"),
                (["all_reduce", "-p", 3, "--hosts", "3x"], "--hosts: '3x' is no number of ranks"),
                (["all_reduce", "-p", 3, "--view", "1000/500"], "--view: it has 2 of 3 hosts"),
                (["all_reduce", "-p", 3, "--view", "3*0"], "--view: host 0 of the view can send"),
                (["all_reduce", "-p", 3, "--loss", "100"],
                 "--loss: '100' is no percentage from 0 to below 100"),
                (["all_reduce", "-p", 3, "--loss", "99.99"],
                 "--loss: '99.99' leaves less than 1/1000 of a NIC"),
                (["all_reduce", "-p", 2, "--loss", "1", "--view", "1/2"], "excludes"),
                (["all_reduce", "-p", 3, "--text", "--json"], "excludes")):
            with self.subTest(words=words):
                done = show(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


def explain(*words):
    done = program.run("plan", "explain", *words, timeout=TIME_S)
    return done.stdout if done.returncode == 0 else done.stderr


class ExplainTest(unittest.TestCase):
    def test_no_prediction_is_below_the_floor(self):
        calls = {"one rank a host": ["-p", 3, "--view", "500/600/700"],
                 "several": ["-p", 8, "--hosts", "4,4"],
                 "of several rates": ["-p", 8, "--hosts", "4,4", "--view", "1000/1"]}
        for name, words in calls.items():
            for collective in COLLECTIVES:
                with self.subTest(call=name, collective=collective):
                    told = json.loads(explain(collective, *words, "-c", 100_000, "--json"))
                    for each in told["algorithms"]:
                        self.assertGreaterEqual(each["predicted_us"], told["floor_us"])

    def test_a_call_of_one_algorithm_has_no_prediction_and_the_reason(self):
        self.assertEqual(explain("gather", "-p", 3, "-c", 1000), """\
algorithm  predicted us  of the floor
direct                                 chosen
floor      66.4          1.00          no plan is faster, by the bytes alone
The collective has one algorithm.
""")
        self.assertEqual(explain("all_reduce", "-p", 1, "-c", 1000), """\
algorithm  predicted us  of the floor
One rank sends no messages.
""")

    def test_a_reproducible_reduction_has_the_algorithm_that_show_has(self):
        words = ["all_reduce", "-p", 4, "-c", 1000, "--reproducible"]
        self.assertIn("algorithm direct", show(*words).stdout)
        told = explain(*words)
        self.assertRegex(told, r"direct +chosen")
        self.assertIn("Reductions in rank order have one algorithm.\n", told)
        self.assertEqual(json.loads(explain(*words, "--json"))["chosen"], "direct")
        self.assertIn("recursive_doubling", explain(*words, "-t", "int32"))

    def test_an_algorithm_that_the_caller_names_is_the_chosen_one(self):
        words = ["all_reduce", "-p", 4, "-c", 1_000_000]
        for view in ([], ["--view", "1000,0/0,1000/2*1000,1000"], ["--loss", 50]):
            for name in ("nested", "leaf", "packed", "ring"):
                with self.subTest(view=view, name=name):
                    told = explain(*words, *view, "--algorithm", name)
                    self.assertRegex(told.split("\n")[1], rf"^{name} +[0-9.]+ +[0-9.]+ +chosen$")
                    self.assertEqual(told.count("chosen"), 1)

    def test_show_has_the_same_predictions(self):
        words = ["all_reduce", "-p", 8, "-c", 16_000]
        told = json.loads(explain(*words, "--json"))
        shown = json.loads(show(*words, "--json").stdout)
        self.assertEqual(list(shown["predicted_ns"]),
                         [each["algorithm"] for each in told["algorithms"]])
        self.assertEqual(shown["algorithm_used"], told["chosen"])

    def test_hosts_that_share_no_rail_leave_the_ring(self):
        told = explain("all_gather", "-p", 3, "-c", 9, "--view", "1000,0/0,1000/1000,1000")
        self.assertRegex(told, r"ring +[0-9.]+ +[0-9.]+ +chosen")
        self.assertIn("All other algorithms have messages between hosts that share no rail.", told)


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "plan"

    def check(self, text):
        self.file.write_text(text, encoding="utf-8")
        return program.run("plan", "check", self.file, timeout=TIME_S)

    def test_proves_what_show_prints(self):
        for collective in COLLECTIVES:
            for algorithm in ALGORITHMS:
                with self.subTest(collective=collective, algorithm=algorithm):
                    for form in ("--text", "--json"):
                        text = show(collective, "-p", 5, "-c", 7, "--algorithm", algorithm,
                                    "--hosts", "2,3", "--root", 3, form).stdout
                        done = self.check(text)
                        self.assertEqual((done.returncode, done.stdout, done.stderr),
                                         (0, "proved\n", ""))

    def test_the_view_and_the_costs_come_back(self):
        words = ["all_reduce", "-p", 4, "-c", 8, "--hosts", "2,2", "--view", "1000:250,0/2x1000",
                 "--memory-costs", "64,0,0,0,0,0,1.5"]
        text = show(*words, "--text").stdout
        self.assertTrue(text.split("\n", 1)[0].endswith(
            " hosts 0,0,1,1 view 1000:250,0/2x1000 memory_costs 64,0,0,0,0,0,1.536 "
            "network_costs 57344,20480,16777.216,20971.52,57344,10240,8388.608"), text[:200])
        for form in (text, show(*words, "--json").stdout):
            self.assertEqual(self.check(form).stdout, "proved\n")

    def test_reads_what_an_editor_on_windows_stores(self):
        for form in ("--text", "--json"):
            text = show("all_reduce", "-p", 2, "-c", 5, form).stdout
            self.file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
            done = program.run("plan", "check", self.file, timeout=TIME_S)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "proved\n", ""))

    def test_names_the_step_of_a_plan_that_is_wrong(self):
        done = self.check(TEXT.replace(" after 1", "", 1))
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertEqual(done.stdout, "not proved: rank 0 step 2 (send to rank 1, elements [3, 5)) "
                                      "reads what this step writes: 1\n")

    def test_refuses_a_file_that_is_no_plan_with_line_and_cause(self):
        for text, said in (("", "line 1: the line ends where 'r2ccl-plan' must stand"),
                           (TEXT.replace("after 1", "after 2", 1),
                            "line 5: after: 2 is no step before step 2"),
                           (TEXT[:TEXT.index("rank 1")], "line 7: the text ends before rank 1")):
            with self.subTest(said=said):
                done = self.check(text)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(done.stderr, f"r2ccl plan check: {self.file}: {said}\n")

    def test_refuses_json_that_is_no_plan(self):
        plan = json.loads(show("all_reduce", "-p", 2, "-c", 4, "--json").stdout)
        for damage, said in (({"parts": 3}, '"parts": 3 stands where a list must'),
                             ({"root": "0"},
                              '"root": a value of type string stands where a number must'),
                             ({"type": "float 32"}, '"type": a value of type string stands where'),
                             ({"hosts": [[0], [0]]}, '"hosts" must have each rank once'),
                             ({"parts": []}, "in the text form: line 2: the text ends before rank 0")):
            with self.subTest(said=said):
                done = self.check(json.dumps(plan | damage))
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(f"{self.file}: {said}", done.stderr)
        self.assertIn("parse error", self.check("{").stderr)

    def test_names_a_file_that_cannot_be_read(self):
        for path, said in ((self.file, "No such file or directory"),
                           (self.file.parent, "Is a directory")):
            done = program.run("plan", "check", path, timeout=TIME_S)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"r2ccl plan check: {path}: {said}\n")


class MscclTest(unittest.TestCase):
    """Plans that scripts/msccl_plan.py makes of algorithms in the XML of MSCCL."""

    def check(self, name, *words, options=(), old="", new=""):
        """Checks the plan of an example, with `old` replaced by `new`."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            xml = (ROOT / "examples" / "msccl" / f"{name}.xml").read_text(encoding="utf-8")
            self.assertIn(old, xml)
            (folder / "xml").write_text(xml.replace(old, new, 1), encoding="utf-8")
            made = subprocess.run([sys.executable, ROOT / "scripts" / "msccl_plan.py",
                                   folder / "xml", *map(str, options)], text=True,
                                  capture_output=True, timeout=TIME_S, check=True)
            (folder / "plan").write_text(made.stdout, encoding="utf-8")
            done = program.run("plan", "check", folder / "plan", *words, timeout=TIME_S)
            self.assertEqual(done.stderr, "")
            return done

    def test_the_examples_are_proved(self):
        for name, ranks, chunks, hops in (("ring", 4, 4, 6), ("allpairs", 3, 6, 2),
                                          ("two_hosts", 4, 2, 3)):
            with self.subTest(name=name):
                done = self.check(name, "--show", "--json")
                plan = json.loads(done.stdout)
                self.assertTrue(plan["proved"])
                self.assertEqual((plan["ranks"], plan["count"], plan["totals"]["hops"]),
                                 (ranks, chunks, hops))

    def test_hosts_and_a_view_are_those_of_the_plan(self):
        done = self.check("two_hosts", options=["-c", 1000, "--hosts", "0,0,1,1",
                                                "--view", "1000/500"])
        self.assertEqual((done.returncode, done.stdout), (0, "proved\n"))

    def test_a_plan_from_a_file_is_shown_and_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "ring.svg"
            done = self.check("ring", "--show", "--svg", picture, options=["-c", 400])
            self.assertRegex(done.stdout, "^all_reduce of 400 elements float32, sum, 4 ranks, root 0, "
                                          "algorithm of the file '.*'\n")
            self.assertIn(">24 transfers<", picture.read_text(encoding="utf-8"))

    def test_an_algorithm_that_is_wrong_is_not_proved(self):
        done = self.check("ring", old='type="rrs" srcbuf="i" srcoff="3"',
                          new='type="rrs" srcbuf="i" srcoff="2"')
        self.assertEqual(done.returncode, 1)
        self.assertIn("not proved: rank ", done.stdout)


if __name__ == "__main__":
    program.main(__doc__)
