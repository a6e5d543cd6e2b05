#!/usr/bin/env python3
"""Instructions that the library takes for each MB, with monitoring on and off (R2CCL_MONITOR=0), as
valgrind's callgrind counts them: in user space, in the progress thread and inside r2cclAllReduce.

One rank of a job on the unshaped lab, 4 hosts x 4 NICs, runs under callgrind. The others run as
always, but without monitoring, or they would suspect it and retransmit chunks that it has. The
difference between a long run and a short one leaves out the start and the end. An MB (10^6 bytes)
is of the payload that AllReduce makes this rank send: 2 (n - 1) / n of the buffer. Where the
processor copies with one instruction (rep movsb), callgrind counts each byte.

The cost of an event is exact, but the number of events differs from a normal run. The rank runs
some times slower ("slowdown"), so timers expire more often for each MB by that factor; chunks are
smaller, as paths look slow; and a thread that wakes late finds more work at once. The difference
between on and off is therefore given twice: as counted, and divided by the slowdown, which is right
if timers cause all of it. Counts of events stand beside it: where chunks differ between on and off,
so do the instructions, and monitoring is not the reason.
"""
import collections
import shutil
import sys

from callgrind import Profile
from lab import BUS_FACTOR, Failed, Lab, machine, median, output_of, parser, progress, save, spread

KIB, MIB = 1 << 10, 1 << 20
# Buffer, operations of the short and of the long run.
PLAN = {"64K": (64 * KIB, 40, 240), "1M": (MIB, 5, 45), "16M": (16 * MIB, 1, 5)}
QUICK_PLAN = {"64K": (64 * KIB, 5, 25), "1M": (MIB, 2, 6)}
WARMUP = 2
RANK = 1  # rank 0 serves the rendezvous too, and writes the log
LISTED = 10
TIMEOUT_S = 120
# An event is one call of a function; the names are as callgrind prints them.
EVENTS = {"passes": "r2ccl::ProgressEngine::progress(",
          "passes of links": "r2ccl::Link::progress(",
          "control frames sent": "r2ccl::ControlStream::send(",
          "pings": "r2ccl::LinkPaths::send_ping(",
          "data frames sent": "r2ccl::ChunkSender::send_frame(",
          "data frames received": "r2ccl::Path::on_frame(",
          "writes": "r2ccl::TcpConnection::write(",
          "reads": "r2ccl::TcpConnection::read(",
          "clock reads": "r2ccl::SystemClock::now(",
          "allocations": "malloc"}
CALL = "r2cclAllReduce"
SCRIPT = """if [ "$RANK" = {rank} ]; then
  export R2CCL_MONITOR={monitor}
  exec valgrind --quiet --tool=callgrind --separate-threads=yes --callgrind-out-file={out} "$@"
fi
export R2CCL_MONITOR=0
exec "$@"
"""


def job(lab, size, iterations, monitor, out=None):
    """Returns the seconds of one operation; with `out` one rank writes its profile there."""
    log = lab.directory / "op.log"
    bench = [lab.r2ccl, "bench", "-b", size, "-w", WARMUP, "--iters", iterations, "-c", 0,
             "--out-of-place", "--op-log", log]
    wrapped = ["sh", "-c", SCRIPT.format(rank=RANK, out=out, monitor=monitor), "sh"] if out else []
    output_of(lab.start(lab.on_all(*wrapped, *bench), {"R2CCL_MONITOR": monitor}), TIMEOUT_S)
    seconds = [float(line.split()[4]) / 1e6 for line in log.read_text().splitlines()
               if not line.startswith("#")]
    return median(seconds)


def profiles(out):
    """Returns the profiles of the progress thread and of the caller, which drives while it waits."""
    threads = [Profile(path) for path in sorted(out.parent.glob(out.name + "-*"))]
    for path in out.parent.glob(out.name + "*"):
        path.unlink()
    callers = [t for t in threads if CALL in t.inclusive]
    drivers = [t for t in threads if count(t.calls, EVENTS["passes"]) > 0 and t not in callers]
    if len(callers) != 1 or len(drivers) > 1:
        raise Failed("callgrind saw no caller: does the library have its symbols?")
    return (drivers or [Profile()])[0], callers[0]


def count(counter, prefix):
    return sum(value for name, value in counter.items()
               if name.startswith(prefix) and (prefix.endswith("(") or name == prefix))


def top(counter, operations, bytes_sent):
    return [{"function": name, "instructions_per_MB": value / operations / bytes_sent * 1e6}
            for name, value in counter.most_common(LISTED)]


def measure(lab, plan, monitor):
    size, few, many = plan
    out = lab.directory / "callgrind"
    job(lab, size, few, monitor, out)
    short = profiles(out)
    op_s = job(lab, size, many, monitor, out)
    long = profiles(out)
    loop, caller = (after.less(before) for after, before in zip(long, short))
    operations = many - few
    sent = size * BUS_FACTOR
    both = loop.plus(caller)
    instructions = (loop.total() + caller.inclusive[CALL]) / operations
    # With their callees, a thread's first functions all have the same cost.
    ours = collections.Counter({name: value for name, value in both.inclusive.items()
                                if name.startswith("r2ccl::")})
    return {"op_ms": op_s * 1e3, "instructions_per_MB": instructions / sent * 1e6,
            "instructions_per_op": instructions,
            "events_per_op": {name: count(both.calls, prefix) / operations
                              for name, prefix in EVENTS.items()},
            "own": top(both.own, operations, sent),
            "inclusive": top(ours, operations, sent)}


def summary(rows, native_op_s):
    """Returns the median of several runs, and the distance of the others from it."""
    rows = sorted(rows, key=lambda row: row["instructions_per_MB"])
    middle = dict(rows[(len(rows) - 1) // 2])
    middle["runs"] = spread([row["instructions_per_MB"] for row in rows])
    middle["slowdown"] = middle["op_ms"] / native_op_s / 1e3
    return middle


def compare(lab, plan, repetitions):
    rows = {"on": [], "off": []}
    for _ in range(repetitions):
        for name, monitor in (("on", "1"), ("off", "0")):
            rows[name].append(measure(lab, plan, monitor))
    result = {name: summary(rows[name], job(lab, plan[0], 2 * plan[2], monitor))
              for name, monitor in (("on", "1"), ("off", "0"))}
    counted = result["on"]["instructions_per_MB"] / result["off"]["instructions_per_MB"] - 1
    result["counted_percent"] = 100 * counted
    result["timers_percent"] = 100 * counted / result["on"]["slowdown"]
    return {"bytes": plan[0], **result}


def show(name, row):
    for which in ("on", "off"):
        part = row[which]
        print(f"{name:>4} {which:>3}: {part['instructions_per_MB']:,.0f} instructions per MB "
              f"({part['runs']['min']:,.0f} to {part['runs']['max']:,.0f}), slowdown "
              f"{part['slowdown']:.0f}; per operation: " +
              ", ".join(f"{value:.1f} {event}" for event, value in part["events_per_op"].items()))
    print(f"{name:>4} on over off: {row['counted_percent']:+.1f} % as counted, "
          f"{row['timers_percent']:+.2f} % if timers cause all of it", flush=True)
    for title in ("own", "inclusive"):
        print(f"     {title}, on:")
        for entry in row["on"][title]:
            print(f"     {entry['instructions_per_MB']:12,.0f}  {entry['function'][:90]}")


def main():
    p = parser(__doc__)
    p.add_argument("--repetitions", type=int, default=3)
    p.add_argument("--sizes", default="64K,1M,16M", help="some of 64K,1M,16M")
    p.add_argument("--mbit", type=int, default=0, help="rate of a NIC; 0 is unshaped")
    options = p.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing: apt-get install valgrind")
    plan = QUICK_PLAN if options.quick else PLAN
    sizes = [size for size in options.sizes.split(",") if size in plan]
    if not sizes or options.repetitions < 1:
        p.error("--sizes takes 64K, 1M and 16M, and --repetitions at least 1")
    if options.quick:
        options.repetitions = 1
    document = {"what": "instructions", "machine": machine(), "mbit": options.mbit, "sizes": {}}
    with Lab(options.r2ccl, options.name, mbit=options.mbit) as lab:
        for size in sizes:
            progress(f"{size}: {options.repetitions} x 4 runs under callgrind")
            document["sizes"][size] = compare(lab, plan[size], options.repetitions)
            show(size, document["sizes"][size])
    save(options.json, document)


if __name__ == "__main__":
    sys.exit(main())
