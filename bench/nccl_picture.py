#!/usr/bin/env python3
"""Draws a job of stock NCCL through five faults, over the plugin and over NCCL's own sockets:
back-to-back AllReduce on hosts of the lab, as in nccl_faults.py, with the rate over time.

    nccl_picture.py [--svg docs/nccl_faults.svg] [--json FILE]

Both jobs get the same faults. Each one lasts --fault seconds, or as long as the kernel takes to
repair it; the bands show that. An operation counts
evenly for the time that it takes. Every element of every operation is checked.
"""
import pathlib
import tempfile
import time

from lab import Lab, machine, median, parser, progress, save, ROOT
from nccl_faults import Run, nccl_run, setups
from stall_svg import line, text

FAULTS = (("h1 nic0", "pull"), ("h2 nic1", "hole"), ("h0 nic2", "slow 25"), ("h3 nic3", "lose 2"),
          ("rail1", "down"))
LABELS = ("h1 nic0: cable pulled", "h2 nic1: black hole", "h0 nic2: a tenth", "h3 nic3: 2 % lost",
          "switch of rail 1 down")
BIN_S = 0.1
WIDTH, HEIGHT = 860, 400
LEFT, RIGHT = 62, 836
PANELS = {"r2ccl": (70, 190, "#0072b2", "NCCL on r2ccl"),
          "sockets": (240, 360, "#d55e00", "NCCL on its own sockets")}
BAND = "#f0e0a0"


class Job(Run):
    """A job through the faults of FAULTS, one after the other."""

    def faults(self):
        self.wait_for_begin()
        begin = time.monotonic()
        done = []
        for number, (place, kind) in enumerate(FAULTS):
            self.sleep_until(begin, (2 * number + 1) * self.options.fault)
            printed = self.lab.command("fault", *place.split(), *kind.split())
            fault = float(printed.partition(", at ")[2].split()[0])
            self.sleep_until(begin, (2 * number + 2) * self.options.fault)
            self.lab.command("fix", *place.split())
            # The kernel may take seconds for a repair beside busy cores.
            done.append((fault - begin, time.monotonic() - begin))
        return begin, done

    @staticmethod
    def sleep_until(begin, seconds):
        time.sleep(max(begin + seconds - time.monotonic(), 0))


def rates(operations, begin, seconds):
    """Returns the operations a second in each bin."""
    bins = [0.0] * int(seconds / BIN_S)
    for start, duration in operations:
        first, last = (start - begin) / BIN_S, (start + duration - begin) / BIN_S
        for place in range(max(int(first), 0), min(int(last) + 1, len(bins))):
            share = min(last, place + 1) - max(first, place)
            bins[place] += max(share, 0) * BIN_S / duration
    return [count / BIN_S for count in bins]


def measure(lab, setup, options):
    run = Job(lab, setup, options)
    try:
        begin, faults = run.faults()
        failure = run.failure()
        if failure:
            return failure
        longest = max(duration for start, duration in run.operations() if start >= begin)
        # The last second has the job's end in it.
        return {"faults": faults, "longest_s": longest, "wrong_elements": 0,
                "rates": rates(run.operations(), begin, run.seconds - 1)}
    finally:
        run.job.end()


def panel(name, result):
    top, bottom, colour, title = PANELS[name]
    seconds = len(result["rates"]) * BIN_S
    calm = median(result["rates"][:int(result["faults"][0][0] / BIN_S)])
    x = lambda at: LEFT + (RIGHT - LEFT) * at / seconds
    y = lambda share: bottom - (bottom - top) * min(share, 1.3) / 1.3
    parts = [f'<rect x="{x(start):.1f}" y="{top}" width="{x(end) - x(start):.1f}" '
             f'height="{bottom - top}" fill="{BAND}"/>' for start, end in result["faults"]]
    for percent in (0, 50, 100):
        parts += [line(LEFT, y(percent / 100), RIGHT, y(percent / 100), "#dddddd"),
                  text(LEFT - 8, y(percent / 100) + 4, f"{percent} %", "end")]
    points = " ".join(f"{x((place + 0.5) * BIN_S):.1f},{y(rate / calm):.1f}"
                      for place, rate in enumerate(result["rates"]))
    parts += [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
              text(LEFT, top - 8, f"{title}: longest operation {1e3 * result['longest_s']:,.0f} ms, "
                   f"{result['wrong_elements']} wrong elements", "start", f'fill="{colour}"')]
    if name == "sockets":
        parts += [text(x(second), bottom + 18, f"{second} s", "middle")
                  for second in range(0, int(seconds) + 1, 5)]
        return parts
    for (start, end), label in zip(result["faults"], LABELS):
        parts.append(text((x(start) + x(end)) / 2, top - 26, label, "middle", 'font-size="11"'))
    return parts


def draw(results):
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(LEFT, 22, "Stock NCCL through five faults (AllReduce of 1 MB, 4 hosts x 4 NICs): "
                  "rate, of that without faults", "start", 'font-size="15"')]
    for name, result in results.items():
        parts += panel(name, result)
    return "\n".join([*parts, "</svg>", ""])


def read_command_line():
    p = parser(__doc__)
    p.add_argument("--svg", type=pathlib.Path, default=ROOT / "docs" / "nccl_faults.svg")
    p.add_argument("--fault", type=float, default=3, help="seconds of a fault, and between two")
    p.add_argument("--hosts", type=int, default=4)
    p.add_argument("--nics", type=int, default=4)
    p.add_argument("--mbit", type=int, default=250, help="of each NIC")
    p.add_argument("--bytes", type=int, default=1 << 20, help="of an operation")
    p.add_argument("--version", default=nccl_run.VERSION, help="of NCCL")
    options = p.parse_args()
    if options.quick:
        options.fault = 1
    # Run's loop lasts for so long.
    options.trials, options.settle, options.communicators = 1, 0, 1
    options.kinds = [kind.split()[0] for _, kind in FAULTS]
    options.window = 2 * options.fault + options.fault / len(FAULTS)
    options.networks = ["r2ccl", "sockets"]
    return options


def main():
    options = read_command_line()
    document = {"machine": machine(), "networks": {}}
    with tempfile.TemporaryDirectory() as folder, \
            Lab(options.r2ccl, options.name, options.hosts, options.nics, options.mbit) as lab:
        for name, setup in setups(options, pathlib.Path(folder)).items():
            progress(f"NCCL over {name}")
            result = document["networks"][name] = measure(lab, setup, options)
            print(f"{name}: longest operation {result['longest_s']:.3f} s, 0 wrong"
                  if "rates" in result else f"{name}: ended with {result}")
    if all("rates" in result for result in document["networks"].values()):
        options.svg.write_text(draw(document["networks"]))
        progress(f"wrote {options.svg}")
    save(options.json, document)


if __name__ == "__main__":
    main()
