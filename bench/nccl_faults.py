#!/usr/bin/env python3
"""Stock NCCL while NICs fail: back-to-back AllReduce of --bytes on hosts of the lab, each rank a host,
on the emulated GPUs of tests/nccl, over the plugin and over NCCL's own sockets.

A trial breaks a random NIC of a random host at a random moment, repairs it --window later, and lets
the job settle. Kinds take turns in random order, among them "none", which breaks nothing. The extra
time of a trial is the longest operation between the fault's beginning and its repair, less the
median of the undisturbed operations. An operation without a NIC takes longer for want of bandwidth
alone: that is in it, too. Every element of every operation is checked.

NCCL's sockets wait for a dead NIC until it is back, so their extra time is the window or more.
"""
import pathlib
import random
import shutil
import sys
import tempfile
import time

from lab import Failed, Lab, machine, median, parser, percentile, progress, save, ROOT

sys.path.insert(0, str(ROOT / "tests" / "nccl"))
import job  # noqa: E402
import run as nccl_run  # noqa: E402
import wheel  # noqa: E402

KINDS = ("none", "pull", "hole")
START_S = 60  # for the job's start, which loads NCCL once for each rank


class Run:
    """A job of one rank a host, while NICs fail."""

    def __init__(self, lab, setup, options):
        self.lab, self.options = lab, options
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nccl-faults-"))
        self.seconds = options.trials * len(options.kinds) * (options.window + options.settle + 0.5)
        arguments = ["--patience", 120, "--bytes", options.bytes, "--seconds", self.seconds]
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
        begin = time.monotonic()
        if kind != "none":
            begin, _ = self.lab.fault(host, nic, kind)
        time.sleep(self.options.window)
        repair = time.monotonic()
        if kind != "none":
            self.lab.fix(host, nic)
        time.sleep(self.options.settle)
        return kind, begin, repair, time.monotonic()

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
                if not any(fault <= begin + seconds and begin <= end for _, fault, _, end in done)]
        base = median(calm) or median([seconds for _, seconds in operations])
        return {"operations": len(operations), "wrong_elements": 0, "median_ms": base * 1e3,
                "kinds": {kind: self.extra(kind, done, operations, base)
                          for kind in self.options.kinds}}

    def operations(self):
        """Returns (begin, seconds) of each operation: from the first rank's begin to the last one's
        end."""
        ranks = [[tuple(map(float, line.split())) for line in path.read_text().splitlines()]
                 for path in (self.folder / f"times{rank}" for rank in range(self.options.hosts))]
        return [(min(begin for begin, _ in each), max(begin + seconds for begin, seconds in each) -
                 min(begin for begin, _ in each)) for each in zip(*ranks)]

    def extra(self, kind, done, operations, base):
        longest = []
        for each, fault, repair, _ in done:
            hit = [seconds for begin, seconds in operations
                   if each == kind and begin + seconds >= fault and begin <= repair]
            longest += [max(hit) - base] if hit else []
        return {"trials": len(longest), **{f"{name}_ms": value * 1e3 for name, value in (
            ("median", median(longest)), ("p99", percentile(longest, 0.99)),
            ("max", max(longest)))}}


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
    p.add_argument("--trials", type=int, default=100, help="of each kind")
    p.add_argument("--kinds", nargs="+", default=list(KINDS))
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
                print(f"  {kind:5} {numbers['trials']:4} trials, extra ms: median "
                      f"{numbers['median_ms']:.1f}, p99 {numbers['p99_ms']:.1f}, max "
                      f"{numbers['max_ms']:.1f}")
    save(options.json, document)


if __name__ == "__main__":
    main()
