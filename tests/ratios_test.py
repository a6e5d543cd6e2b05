#!/usr/bin/env python3
"""Tests of the pure parts of bench/compare.py: ratios, goals, the order and the tables of cells."""

import json
import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import ratios  # noqa: E402
import ratios_svg  # noqa: E402
from ratios import OURS, Cell  # noqa: E402


def cell_of(runs, name="cell", **options):
    """Returns a cell with these figures; None is a failed run."""
    cell = Cell(name, **options)
    for program, values in runs.items():
        for value in values:
            if value is None:
                cell.fail(program, "first line\nlast line", "command")
            else:
                cell.add(program, value, "command", mean=2 * value)
    return cell


class Ratio(unittest.TestCase):
    def test_it_is_our_median_over_the_best_median_of_the_peers(self):
        cell = cell_of({OURS: [3, 9, 4], "slow": [100, 100, 100], "fast": [2, 1, 50]})
        self.assertEqual(ratios.best_peer(cell), "fast")
        self.assertEqual(ratios.ratio(cell), 2)
        self.assertEqual(ratios.ratio_spread(cell), (0.08, 9))

    def test_the_best_peer_has_the_most_where_more_is_better(self):
        cell = cell_of({OURS: [3], "low": [2], "high": [6]}, more_is_better=True)
        self.assertEqual(ratios.ratio(cell), 0.5)
        self.assertEqual(ratios.cost(cell), 2)

    def test_failed_runs_count_neither_in_the_median_nor_in_the_spread(self):
        cell = cell_of({OURS: [None, 4, 4], "peer": [1, None, 2]})
        self.assertEqual(ratios.ratio(cell), 4 / 1.5)
        self.assertEqual(ratios.ratio_spread(cell), (2, 2))

    def test_there_is_none_without_a_peer_or_without_our_figure(self):
        for runs in ({OURS: [1]}, {OURS: [None], "peer": [1]}, {OURS: [1], "peer": [None]}, {}):
            self.assertIsNone(ratios.ratio(cell_of(runs)))
            self.assertIsNone(ratios.ratio_spread(cell_of(runs)))

    def test_the_ratio_of_means_takes_the_peer_that_is_best_by_its_mean(self):
        cell = cell_of({OURS: [1]})
        cell.add("low median", 1, "command", mean=8)
        cell.add("low mean", 2, "command", mean=4)
        self.assertEqual(ratios.best_peer(cell), "low median")
        self.assertEqual(ratios.mean_ratio(cell), 0.5)


class WireShare(unittest.TestCase):
    def test_the_worst_share_comes_first_and_its_goal_bounds_it_from_below(self):
        cells = [cell_of({OURS: [20]}, "good", limit=19.5, share_goal=0.97),
                 cell_of({OURS: [20]}, "poor", limit=19, share_goal=0.97),
                 cell_of({OURS: [None]}, "failed", limit=19, share_goal=0.97),
                 cell_of({OURS: [1]}, "without a limit")]
        rows = [row.strip("|").split("|") for row in ratios.target_table(cells)[2:5]]
        self.assertEqual([row[0].split(",")[0].strip() for row in rows],
                         ["failed", "poor", "good"])
        self.assertEqual([row[3].strip() for row in rows],
                         ["**failed**", "**not reached**", "reached"])
        self.assertIn("95.0 %", rows[1][2])


class Goal(unittest.TestCase):
    def test_it_bounds_time_from_above_and_rates_from_below(self):
        for more, goal, met in ((False, 0.5, True), (False, 0.4, False), (True, 0.5, True),
                                (True, 0.6, False)):
            cell = cell_of({OURS: [1], "peer": [2]}, goal=goal, more_is_better=more)
            self.assertIs(ratios.is_met(cell), met)
            self.assertEqual(ratios.verdict(cell), "reached" if met else "**not reached**")

    def test_without_a_goal_or_a_peer_nothing_is_said(self):
        for cell in (cell_of({OURS: [1], "peer": [2]}), cell_of({OURS: [1]}, goal=1)):
            self.assertIsNone(ratios.is_met(cell))
            self.assertEqual(ratios.verdict(cell), "-")

    def test_our_failure_is_a_verdict_even_without_a_goal(self):
        self.assertEqual(ratios.verdict(cell_of({OURS: [None], "peer": [2]})), "**failed**")


def sample():
    return [cell_of({OURS: [1], "peer": [2]}, "good", goal=1 / 1.3),
            cell_of({OURS: [1]}, "alone"),
            cell_of({OURS: [3], "peer": [2]}, "bad", goal=1),
            cell_of({OURS: [1], "peer": [2]}, "slow rate", goal=0.7, more_is_better=True),
            cell_of({OURS: [None], "peer": [2]}, "broken")]


class Table(unittest.TestCase):
    def test_the_worst_comes_first_and_a_cell_without_a_peer_last(self):
        self.assertEqual([cell.name for cell in ratios.worst_first(sample())],
                         ["broken", "slow rate", "bad", "good", "alone"])

    def test_a_row_states_ratio_and_both_figures(self):
        row = next(line for line in ratios.ratio_table(sample()) if line.startswith("| good "))
        self.assertEqual(row, "| good | 0.50 (0.50 to 0.50) | 0.50 | ms | 1.00 (1.00 to 1.00) | peer "
                              "| 2.00 (2.00 to 2.00) | - |")

    def test_the_targets_are_the_cells_with_a_goal(self):
        self.assertEqual(ratios.target_table(sample())[2:-1], [
            "| slow rate | at least 0.70 x the best peer | 0.50 (0.50 to 0.50) | **not reached** |",
            "| bad | at most 1.00 x the best peer | 1.50 (1.50 to 1.50) | **not reached** |",
            "| good | at most 0.77 x the best peer | 0.50 (0.50 to 0.50) | reached |"])

    def test_all_rows_have_as_many_columns_as_the_head(self):
        for lines in (ratios.ratio_table(sample()), ratios.figure_table(sample())):
            self.assertEqual(len({line.count("|") for line in lines if line}), 1)
            self.assertEqual(len(lines), 2 + len(sample()) + 1)

    def test_a_program_that_a_cell_does_not_compare_leaves_its_column_empty(self):
        cells = [cell_of({OURS: [1], "one": [2]}, "a"), cell_of({OURS: [1], "two": [2]}, "b")]
        row = next(line for line in ratios.figure_table(cells) if line.startswith("| a "))
        self.assertTrue(row.endswith("|  |"), row)

    def test_failed_runs_are_listed_with_their_last_line(self):
        cell = cell_of({OURS: [1, 1], "peer": [None, 2]}, "half")
        self.assertEqual(ratios.failures([cell]),
                         ["half, peer: 1 of 2 runs failed, the last with: `last line`"])

    def test_figures_keep_three_digits(self):
        self.assertEqual([ratios.figure(value) for value in (None, 1234.4, 65.43, 1.234, 0.0094)],
                         ["-", "1,234", "65.4", "1.23", "0.009"])


class Output(unittest.TestCase):
    def test_the_document_has_the_command_of_every_figure(self):
        for cell in json.loads(json.dumps([ratios.document(cell) for cell in sample()])):
            self.assertTrue(all(one["command"] for one in cell["programs"].values()))

    def test_the_picture_is_xml_and_has_a_bar_for_each_ratio(self):
        root = xml.etree.ElementTree.fromstring(ratios_svg.draw(sample()))
        bars = [element for element in root.iter() if element.tag.endswith("rect")]
        self.assertEqual(len(bars), 1 + 3)  # the background, and three cells with a ratio


if __name__ == "__main__":
    unittest.main()
