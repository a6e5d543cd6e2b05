#!/usr/bin/env python3
"""Stock NCCL while NICs fail: back-to-back AllReduce of --bytes on hosts of the lab, each rank a host,
on the emulated GPUs of tests/nccl, over the plugin and over NCCL's own sockets.

A trial breaks a random NIC of a random host at a random moment, repairs it --window later, and lets
the job settle. Kinds take turns in random order, among them "none", which breaks nothing. Every
element of every operation is checked. The table has:

    hit      the operation that ran when the fault came, less the median of the undisturbed ones
    longest  the longest operation between the fault and its repair, less that median. One without a
             NIC takes longer for want of bandwidth alone: that is in it, too
    back     from the repair to the first of five operations whose median is at most 1.1 times the
             usual one; some trials are not back when the next one begins
    told     faults that some line of the processes names, if only in a pair, and lines that name
             something else. A lossy NIC is told once a minute

NCCL's sockets wait for a dead NIC until it is back, so their extra time is the window or more.
"""
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
from typing import NamedTuple

from lab import Failed, Lab, machine, median, parser, percentile, progress, save, ROOT

sys.path.insert(0, str(ROOT / "tests" / "nccl"))
import job  # noqa: E402
import run as nccl_run  # noqa: E402
import wheel  # noqa: E402

KINDS = {"none": (), "pull": ("pull",), "hole": ("hole",), "down": ("down",),
         "hole-tx": ("hole-tx",), "hole-rx": ("hole-rx",), "slow": ("slow", 25), "lose": ("lose", 5)}
# A verdict in the log. A fault board waits for other hosts before it tells of a pair.
TOLD = re.compile(r"R2CCL WARN (.*(?:bytes replayed|: lossy|: tampered).*)$", re.MULTILINE)
TOLD_WITHIN_S = 4
START_S = 60  # for the job's start, which loads NCCL once for each rank


class Trial(NamedTuple):
    """Times are of the monotonic clock."""
    kind: str
    nic: str
    begin: float
    under: float   # the fault came between the begin and this
    repair: float  # its begin
    end: float
    logged: list   # the sizes of the ranks' logs at the begin


class Run:
    """A job of one rank a host, while NICs fail."""

    def __init__(self, lab, setup, options):
        self.lab, self.options = lab, options
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nccl-faults-"))
        self.broken = []
        self.seconds = options.trials * len(options.kinds) * (options.window + options.settle + 0.5)
        arguments = ["--patience", 120, "--bytes", options.bytes, "--seconds", self.seconds,
                     "--communicators", options.communicators]
        # NCCL's bootstrap has the management network, the data the NICs.
        network = {"NCCL_SOCKET_IFNAME": "mgmt" if setup.plugin else "nic",
                   "R2CCL_SOCKET_IFNAME": "nic", "R2CCL_DAMPING": "0", "R2CCL_DEBUG": "WARN"}
        self.job = job.Job(setup, self.folder, "loop", options.hosts, arguments,
                           prefix=lambda rank: (lab.r2ccl, "lab", "--name", lab.name, "run",
                                                f"h{rank}"),
                           environment=lambda rank: {
                               **network, "R2CCL_DEBUG_FILE": str(self.verdict_log(rank))})

    def verdict_log(self, rank):
        return self.folder / f"verdicts{rank}"

    def wait_for_begin(self):
        deadline = time.monotonic() + START_S
        while "the loop begins" not in self.job.output(0):
            if time.monotonic() > deadline or self.job.processes[0].poll() is not None:
                raise Failed(f"the job does not begin: {self.job.output(0)[-500:]}")
            time.sleep(0.05)

    def another_nic(self, rng):
        """Returns a NIC that the last trials have left alone, so that a late line is not taken for
        one of this trial."""
        period = self.options.window + self.options.settle
        recent = self.broken[-int(TOLD_WITHIN_S / period + 1):]
        nics = [(host, nic) for host in range(self.options.hosts)
                for nic in range(self.options.nics) if (host, nic) not in recent]
        self.broken.append(rng.choice(nics or self.broken[:1]))
        return self.broken[-1]

    def one(self, kind, rng):
        host, nic = self.another_nic(rng)
        time.sleep(rng.uniform(0, 0.3))
        logged = self.logged()
        begin = under = time.monotonic()
        if kind != "none":
            begin, under = self.lab.fault(host, nic, *KINDS[kind])
        time.sleep(self.options.window)
        repair = time.monotonic()
        if kind != "none":
            self.lab.fix(host, nic)
        time.sleep(self.options.settle)
        return Trial(kind, f"h{host} nic{nic}", begin, under, repair, time.monotonic(), logged)

    def trials(self, rng):
        self.wait_for_begin()
        time.sleep(0.5)
        done = []
        for number in range(self.options.trials):
            progress(f"round {number + 1} of {self.options.trials}")
            done += [self.one(kind, rng) for kind in rng.sample(self.options.kinds,
                                                                len(self.options.kinds))]
        return done

    def failure(self):
        """Waits for the job. Returns how it has failed, or None."""
        codes = self.job.wait(self.seconds + START_S + 60)
        outputs = [self.job.output(rank) for rank in range(self.options.hosts)]
        if codes == [0] * self.options.hosts:
            return None
        return {"ended": codes, "said": [text[-300:] for text in outputs]}

    def result(self, done):
        operations = self.operations()
        calm = [seconds for begin, seconds in operations
                if not any(trial.begin <= begin + seconds and begin <= trial.end for trial in done)]
        base = median(calm) or median([seconds for _, seconds in operations])
        lines = self.lines(done)
        return {"operations": len(operations), "wrong_elements": 0, "median_ms": base * 1e3,
                "kinds": {kind: {"trials": sum(each.kind == kind for each in done),
                                 **self.extra(kind, done, operations, base),
                                 **self.told(kind, done, lines)}
                          for kind in self.options.kinds}}

    def operations(self):
        """Returns (begin, seconds) of each operation: from the first rank's begin to the last one's
        end."""
        ranks = [[tuple(map(float, line.split())) for line in path.read_text().splitlines()]
                 for path in (self.folder / f"times{rank}" for rank in range(self.options.hosts))]
        return [(min(begin for begin, _ in each), max(begin + seconds for begin, seconds in each) -
                 min(begin for begin, _ in each)) for each in zip(*ranks)]

    def logged(self):
        """Returns the size of each rank's log."""
        logs = map(self.verdict_log, range(self.options.hosts))
        return [log.stat().st_size if log.exists() else 0 for log in logs]

    def lines(self, done):
        """Returns the ranks' lines about faults, for each trial those until the next one."""
        paths = map(self.verdict_log, range(self.options.hosts))
        logs = [path.read_bytes() if path.exists() else b"" for path in paths]
        begins = [trial.logged for trial in done] + [[len(log) for log in logs]]
        return [[text for log, begin, end in zip(logs, *both)
                 for text in TOLD.findall(log[begin:end].decode(errors="replace"))]
                for both in zip(begins, begins[1:])]

    @staticmethod
    def extra(kind, done, operations, base):
        values = {"hit": [], "longest": [], "back": []}
        late = 0
        for trial in (each for each in done if each.kind == kind):
            under = [(begin, seconds - base) for begin, seconds in operations
                     if begin + seconds >= trial.begin and begin <= trial.repair]
            met = sum(begin <= trial.under for begin, _ in under)  # 0: it came between two
            values["hit"] += [max(extra for _, extra in under[:max(met, 1)])]
            values["longest"] += [max(extra for _, extra in under)]
            later = [(begin, seconds) for begin, seconds in operations
                     if begin >= trial.repair and begin + seconds <= trial.end]
            runs = (later[i:i + 5] for i in range(len(later) - 4))
            back = next((run[0][0] for run in runs
                         if median([seconds for _, seconds in run]) <= 1.1 * base), None)
            late += back is None
            values["back"].append((trial.end if back is None else back) - trial.repair)
        return {"not_back": late} | {
            f"{name}_{statistic}_ms": value * 1e3 for name, all_of_it in values.items()
            for statistic, value in (("median", median(all_of_it)),
                                     ("p99", percentile(all_of_it, 0.99)),
                                     ("max", max(all_of_it)))}

    @staticmethod
    def told(kind, done, lines):
        """Counts the trials whose NIC a line names, and the lines that name no NIC that was broken
        then."""
        named = wrong = 0
        for number, trial in enumerate(done):
            if trial.kind != kind:
                continue
            broken = [each.nic for each in done[:number + 1]
                      if each.kind != "none" and trial.begin - each.begin <= TOLD_WITHIN_S]
            wrong += sum(not any(nic in text for nic in broken) for text in lines[number])
            later = [text for each, texts in zip(done, lines) for text in texts
                     if 0 <= each.begin - trial.begin <= TOLD_WITHIN_S]
            named += kind != "none" and any(trial.nic in text for text in later)
        return {"named": named, "wrong_lines": wrong}


def measure(lab, setup, options):
    rng = random.Random(options.seed)
    run = Run(lab, setup, options)
    try:
        done = run.trials(rng)
        return run.failure() or run.result(done)
    finally:
        run.job.end()
        shutil.rmtree(run.folder)


def setups(options, folder):
    """Returns a job.Setup for each network."""
    build = pathlib.Path(options.r2ccl).resolve().parent
    library = wheel.library(nccl_run.PACKAGES[13], options.version, build / "nccl-wheels")
    layout = folder / "layout.txt"
    layout.write_text(wheel.layout(library))
    programs = build / "tests" / "nccl"
    plugin = build / "libnccl-net-r2ccl.so"
    all_of_them = {"r2ccl": job.Setup(programs, library, layout, plugin, "r2ccl"),
                   "sockets": job.Setup(programs, library, layout)}
    return {name: all_of_them[name] for name in options.networks}


def read_command_line():
    p = parser(__doc__)
    p.add_argument("--hosts", type=int, default=4)
    p.add_argument("--nics", type=int, default=4)
    p.add_argument("--mbit", type=int, default=250, help="of each NIC")
    p.add_argument("--bytes", type=int, default=1 << 20, help="of an operation")
    p.add_argument("--communicators", type=int, default=1, help="that reduce at the same time")
    p.add_argument("--trials", type=int, default=100, help="of each kind")
    p.add_argument("--kinds", nargs="+", choices=list(KINDS), default=["none", "pull", "hole"])
    p.add_argument("--networks", nargs="+", choices=("r2ccl", "sockets"),
                   default=["r2ccl", "sockets"])
    p.add_argument("--window", type=float, default=0.5, help="seconds from a fault to its repair")
    p.add_argument("--settle", type=float, default=0.7, help="seconds from there to the next trial")
    p.add_argument("--version", default=nccl_run.VERSION, help="of NCCL")
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    if options.quick:
        options.trials = 2
    return options


def main():
    options = read_command_line()
    document = {"machine": machine(), "networks": {}} | {
        name: getattr(options, name) for name in ("hosts", "nics", "mbit", "bytes", "communicators",
                                                  "trials", "window", "settle", "seed")}
    with tempfile.TemporaryDirectory() as folder, \
            Lab(options.r2ccl, options.name, options.hosts, options.nics, options.mbit) as lab:
        for name, setup in setups(options, pathlib.Path(folder)).items():
            progress(f"NCCL over {name}")
            result = document["networks"][name] = measure(lab, setup, options)
            print(f"{name}: {result.get('operations', 0)} operations, median "
                  f"{result.get('median_ms', 0):.2f} ms" if "kinds" in result
                  else f"{name}: ended with {result['ended']}: {result['said']}")
            for kind, numbers in result.get("kinds", {}).items():
                print(f"  {kind:7} {numbers['trials']:4} trials, ms as median, p99, max:", *(
                    f"{name} " + ", ".join(f"{numbers[f'{name}_{statistic}_ms']:.1f}"
                                           for statistic in ("median", "p99", "max")) + ";"
                    for name in ("hit", "longest", "back")),
                      f"not back {numbers['not_back']}; told {numbers['named']}, wrong lines "
                      f"{numbers['wrong_lines']}")
    save(options.json, document)


if __name__ == "__main__":
    main()
