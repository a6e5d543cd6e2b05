"""The ratios of bench/compare.py as a bar chart, the worst first: to the right of 1 we need more
than the best peer, to the left less. The axis is logarithmic; a mark shows each cell's goal.
"""
import math

import ratios
from stall_svg import line, text

WIDTH, ROW, TOP, BOTTOM = 900, 20, 66, 40
LEFT, RIGHT = 330, 790
COST_MIN, COST_MAX = 0.25, 16.0
TICKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
BETTER, WORSE, GOAL = "#0072b2", "#d55e00", "#000000"


def x_of(cost):
    clamped = min(max(cost, COST_MIN), COST_MAX)
    return LEFT + (RIGHT - LEFT) * math.log(clamped / COST_MIN) / math.log(COST_MAX / COST_MIN)


def grid(height):
    parts = []
    for tick in TICKS:
        x = x_of(tick)
        parts += [line(x, TOP - 6, x, height - BOTTOM, "#444444" if tick == 1 else "#dddddd"),
                  text(x, height - BOTTOM + 16, f"{tick:g}", "middle")]
    return parts


def goal_mark(cell, y):
    if cell.goal is None:
        return []
    x = x_of(1 / cell.goal if cell.more_is_better else cell.goal)
    return [line(x, y - ROW * 0.45, x, y + ROW * 0.45, GOAL, 2)]


def bar(cell, y):
    """Returns the parts of one row, whose middle is at y."""
    cost = ratios.cost(cell)
    parts = [text(LEFT - 10, y + 4, cell.name, "end")]
    if not math.isfinite(cost):
        return parts + [text(x_of(1) + 6, y + 4, "failed" if cost > 0 else "no peer")]
    left, right = sorted((x_of(1), x_of(cost)))
    parts.append(f'<rect x="{left:.1f}" y="{y - ROW * 0.3:.1f}" width="{right - left:.1f}" '
                 f'height="{ROW * 0.6:.1f}" fill="{WORSE if cost > 1 else BETTER}"/>')
    return [*parts, *goal_mark(cell, y), text(RIGHT + 10, y + 4, f"{cost:.2f}")]


def draw(cells):
    """Returns the SVG."""
    height = TOP + ROW * len(cells) + BOTTOM
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
             f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             text(20, 24, "r2ccl / best peer: time, processor time, or inverse rate", "start",
                  'font-size="15"'),
             text(20, 44, "Left of 1 is better than the peer. A black mark is the goal."),
             *grid(height)]
    for number, cell in enumerate(ratios.worst_first(cells)):
        parts += bar(cell, TOP + ROW * (number + 0.5))
    return "\n".join(parts + ["</svg>", ""])
