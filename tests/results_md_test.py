#!/usr/bin/env python3
"""Tests of bench/results_md.py: pages from JSON, and the first page from the pages."""
import json
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import report_schedules  # noqa: E402  (their folder is on the path only now)
import results_md  # noqa: E402

MACHINE = {"cores": 2, "cpu": "a processor", "memory_gib": 4, "kernel": "6.1", "date": "today",
           "commit": "abcdef1", "command": "python3 bench/fan_in.py", "load_before": 0.1,
           "stolen_percent": 0}
FAN_IN = {"machine": MACHINE, "suspicions": 3, "verdicts": 0, "mirrored_bytes": 0,
          "wrong_elements": 0, "checked": {"checked_elements": 10},
          "line_percent": {"runs": 1, "median": 95, "min": 95, "max": 95}}


class Results(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.bench = pathlib.Path(self.directory.name)
        results = self.bench / "results"
        results.mkdir()
        (results / "fan_in.json").write_text(json.dumps(FAN_IN))
        (results / "soak.md").write_text("# Soak\n\n## Targets\n\n| quantity | target | measured | "
                                         "result |\n|---|---|---|---|\n| old | 0 | 1 | **not reached** |"
                                         "\n\nCommit 1234567.\n")
        results_md.write_pages(results, results)
        self.pages = {path.stem: path.read_text() for path in results.glob("*.md")}
        self.first = results_md.first_page(self.pages)

    def test_a_page_has_its_targets_commit_and_figures(self):
        rows = results_md.target_rows(self.pages["fan_in"])
        self.assertEqual([row[3] for row in rows], ["**not reached**", "reached"])
        self.assertEqual(results_md.commits(self.pages["fan_in"]), "abcdef1")
        self.assertIn("python3 bench/fan_in.py", self.pages["fan_in"])

    def test_a_page_without_new_figures_stays(self):
        self.assertIn("Commit 1234567.", self.pages["soak"])

    def test_the_first_page_lists_what_is_not_reached_and_every_commit(self):
        self.assertIn("2 of 3 targets are not reached", self.first)
        self.assertIn("| old | 0 | 1 | [Soak](results/soak.md) |", self.first)
        self.assertIn("| [Fan-in](results/fan_in.md) | abcdef1 |", self.first)
        self.assertNotIn("Wrong elements in fan-in", self.first)


class Schedules(unittest.TestCase):
    NETWORK = {"collective": "all_reduce", "kind": "one", "fabric": "rails", "latency_us": 0,
               "hosts": 4, "loss": [25], "bytes": 1}
    RING = {**NETWORK, "algorithm": "ring", "used": "ring", "overhead_pct": 33.0,
            "floor_overhead_pct": 32.5}
    NO_WAY = {**NETWORK, "algorithm": "auto", "error": "no pair of NICs"}

    def results(self, rows):
        return {target.row[0]: target.row[2:]
                for target in report_schedules.schedule_targets({"rows": rows})}

    def test_a_plan_that_cannot_end_reaches_no_target_and_is_not_the_best_one(self):
        results = self.results([self.RING, self.NO_WAY])
        self.assertEqual(
            results["One slow host, rails, 0 us: best plan above the floor"],
            ["0.50 points at most (ring, 4 hosts, loss 25 %); 1 of 1", "reached"])
        self.assertEqual(
            results["One slow host, rails, 0 us: automatic choice above the floor"],
            ["one has no way between two hosts (4 hosts, loss 25 %); 0 of 1", "**not reached**"])

    def test_the_worst_network_decides(self):
        far = {**self.RING, "loss": [50], "overhead_pct": 34.0}
        results = self.results([self.RING, far])
        self.assertEqual(
            results["One slow host, rails, 0 us: best plan above the floor"],
            ["1.50 points at most (ring, 4 hosts, loss 50 %); 1 of 2", "**not reached**"])


class CitedFigures(unittest.TestCase):
    """The documents by task cite figures of bench/results: the pages still have them."""

    LINK = re.compile(r"\(\.\./bench/results/(\w+)\.md\)")
    FIGURE = re.compile(r"(?<![\w.])\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+")

    def pages(self, text):
        """Returns the text of the pages to which a text links."""
        return " ".join((ROOT / "bench" / "results" / f"{name}.md").read_text()
                        for name in self.LINK.findall(text))

    def blocks(self, text):
        """Yields (block, the paragraph above it). A row of a table is a block, without its first
        cell."""
        above = ""
        for paragraph in text.split("\n\n"):
            if paragraph.startswith("|"):
                yield from ((row.strip("|").partition("|")[2], above)
                            for row in paragraph.split("\n")[2:])
            else:
                yield from ((item, "") for item in re.split(r"\n(?=- |\d+\. )", paragraph))
                above = paragraph

    def test_every_cited_figure_is_on_its_page(self):
        checked = 0
        for name in ("operations.md", "alternatives.md"):
            for block, above in self.blocks((ROOT / "docs" / name).read_text()):
                page = self.pages(block) or self.pages(above)
                for figure in self.FIGURE.findall(block) if page else ():
                    self.assertRegex(page, rf"(?<![\d.,]){re.escape(figure)}(?!\d)",
                                     f"{name}: {block}")
                    checked += 1
        self.assertGreater(checked, 30)


if __name__ == "__main__":
    unittest.main()
