"""The pure parts of bench/compare.py: the ratio of our figure to that of the best peer, whether it
meets its goal, the order of the cells, and their tables.
"""
import dataclasses

from lab import median, spread
from report_text import num, table

DECIMALS_MAX = 3


@dataclasses.dataclass
class Cell:
    """One comparison. `runs` has one figure for each repetition and program, None where the run
    failed; `means` has the mean of the operations beside it, where the figure is their median.
    `goal` bounds the ratio: from above, or from below where more is better. `limit` is the least
    time that the wire allows, and `share_goal` the share of it that we shall reach."""

    name: str
    goal: float | None = None
    unit: str = "ms"
    more_is_better: bool = False
    limit: float | None = None
    share_goal: float | None = None
    runs: dict = dataclasses.field(default_factory=dict)
    means: dict = dataclasses.field(default_factory=dict)
    commands: dict = dataclasses.field(default_factory=dict)
    errors: dict = dataclasses.field(default_factory=dict)
    # The share of all cores, in percent, that other programs used before each repetition.
    others_cpu: list = dataclasses.field(default_factory=list)

    def add(self, program, value, command, mean=None):
        self.runs.setdefault(program, []).append(value)
        if mean is not None:
            self.means.setdefault(program, []).append(mean)
        self.commands[program] = command

    def fail(self, program, error, command):
        self.add(program, None, command)
        self.errors.setdefault(program, []).append(error)

    def typical(self, program):
        return median([value for value in self.runs.get(program, []) if value is not None])

    def spread(self, program):
        return spread([value for value in self.runs.get(program, []) if value is not None])


OURS = "r2ccl"


def best_peer(cell):
    """Returns the name of the peer with the best median, or None."""
    medians = {name: cell.typical(name) for name in cell.runs if name != OURS}
    ran = [name for name, value in medians.items() if value is not None]
    best = max if cell.more_is_better else min
    return best(ran, key=medians.get) if ran else None


def ratio(cell):
    """Returns our median over that of the best peer, or None if one is missing."""
    peer, ours = best_peer(cell), cell.typical(OURS)
    return ours / cell.typical(peer) if peer and ours is not None else None


def mean_ratio(cell):
    """Returns the ratio by the means of the operations, to the peer that is best by them, or None.
    A program that now and then loses its core has a mean far above its median."""
    theirs = [median(values) for name, values in cell.means.items() if name != OURS]
    ours = median(cell.means.get(OURS, []))
    return ours / min(theirs) if theirs and ours is not None else None


def ratio_spread(cell):
    """Returns the least and the greatest ratio to the best peer in one repetition, or None."""
    peer = best_peer(cell)
    pairs = [ours / theirs for ours, theirs in zip(cell.runs.get(OURS, []), cell.runs.get(peer, []))
             if ours is not None and theirs]
    return (min(pairs), max(pairs)) if pairs else None


def cost(cell):
    """Returns the ratio as a cost, so that more is worse for every cell. Our failure is the worst;
    a cell without a peer says nothing."""
    if cell.typical(OURS) is None:
        return float("inf")
    value = ratio(cell)
    if value is None:
        return float("-inf")
    return 1 / value if cell.more_is_better else value


def worst_first(cells):
    return sorted(cells, key=cost, reverse=True)


def is_met(cell):
    """Returns whether the ratio meets its goal; None without a goal or a ratio."""
    value = ratio(cell)
    if cell.goal is None or value is None:
        return None
    return value >= cell.goal if cell.more_is_better else value <= cell.goal


def verdict(cell):
    if cell.typical(OURS) is None:
        return "**failed**"
    return {True: "reached", False: "**not reached**", None: "-"}[is_met(cell)]


def goal_text(cell):
    if cell.goal is None:
        return "-"
    return f"{'at least' if cell.more_is_better else 'at most'} {num(cell.goal, 2)}"


def figure(value):
    """Returns the value with three significant digits or more."""
    if value is None:
        return "-"
    decimals = 0
    while decimals < DECIMALS_MAX and abs(value) * 10 ** decimals < 100:
        decimals += 1
    return num(value, decimals)


def spread_text(values):
    if values["median"] is None:
        return "failed"
    return " ".join((figure(values["median"]),
                     f"({figure(values['min'])} to {figure(values['max'])})"))


def ratio_text(cell):
    value, ends = ratio(cell), ratio_spread(cell)
    shown = "-" if value is None else num(value, 2)
    return shown + (f" ({num(ends[0], 2)} to {num(ends[1], 2)})" if ends else "")


def target_table(cells):
    """Returns the lines of the table of targets: ratios, then shares of the wire's limit, the worst
    first."""
    rows = [[cell.name, f"{goal_text(cell)} x the best peer", ratio_text(cell), verdict(cell)]
            for cell in worst_first(cells) if cell.goal is not None]
    limited = [cell for cell in cells if cell.share_goal is not None]
    rows += [wire_row(cell) for cell in sorted(limited, key=lambda cell: wire_share(cell) or 0)]
    return table(["quantity", "target", "measured", "result"], rows)


def wire_share(cell):
    """Returns the share of the wire's limit that our median reaches, or None if one is missing."""
    ours = cell.typical(OURS)
    return cell.limit / ours if cell.limit and ours else None


def wire_row(cell):
    share = wire_share(cell)
    words = [f"{cell.name}, share of the wire", f"at least {num(100 * cell.share_goal, 0)} % of "
             f"{figure(cell.limit)} ms over the time"]
    if share is None:
        return [*words, "-", "**failed**"]
    measured = f"{num(100 * share, 1)} % ({figure(cell.typical(OURS))} ms)"
    return [*words, measured, "reached" if share >= cell.share_goal else "**not reached**"]


def ratio_row(cell):
    peer = best_peer(cell)
    return [cell.name, ratio_text(cell), num(mean_ratio(cell), 2), cell.unit,
            spread_text(cell.spread(OURS)), peer or "no peer",
            spread_text(cell.spread(peer)) if peer else "-", num(median(cell.others_cpu), 0)]


def ratio_table(cells):
    """Returns the lines of the table of ratios, the worst first."""
    return table(["", "ours / best peer", "by means", "unit", OURS, "best peer", "its figure",
                  "others' CPU %"], [ratio_row(cell) for cell in worst_first(cells)])


def figure_table(cells):
    """Returns the lines of the table of all programs, in the order of the cells."""
    names = [OURS, *dict.fromkeys(name for cell in cells for name in cell.runs if name != OURS)]
    return table(["median (min to max) of the runs", "unit", *names],
                 [[cell.name, cell.unit, *(spread_text(cell.spread(name)) if name in cell.runs
                                           else "" for name in names)] for cell in cells])


def failures(cells):
    """Returns a line for each cell and program with a failed run."""
    return [f"{cell.name}, {name}: {len(errors)} of {len(cell.runs[name])} runs failed, the last "
            f"with: `{errors[-1].splitlines()[-1] if errors[-1] else ''}`"
            for cell in cells for name, errors in cell.errors.items()]


def document(cell):
    """Returns the cell for the JSON file."""
    return {"cell": cell.name, "unit": cell.unit, "more_is_better": cell.more_is_better,
            "ratio": ratio(cell), "ratio_spread": ratio_spread(cell), "best_peer": best_peer(cell),
            "ratio_of_means": mean_ratio(cell), "goal": cell.goal, "goal_met": is_met(cell),
            "wire_limit_ms": cell.limit, "wire_share": wire_share(cell),
            "others_cpu_percent": cell.others_cpu,
            "programs": {name: program_document(cell, name) for name in cell.runs}}


def program_document(cell, name):
    return {"command": cell.commands[name], **cell.spread(name), "runs_each": cell.runs[name],
            "means_each": cell.means.get(name), "errors": cell.errors.get(name, [])}
