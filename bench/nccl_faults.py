#!/usr/bin/env python3
"""Stock NCCL while NICs fail: back-to-back AllReduce of --bytes on hosts of the lab, each rank a host,
on the emulated GPUs of tests/nccl, over the plugin and over NCCL's own sockets.

A trial breaks a random NIC of a random host at a random moment, repairs it --window later, and lets
the job settle. Kinds take turns in random order, among them "none", which breaks nothing. Every
element of every operation is checked. The table has, less the median of the undisturbed operations:

    hit      the operation that ran when the fault came
    longest  the longest operation between the fault and its repair. One without a NIC takes longer
             for want of bandwidth alone: that is in it, too
    back     from the repair to the first of five operations with the usual median, 1.1 times it at
             most
    told     faults that some process names, and lines that name something else

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
# A line of the plugin's about a fault. It may come so many trials later (kFaultWait).
TOLD = re.compile(r"R2CCL WARN (?!.*works again)(.*\bnic\d.*)$", re.MULTILINE)
LATE = 2
START_S = 60  # for the job's start, which loads NCCL once for each rank


class Trial(NamedTuple):
    """Times are of the monotonic clock."""
    kind: str
    nic: str
    begin: float
    repair: float    # before it
    repaired: float  # after it
    end: float
    logged: list     # the sizes of the ranks' logs at the begin


class Run:
    """A job of one rank a host, while NICs fail."""

    def __init__(self, lab, setup, options):
        self.lab, self.options = lab, options
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nccl-faults-"))
        self.seconds = options.trials * len(options.kinds) * (options.window + options.settle + 0.5)
        arguments = ["--patience", 120, "--bytes", options.bytes, "--seconds", self.seconds,
                     "--communicators", options.communicators]
        # NCCL's bootstrap has the management network, the data the NICs.
        network = {"NCCL_SOCKET_IFNAME": "mgmt" if setup.plugin else "nic",
                   "R2CCL_SOCKET_IFNAME": "nic", "R2CCL_DAMPING": "0"}
        self.job = job.Job(setup, self.folder, "loop", options.hosts, arguments,
                           prefix=lambda rank: (lab.r2ccl, "lab", "--name", lab.name, "run",
                                                f"h{rank}"),
                           environment=lambda rank: network)

    def wait_for_begin(self):
        deadline = time.monotonic() + START_S
        while "the loop begins" not in self.job.output(0):
            if time.monotonic() > deadline or self.job.processes[0].poll() is not None:
                raise Failed(f"the job does not begin: {self.job.output(0)[-500:]}")
            time.sleep(0.05)

    def one(self, kind, rng):
        host, nic = rng.randrange(self.options.hosts), rng.randrange(self.options.nics)
        time.sleep(rng.uniform(0, 0.3))
        logged = self.logged()
        begin = time.monotonic()
        if kind != "none":
            begin, _ = self.lab.fault(host, nic, *KINDS[kind])
        time.sleep(self.options.window)
        repair = time.monotonic()
        if kind != "none":
            self.lab.fix(host, nic)
        repaired = time.monotonic()
        time.sleep(self.options.settle)
        return Trial(kind, f"h{host} nic{nic}", begin, repair, repaired,
                     time.monotonic(), logged)

    def trials(self, rng):
        self.wait_for_begin()
        time.sleep(0.5)
        done = []
        for number in range(self.options.trials):
            progress(f"round {number + 1} of {self.options.trials}")
            done += [self.one(kind, rng) for kind in rng.sample(self.options.kinds,
                                                                len(self.options.kinds))]
        return done

    def result(self, done):
        codes = self.job.wait(self.seconds + START_S + 60)
        outputs = [self.job.output(rank) for rank in range(self.options.hosts)]
        if codes != [0] * self.options.hosts:
            return {"ended": codes, "said": [text[-300:] for text in outputs]}
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
        return [self.job.nccl_log(rank).stat().st_size for rank in range(self.options.hosts)]

    def lines(self, done):
        """Returns the ranks' lines about faults, for each trial those until the next one."""
        logs = [self.job.nccl_log(rank).read_bytes() for rank in range(self.options.hosts)]
        begins = [trial.logged for trial in done] + [[len(log) for log in logs]]
        return [[text for log, begin, end in zip(logs, *both)
                 for text in TOLD.findall(log[begin:end].decode(errors="replace"))]
                for both in zip(begins, begins[1:])]

    @staticmethod
    def extra(kind, done, operations, base):
        values = {"hit": [], "longest": [], "back": []}
        for trial in (each for each in done if each.kind == kind):
            under = [(begin, seconds - base) for begin, seconds in operations
                     if begin + seconds >= trial.begin and begin <= trial.repair]
            values["hit"] += [seconds for _, seconds in under[:1]]
            values["longest"] += [max(seconds for _, seconds in under)] if under else []
            later = [each for each in operations if each[0] >= trial.repaired]
            runs = (later[i:i + 5] for i in range(len(later) - 4))
            back = next((run[0][0] for run in runs
                         if median([seconds for _, seconds in run]) <= 1.1 * base), trial.end)
            values["back"].append(back - trial.repaired)
        return {f"{name}_{statistic}_ms": value * 1e3 for name, all_of_it in values.items()
                for statistic, value in (("median", median(all_of_it)),
                                         ("p99", percentile(all_of_it, 0.99)),
                                         ("max", max(all_of_it)))}

    @staticmethod
    def told(kind, done, lines):
        """Counts the trials whose NIC a line names, and the lines that name another one."""
        named = wrong = 0
        for number, trial in enumerate(done):
            if trial.kind != kind:
                continue
            broken = [each.nic for each in done[max(number - LATE, 0):number + 1]
                      if each.kind != "none"]
            wrong += sum(not any(nic in text for nic in broken) for text in lines[number])
            named += kind != "none" and any(trial.nic in text for each in
                                            lines[number:number + LATE + 1] for text in each)
        return {"named": named, "wrong_lines": wrong}


def measure(lab, setup, options):
    rng = random.Random(options.seed)
    run = Run(lab, setup, options)
    try:
        return run.result(run.trials(rng))
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
    document = {"machine": machine(), "hosts": options.hosts, "nics": options.nics,
                "mbit": options.mbit, "bytes": options.bytes, "networks": {}}
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
                      f"told {numbers['named']}, wrong lines {numbers['wrong_lines']}")
    save(options.json, document)


if __name__ == "__main__":
    main()
