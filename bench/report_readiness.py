"""The pages of bench/results on the cost of readiness."""
from report_text import Target, find, num, origin, table

PAIRS_WANTED = 20
RATIO_WANTED = 1.01


def ratio_text(ratio):
    return f"{ratio['value']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def readiness_targets(document):
    for name in ("64K", "1M", "16M"):
        cost = find(document, "sizes", name, "time", "cost", "mean")
        yield Target(f"Readiness, {name}B AllReduce on unshaped NICs, time on over off",
                     f"95 % interval ends at most at {RATIO_WANTED}", cost,
                     lambda cost: cost["high"] <= RATIO_WANTED, ratio_text,
                     document.get("pairs", 0) >= PAIRS_WANTED)


def readiness(document):
    lines = ["AllReduce with monitoring over the same without (`R2CCL_MONITOR=0`: no timers, probes "
             "and hedges), 4 hosts x 4 NICs without shaping, so that the CPU is the limit. "
             f"{document['pairs']} pairs of jobs of each size, in random order. Geometric mean of "
             "the pairs' ratios, with the 95 % interval (bootstrap). Off over off is the same "
             "comparison where the true ratio is 1: it shows the noise of the machine. CPU is user and "
             "system time of all ranks.", ""]
    lines += origin(document["machine"])
    head = ["size", "ms on", "ms off", "CPU ms on", "CPU ms off", "time on/off", "time off/off",
            "CPU on/off", "CPU off/off"]
    rows = []
    for name, row in document["sizes"].items():
        rows.append([f"{name}B", f"{row['op_ms']['on']:.2f}", f"{row['op_ms']['off']:.2f}",
                     f"{row['op_cpu_ms']['on']:.2f}", f"{row['op_cpu_ms']['off']:.2f}",
                     *(ratio_text(row[measure][kind]["mean"])
                       for measure in ("time", "cpu") for kind in ("cost", "control"))])
    return lines + table(head, rows)


def instructions(document):
    lines = ["User-space instructions of one rank for each MB that AllReduce makes it send, as "
             "callgrind counts them. The rank runs some times slower under it (slowdown), and the work "
             "of timers comes more often by the same factor. So the table gives the difference between "
             "on and off twice: as counted, and as it is if timers cause all of it.", ""]
    lines += origin(document["machine"])
    rows = []
    for name, row in document["sizes"].items():
        for which in ("on", "off"):
            part = row[which]
            rows.append([f"{name}B", which, f"{part['instructions_per_MB']:,.0f}",
                         f"{part['runs']['min']:,.0f} to {part['runs']['max']:,.0f}",
                         f"{part['slowdown']:.1f}",
                         f"{row['counted_percent']:+.1f} % / {row['timers_percent']:+.1f} %"
                         if which == "on" else ""])
    lines += table(["size", "monitoring", "per MB", "runs", "slowdown",
                    "on over off: counted / timers"], rows)
    events = list(next(iter(document["sizes"].values()))["on"]["events_per_op"])
    lines += ["Events of one operation in that rank:", ""]
    lines += table(["", *events], [[f"{name}B, {which}", *(
        f"{max(row[which]['events_per_op'][event], 0):.1f}" for event in events)]
        for name, row in document["sizes"].items() for which in ("on", "off")])
    for name, row in document["sizes"].items():
        lines += [f"The costliest functions at {name}B with monitoring, instructions per MB, "
                  "alone and with their callees:", ""]
        lines += table(["alone", "", "with all", ""], [
            [f"{own['instructions_per_MB']:,.0f}", f"`{short(own['function'])}`",
             f"{whole['instructions_per_MB']:,.0f}", f"`{short(whole['function'])}`"]
            for own, whole in zip(row["on"]["own"], row["on"]["inclusive"])])
    return lines


def short(function):
    """Returns the name without arguments and namespace; without a symbol, the address."""
    return function.split("(")[0].removeprefix("r2ccl::").split("<")[0] or function


def collective_profiles(document):
    lines = ["Samples of all processors while one collective runs back to back, on unshaped NICs and "
             "in memory, in percent. On one host, four ranks share two cores. The targets of these "
             "collectives stand in [Collectives against Open MPI's](compare_collectives.md).", "",
             *origin(document["machine"])]
    classes = list(document["rows"][0]["shares"])
    rows = [[row["cell"], *(num(row["shares"][each]) for each in classes),
             ", ".join(f"`{name}` {num(share)}" for share, name in row["functions"][:3])]
            for row in document["rows"]]
    return lines + table(["cell", *classes, "functions"], rows)
