#!/usr/bin/env python3
"""`r2ccl status --prometheus` beside jobs of forked ranks. Needs nothing but the loopback interface.

usage: metrics_test.py PATH_OF_R2CCL [unittest arguments]
"""
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import program
import prometheus_text
from status_test import StatusCase

DOCUMENT = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "metrics.md")


def of_rank(metrics, name, rank, **more):
    """Returns the values of the rank's series, with these labels."""
    wanted = {("rank", str(rank))} | set(more.items())
    return [value for labels, value in metrics[name].items() if wanted <= labels]


class ReaderTest(unittest.TestCase):
    """The reader of this test refuses what a scraper refuses."""

    def test_wrong_texts(self):
        head = "# HELP a_total b\n# TYPE a_total counter\n"
        self.assertEqual(prometheus_text.read(head + 'a_total{b="\\"\\n\\\\"} 1\n'),
                         {"a_total": {frozenset({("b", '"\n\\')}): 1}})
        for wrong in ("a_total 1", "a_total -1\n", "a_total NaN\n", "a_total{b='c'} 1\n",
                      "a_total 1\na_total 2\n", 'a_total{b="\\x"} 1\n', 'a_total{b="c",} 1\n',
                      'a_total{b="1",b="2"} 1\n', "a_total\n", "b 1\n", "\n",
                      'a_total{b="""} 1\n'):
            with self.subTest(wrong), self.assertRaises(ValueError):
                prometheus_text.read(head + wrong)
        with self.assertRaises(ValueError):
            prometheus_text.read("a 1\n")
        with self.assertRaises(ValueError):
            prometheus_text.read("# HELP a b\n# TYPE a counter\na 1\n")


class MetricsTest(StatusCase):
    def metrics(self, *words):
        done = self.status("--prometheus", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return prometheus_text.read(done.stdout)

    def output(self):
        return os.path.join(self.runtime_dir, "r2ccl.prom")

    def read_output(self):
        with open(self.output(), encoding="utf-8") as text:
            return prometheus_text.read(text.read())

    def wait_for_output(self, holds, what):
        deadline = time.monotonic() + 60
        while not (os.path.exists(self.output()) and holds(self.read_output())):
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def start_watch(self, *words, **options):
        environment = os.environ | {"XDG_RUNTIME_DIR": self.runtime_dir}
        watch = subprocess.Popen(
            [program.PATH, "status", "--prometheus", "--output", self.output(), "--watch", "0.1",
             *words], env=environment, text=True, stderr=subprocess.PIPE, **options)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        self.addCleanup(watch.stderr.close)
        return watch

    def test_each_rank_has_its_series(self):
        job = self.start_job(R2CCL_SHM="0")
        comm = self.job_of(job)["comm"]
        metrics = self.metrics("--comm", comm)
        self.assertEqual(metrics["r2ccl_ranks"], {frozenset(): 3})
        for rank in range(3):
            with self.subTest(rank=rank):
                self.assertEqual(of_rank(metrics, "r2ccl_rank_up", rank, comm=comm,
                                         uid=str(os.geteuid())), [1])
                self.assertEqual(of_rank(metrics, "r2ccl_rank_info", rank,
                                         pid=str(job[rank].pid)), [1])
                self.assertEqual(of_rank(metrics, "r2ccl_rank_failed", rank), [0])
                self.assertGreater(of_rank(metrics, "r2ccl_operations_total", rank)[0], 0)
                self.assertGreater(of_rank(metrics, "r2ccl_rank_uptime_seconds", rank)[0], 0)
                self.assertEqual(sum(of_rank(metrics, "r2ccl_path_state", rank, state="up")), 2)
                for name in ("r2ccl_path_transmit_bytes_total", "r2ccl_path_receive_bytes_total"):
                    self.assertGreater(sum(of_rank(metrics, name, rank)), 0)
        later = self.metrics("--comm", comm)
        for name, series in metrics.items():
            for labels, value in series.items():
                if name.endswith("_total"):
                    self.assertGreaterEqual(later[name][labels], value, name)
        self.assertEqual(self.metrics("--pid", 1), {"r2ccl_ranks": {frozenset(): 0}})
        self.end_job(job)

    def test_the_document_has_each_metric(self):
        """The unit test of its table has the metrics that need a fault or a NIC."""
        job = self.start_job()
        shown = set(self.metrics())
        self.end_job(job)
        with open(DOCUMENT, encoding="utf-8") as text:
            listed = set(re.findall(r"^\| `(r2ccl_\w+)`", text.read(), re.MULTILINE))
        self.assertLessEqual(shown, listed)

    def test_a_stopped_rank_is_not_up(self):
        job = self.start_job()
        job[1].kill(signal.SIGSTOP)
        metrics = self.metrics()
        self.assertEqual([of_rank(metrics, "r2ccl_rank_up", rank) for rank in range(3)],
                         [[1], [0], [1]])
        self.assertEqual(of_rank(metrics, "r2ccl_operations_total", 1), [])
        job[1].kill(signal.SIGCONT)
        self.end_job(job)

    def test_a_file_is_replaced_for_everyone_to_read(self):
        with open(self.output(), "w", encoding="utf-8") as old:
            old.write("old")
        os.chmod(self.output(), 0o600)
        done = self.status("--prometheus", "--output", self.output())
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(self.read_output(), {"r2ccl_ranks": {frozenset(): 0}})
        self.assertEqual(stat.S_IMODE(os.stat(self.output()).st_mode), 0o644)
        self.assertEqual(os.listdir(self.runtime_dir), ["r2ccl.prom"])

    def test_watching_follows_jobs_that_come_and_end(self):
        watch = self.start_watch()
        self.wait_for_output(lambda m: m["r2ccl_ranks"] == {frozenset(): 0}, "no file")
        job = self.start_job()
        self.wait_for_output(lambda m: len(m.get("r2ccl_rank_up", {})) == 3, "no ranks")
        for process in job.values():
            process.kill()
            process.wait()
        self.wait_for_output(lambda m: set(m) == {"r2ccl_ranks"},
                             "a killed job has still metrics")
        self.assertIsNone(watch.poll())

    def test_a_file_that_cannot_be_written_stays_and_is_written_later(self):
        """The bound of a file's size stands for a full disk: the write fails in its middle."""
        self.assertEqual(self.status("--prometheus", "--output", self.output()).returncode, 0)
        before = self.read_output()
        full = {"restore_signals": False,  # the kernel's signal is ignored: the write fails
                "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                         (16, resource.RLIM_INFINITY))}
        done = self.status("--prometheus", "--output", self.output(), **full)
        self.assertEqual(done.returncode, 2)
        self.assertIn("r2ccl.prom: write: File too large", done.stderr)
        watch = self.start_watch(**full)
        self.assertIn("File too large", watch.stderr.readline())
        os.unlink(self.output())
        resource.prlimit(watch.pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.assertIn("is written again", watch.stderr.readline())
        self.assertEqual(self.read_output(), before)
        watch.kill()
        watch.wait()
        self.assertLessEqual(len(os.listdir(self.runtime_dir)), 2)

    def test_wrong_words_are_refused(self):
        for words in (["--prometheus", "--json"], ["--prometheus", "--paths"],
                      ["--output", self.output()], ["--prometheus", "--output"],
                      ["--prometheus", "--output", ""], ["--prometheus", "--watch"],
                      ["--prometheus", "--output", self.output(), "--watch", "soon"],
                      ["--prometheus", "--output", self.runtime_dir],
                      ["--prometheus", "--output", "/dev/null"],
                      ["--prometheus", "--output", "/nonexistent/x.prom"]):
            with self.subTest(words=words):
                done = self.status(*words)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertTrue(done.stderr)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool")
    def test_promtool_accepts_the_text(self):
        job = self.start_job()
        text = self.status("--prometheus").stdout
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual((checked.returncode, checked.stdout), (0, ""))
        self.end_job(job)


if __name__ == "__main__":
    program.main(__doc__)
