#!/usr/bin/env python3
"""The cost of readiness while nothing is broken: AllReduce with monitoring on and off
(R2CCL_MONITOR=0: no timers, probes and hedges), on 4 hosts x 4 NICs without any shaping, where the
CPU is the limit.

Each repetition runs the same job three times in a random order: on, off, and off once more. On over
off is the cost; the second off over the first shows the effect of the machine on a ratio whose true
value is 1. Time is the mean operation of a job. CPU is the user and system time of all its ranks,
less the time of a job of one operation, for each operation. An untimed job gives the number of
operations for a job of --job-s, and all jobs of a size have that number.
"""
import math
import random
import resource
import sys

from lab import Lab, machine, median, output_of, parser, save

KIB, MIB = 1 << 10, 1 << 20
SIZES = {"64K": 64 * KIB, "1M": MIB, "16M": 16 * MIB}
WARMUP = {"64K": 50, "1M": 5, "16M": 1}
PROBE = {"64K": 300, "1M": 30, "16M": 5}
ARMS = {"on": "1", "off": "0", "off_again": "0"}
RATIOS = {"cost": ("on", "off"), "control": ("off_again", "off")}
RESAMPLES = 10_000
JOB_TIMEOUT_S = 60


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def job(lab, size, iterations, monitor):
    """Returns the seconds of one operation, and the CPU seconds of all ranks. `r2ccl lab` waits for
    the ranks, so their CPU time counts as its own."""
    log = lab.directory / "op.log"
    before = children_cpu_s()
    output_of(lab.start(lab.on_all(lab.r2ccl, "bench", "-b", size, "-w", WARMUP[size], "--iters",
                                   iterations, "-c", 0, "--out-of-place", "--op-log", log),
                        {"R2CCL_MONITOR": monitor}), JOB_TIMEOUT_S)
    seconds = [float(line.split()[4]) / 1e6 for line in log.read_text().splitlines()
               if not line.startswith("#")]
    return {"op_s": sum(seconds) / len(seconds), "median_op_s": median(seconds),
            "cpu_s": children_cpu_s() - before}


def interval(values, statistic, generator):
    """Returns the statistic, and the interval that holds it in 95 % of samples drawn from these
    values."""
    drawn = sorted(statistic(generator.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return {"value": statistic(values), "low": drawn[int(0.025 * RESAMPLES)],
            "high": drawn[int(0.975 * RESAMPLES) - 1]}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def ratios(rows, measure, generator):
    """Returns one measure's ratios pair by pair, their geometric mean and median."""
    result = {}
    for name, (above, below) in RATIOS.items():
        pairs = [row[above][measure] / row[below][measure] for row in rows]
        result[name] = {"mean": interval(pairs, geometric_mean, generator),
                        "median": interval(pairs, median, generator), "pairs": pairs}
    return result


def measure(lab, size, options, generator):
    start_up = [job(lab, size, 1, monitor)["cpu_s"] for monitor in ("1", "0") * 3]
    probe = job(lab, size, PROBE[size], "1")
    iterations = max(3, round(options.job_s / probe["op_s"]))
    rows = []
    while len(rows) < options.pairs:
        row = {}
        for arm in generator.sample(list(ARMS), len(ARMS)):
            row[arm] = job(lab, size, iterations, ARMS[arm])
            row[arm]["op_cpu_s"] = max(row[arm]["cpu_s"] - median(start_up), 1e-9) / iterations
        rows.append(row)
    return {"bytes": SIZES[size], "iterations": iterations, "start_up_cpu_s": median(start_up),
            "op_ms": {arm: 1e3 * median([row[arm]["op_s"] for row in rows]) for arm in ARMS},
            "op_cpu_ms": {arm: 1e3 * median([row[arm]["op_cpu_s"] for row in rows])
                          for arm in ARMS},
            "time": ratios(rows, "op_s", generator),
            "median_time": ratios(rows, "median_op_s", generator),
            "cpu": ratios(rows, "op_cpu_s", generator)}


def text(ratio):
    return f"{ratio['value']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"


def show(name, row):
    for label in ("time", "median_time", "cpu"):
        print(f"{name:>4} {label:>12}: on/off {text(row[label]['cost']['mean'])}, "
              f"off/off {text(row[label]['control']['mean'])}", flush=True)


def main():
    p = parser(__doc__)
    p.add_argument("--pairs", type=int, default=24)
    p.add_argument("--job-s", type=float, default=0.8, help="how long one job's operations take")
    p.add_argument("--sizes", default="64K,1M,16M", help="some of 64K,1M,16M")
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    sizes = options.sizes.split(",")
    if not set(sizes) <= set(SIZES) or options.pairs < 1:
        p.error("--sizes takes 64K, 1M and 16M, and --pairs at least 1")
    if options.quick:
        options.pairs, options.job_s = 2, 0.1
    document = {"what": "readiness", "machine": machine(), "pairs": options.pairs,
                "seed": options.seed, "sizes": {}}
    generator = random.Random(options.seed)
    with Lab(options.r2ccl, options.name, mbit=0) as lab:
        for size in sizes:
            document["sizes"][size] = measure(lab, size, options, generator)
            show(size, document["sizes"][size])
    save(options.json, document)


if __name__ == "__main__":
    sys.exit(main())
