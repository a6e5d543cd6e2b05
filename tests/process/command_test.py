#!/usr/bin/env python3
"""The command line of r2ccl: its help, its errors for wrong lines, and the output of `bench`. Needs
nothing but the loopback interface.

usage: command_test.py PATH_OF_R2CCL [unittest arguments]
"""
import json
import os
import re
import resource
import subprocess
import unittest

import program
from local_job import NICS, PATIENCE_S, free_port


class CommandTest(unittest.TestCase):
    """`r2ccl bench` forwards the library's errors."""

    def test_bench_names_the_mistake_and_ends_with_an_error(self):
        environment = dict(os.environ, R2CCL_SOCKET_IFNAME="nosuchnic")
        done = program.run("bench", "-p", 2, "-b", "1K", env=environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nosuchnic", done.stderr)

    def test_bench_refuses_nonsense_in_its_options(self):
        for words in (["-b", "banana"], ["-d", "float8"], ["-o", "mean"], ["-f", "1"], ["-f", "0"],
                      ["-i", "0"], ["--duration", "nan"], ["--json", "/nonexistent/x"],
                      ["--op-log", "/"], ["--events", "/nonexistent/%r"], ["-r", "2"],
                      ["-b", "2", "-e", "1"]):
            with self.subTest(words=words):
                done = program.run("bench", "-p", 2, *words)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words[0], done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_a_failed_bench_rank_reports_the_cause_once(self):
        # As under a launcher, only rank 0 has these files.
        environment = dict(os.environ, WORLD_SIZE="3", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(free_port()), R2CCL_SOCKET_IFNAME="lo")
        ranks = [program.start("bench", "-b", "1K", "--json", "/nonexistent/x",
                               env=environment | {"RANK": str(rank)}) for rank in range(3)]
        for rank in ranks:
            self.addCleanup(rank.kill)
        told = [rank.communicate(timeout=PATIENCE_S) for rank in ranks]
        self.assertEqual([out for out, _ in told], [""] * 3)
        self.assertIn("--json /nonexistent/x: No such file", told[0][1])
        self.assertEqual([err for _, err in told[1:]], [""] * 2)
        self.assertEqual([rank.returncode for rank in ranks], [2] * 3)

    def test_a_wrong_command_line_is_refused_with_the_reason(self):
        for words, said in (
                (["nosuch"], "r2ccl: no command 'nosuch'; there are bench, demo, "),
                (["help", "nosuch"], "r2ccl: no command 'nosuch'; there are bench, demo, "),
                (["help", "lab", "nosuch"], "r2ccl lab: no command 'nosuch'; there are up, run, "),
                (["lab"], "r2ccl lab: a command is missing; there are up, run, "),
                (["bench", "-n", "x"], "r2ccl bench: Could not convert: --iters = x"),
                (["lab", "nosuch"], "r2ccl lab: no command 'nosuch'; there are up, run, "),
                (["bench", "--nosuch"], "--nosuch"),
                (["status", "--pid", "-1"], "--pid: Value -1 not in range 1 to "),
                (["lab", "--name", "nosuch", "run", "h0", "true", "--name", "x"],
                 "there is no lab 'nosuch'"),
                (["lab", "run", "--name", "nosuch", "h0", "true", "--name", "x"],
                 "put --name before it"),
                (["lab", "all", "--port", "99999", "true"], "--port: Value 99999 not in range 1 ")):
            with self.subTest(words=words):
                done = program.run(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_output_that_meets_a_full_disk_is_an_error(self):
        for words in (["--version"], ["help"], ["plan", "--help"],
                      ["plan", "show", "all_reduce", "-p", 4, "-c", 1000],
                      ["plan", "explain", "all_reduce", "-p", 2, "-c", 10, "--json"],
                      ["sim", "plan", "all_reduce", "--hosts", 2, "--json", "-"]):
            with self.subTest(words=words), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([program.PATH, *map(str, words)], stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
                self.assertEqual(done.returncode, 2)
                # A part that met the disk earlier has left no cause.
                self.assertRegex(done.stderr, r"^r2ccl: standard output: (No space left on device"
                                              r"|a part of it could not be written)\n$")

    def test_a_lack_of_memory_is_an_error_and_no_crash(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (100 << 20, 100 << 20))
        for words in (["plan", "show", "all_reduce", "-p", 64, "-c", 10_000_000, "--loss", 50],
                      ["plan", "check", "/dev/zero"]):
            with self.subTest(words=words):
                done = program.run(*words, preexec_fn=limit)
                self.assertEqual((done.returncode, done.stderr),
                                 (2, "r2ccl: out of memory; ask for fewer ranks or bytes, or allow "
                                     "the command more memory\n"))

    def test_without_a_word_and_by_help_the_help_is_printed(self):
        for words, same in (([], ["--help"]), (["help"], ["--help"]),
                            (["help", "bench"], ["bench", "--help"]),
                            (["help", "lab", "up"], ["lab", "up", "--help"])):
            with self.subTest(words=words):
                done = program.run(*words)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout, program.run(*same).stdout)
                self.assertIn("Usage: " + " ".join(["r2ccl", *same[:-1]]), done.stdout)

    def help_of_all(self, *words):
        """Returns the words of each command and its help."""
        text = program.run("help", *words).stdout
        yield words, text
        below = text.split("Subcommands:\n")[1].split("\n\n")[0] if "Subcommands:" in text else ""
        for name in re.findall(r"^  (\S+)", below, re.M):
            yield from self.help_of_all(*words, name)

    def test_every_command_has_a_help_with_an_example_and_without_names_of_types(self):
        helps = dict(self.help_of_all())
        self.assertGreater(len(helps), 15)
        self.assertIn(("lab", "fault"), helps)
        for words, text in helps.items():
            with self.subTest(words=words):
                self.assertIn("Examples:\n  r2ccl " + " ".join(words[:1]), text)
                self.assertNotRegex(text, r"\b(INT|UINT|FLOAT|TEXT|BOOLEAN|ENUM|REQUIRED)\b")
                self.assertNotRegex(text, r" in \[")
                self.assertLessEqual(max(map(len, text.split("\n"))), 100)

    def test_bench_takes_the_letters_of_nccl_tests(self):
        done = program.run("bench", "-p", 2, "-b", 10, "-n", 3, "-w", 0, "--in-place", "--json", "-",
                           env=dict(os.environ, R2CCL_SOCKET_IFNAME=NICS))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# 10 bytes are rounded up to 12: whole elements of float\n", done.stdout)
        self.assertIn("# Out of bounds values : 0 OK\n", done.stdout)
        result = json.loads(done.stdout[done.stdout.index("\n{") + 1:])
        self.assertEqual((result["ranks"], result["operations"]), (2, 3))
        self.assertEqual((result["checked_elements"], result["wrong_elements"]), (2 * 3 * 3, 0))

    def test_bench_says_where_it_did_not_check(self):
        done = program.run("bench", "-p", 2, "-b", "1K", "-n", 3, "-c", 0, "--collective",
                           "sendrecv", "--json", "-",
                           env=dict(os.environ, R2CCL_SOCKET_IFNAME=NICS))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# Out of bounds values : not checked\n", done.stdout)
        result = json.loads(done.stdout[done.stdout.index("\n{") + 1:])
        self.assertEqual((result["checked_elements"], result["wrong_elements"]), (None, None))
        self.assertEqual((result["results"][0]["wrong"], result["results"][0]["redop"]),
                         (None, None))

    def test_bench_refuses_a_collective_that_it_has_not_in_place(self):
        done = program.run("bench", "-p", 2, "-b", "1K", "--in-place", "--collective", "scatter")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--in-place is for all_reduce and broadcast", done.stderr)

    def test_the_version_is_an_option_too(self):
        done = program.run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, program.run("version").stdout)
        self.assertRegex(done.stdout, r"^r2ccl \d+\.\d+\.\d+ ")


if __name__ == "__main__":
    program.main(__doc__)
