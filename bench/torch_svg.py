"""A training run through faults as a picture: the loss and the time of each step, with a band for
each fault, beside the run without faults and the run under Gloo. The script writes the SVG by hand,
so that no library is needed.
"""
from stall_svg import line, text

WIDTH, HEIGHT = 860, 470
LEFT, RIGHT = 62, 836
LOSS = 64, 230  # top and bottom of a panel
TIME = 278, 424
# Colours that colour-blind readers can tell apart (Okabe and Ito).
CLEAN, FAULTS, GLOO, BAND = "#aaaaaa", "#0072b2", "#d55e00", "#f0e0a0"
UNITS = {"slow": "{} Mbit/s", "lose": "{} %"}  # of a fault's amount


class Panel:
    def __init__(self, place, steps, high, low=0.0):
        self.top, self.bottom = place
        self.steps, self.low, self.high = steps, low, high

    def x(self, step):
        return LEFT + (RIGHT - LEFT) * step / max(self.steps - 1, 1)

    def y(self, value):
        share = (min(value, self.high) - self.low) / (self.high - self.low)
        return self.bottom - (self.bottom - self.top) * share

    def curve(self, values, colour, width):
        points = " ".join(f"{self.x(step):.1f},{self.y(value):.1f}"
                          for step, value in enumerate(values))
        return (f'<polyline points="{points}" fill="none" stroke="{colour}" '
                f'stroke-width="{width}"/>')

    def frame(self, words, ticks):
        parts = []
        for tick in ticks:
            y = self.y(tick)
            parts += [line(LEFT, y, RIGHT, y, "#dddddd"), text(LEFT - 8, y + 4, f"{tick:g}", "end")]
        middle = (self.top + self.bottom) / 2
        return parts + [line(LEFT, self.bottom, RIGHT, self.bottom, "#444444"),
                        text(16, middle, words, "middle", f'transform="rotate(-90 16 {middle})"')]


def ticks_of(high, low=0.0):
    """Returns about four round numbers."""
    span = high - low
    unit = next(u for u in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e9)
                if span / u <= 5)
    first = int(low / unit) + (low > 0)
    return [n * unit for n in range(first, int(high / unit) + 1)]


def bands(run, panels):
    """Returns a band for each fault, from the step at which it came to that of its repair."""
    parts, open_faults = [], {}
    for change in run["faults"]:
        verb, host, nic, *kind = change["words"]
        if verb == "fault":
            open_faults[host, nic] = change["step"], kind
            continue
        start, kind = open_faults.pop((host, nic))
        left, right = panels[0].x(start), panels[0].x(change["step"])
        for panel in panels:
            parts.append(f'<rect x="{left:.1f}" y="{panel.top}" width="{right - left:.1f}" '
                         f'height="{panel.bottom - panel.top}" fill="{BAND}"/>')
        words = f"{host} {nic} {UNITS.get(kind[0], '{}').format(' '.join(kind))}"
        parts.append(text((left + right) / 2, panels[0].top - 8, words, "middle",
                          'font-size="11"'))
    return parts


def legend(runs):
    same = runs["clean"]["weights"] == runs["faults"]["weights"] and \
        runs["clean"]["losses"] == runs["faults"]["losses"]
    words = "the same bits as without faults" if same else "other bits than without faults"
    entries = [(CLEAN, "r2ccl, no fault"), (FAULTS, f"r2ccl, five faults: {words}"),
               (GLOO, "Gloo, a cable pulled: dead")]
    parts, x = [], LEFT
    for colour, label in entries:
        parts += [line(x, HEIGHT - 12, x + 26, HEIGHT - 12, colour, 3),
                  text(x + 32, HEIGHT - 8, label)]
        x += 60 + 6.4 * len(label)
    return parts


def death(run, panel, value):
    """Returns the mark where the run under Gloo stops."""
    if not run["losses"]:
        return []
    x, y = panel.x(len(run["losses"]) - 1), panel.y(value)
    return [text(x, y + 7, "\u00d7", "middle", f'font-size="24" fill="{GLOO}"')]


def draw(runs):
    """Returns the SVG of {"clean", "faults", "gloo"}: each has losses, seconds, faults, weights."""
    steps = len(runs["clean"]["losses"])
    times = {name: [1000 * seconds for seconds in run["seconds"]] for name, run in runs.items()}
    for values in times.values():
        values[:1] = values[1:2]  # the first step contains the start
    high = 1.15 * max(times["faults"] + times["clean"])
    losses = [loss for run in runs.values() for loss in run["losses"]]
    loss = Panel(LOSS, steps, 1.02 * max(losses), 0.95 * min(losses))
    time = Panel(TIME, steps, high)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(LEFT, 26, "A transformer trains through five faults (DDP, 4 hosts x 4 NICs)",
                  "start", 'font-size="15"'), *bands(runs["faults"], [loss, time]),
             *loss.frame("loss", ticks_of(loss.high, loss.low)),
             *time.frame("ms per step", ticks_of(high))]
    for name, colour, width in (("clean", CLEAN, 4), ("gloo", GLOO, 2), ("faults", FAULTS, 1.3)):
        parts.append(loss.curve(runs[name]["losses"], colour, width))
    for name, colour, width in (("clean", CLEAN, 1), ("faults", FAULTS, 1.3), ("gloo", GLOO, 2)):
        parts.append(time.curve(times[name], colour, width))
    if runs["gloo"]["losses"]:
        parts += death(runs["gloo"], loss, runs["gloo"]["losses"][-1])
        parts += death(runs["gloo"], time, times["gloo"][-1])
    parts += [text(time.x(tick), TIME[1] + 18, f"{tick:g}", "middle") for tick in ticks_of(steps - 1)]
    parts += [text((LEFT + RIGHT) / 2, TIME[1] + 18, "step", "middle", 'dx="24"'), *legend(runs),
              "</svg>", ""]
    return "\n".join(parts)
