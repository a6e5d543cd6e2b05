#!/usr/bin/env python3
"""Verdicts: every fault that the lab can make, under AllReduce of 1 MB on 4 hosts x 4 NICs x 250
Mbit/s with every element checked. The script records whether the verdict names the fault at the
finest class that docs/blame.md permits, whether it names any other component, and the time from the
first path that went down until all ranks know.

One job runs through all trials, in random order, with R2CCL_DAMPING=0, or the library would hold
back NICs that fail every few seconds. A last job for each trial has a rank killed in it.
"""
import dataclasses
import os
import random
import re
import signal
import sys
import threading
import time

from flap import rank_processes
from lab import Failed, HOSTS, Lab, NICS, machine, median, parser, progress, save, stop, wall

BYTES = 1 << 20
HOLD_S = 1.2
RETURN_MAX_S = 10.0
SETTLE_S = 0.4
# The estimated time of a trial.
TRIAL_S = HOLD_S + SETTLE_S + 0.9
# A verdict in the log: HOST:PID:THREAD R2CCL WARN COMPONENT: KIND, N bytes replayed
# or COMPONENT: lossy, N % of the packets are lost; it stays in use. The line of a verdict that
# replaces another has more text at its end, so it does not match.
ANNOUNCED = re.compile(r"R2CCL WARN .*: (\w+, \d+ bytes replayed|lossy, .* it stays in use)$")
DEATH = re.compile(r"R2CCL WARN the process of rank (\d+) on (h\d+): ")


@dataclasses.dataclass
class Case:
    """A kind of fault: `make` chooses one and returns its lab commands, and the sets of verdicts
    each of which is right."""
    name: str
    make: object


def nic_case(kind, *right):
    def make(host, nic, _):
        whole = {f"nic {host} {nic}"}
        return [((host, nic), kind)], list(right) or [whole]
    return Case(" ".join(kind), make)


def or_nothing(kind):
    """A fault that permits no verdict, or one that names the NIC, towards one host or more."""
    def make(host, nic, _):
        right = [set(), {f"nic {host} {nic}"}]
        for other in (f"h{each}" for each in range(HOSTS)):
            right += [{f"pair {host} {nic} and {other} {nic}"}, {f"pair {other} {nic} and {host} {nic}"}]
        return [((host, nic), kind)], right
    return Case(" ".join(kind), make)


def two_nics(host, nic, other):
    return [((host, nic), ("pull",)), ((host, other), ("hole",))], \
        [{f"nic {host} {nic}", f"nic {host} {other}"}]


def two_rails(host, nic, other):
    neighbour = f"h{(int(host[1:]) + 1) % HOSTS}"
    return [((host, nic), ("hole",)), ((neighbour, other), ("down",))], \
        [{f"nic {host} {nic}", f"nic {neighbour} {other}"}]


CASES = [
    *(nic_case((kind,)) for kind in ("down", "pull", "hole", "hole-tx", "hole-rx")),
    nic_case(("slow", "10%"), set()), or_nothing(("lose", "1")), nic_case(("lose", "10")),
    Case("rail hole", lambda host, nic, _: ([((f"rail{nic[3:]}",), ("hole",))], [{f"rail {nic}"}])),
    Case("rail down", lambda host, nic, _: ([((f"rail{nic[3:]}",), ("down",))], [{f"rail {nic}"}])),
    Case("all NICs hole", lambda host, nic, _: (
        [((host, f"nic{each}"), ("hole",)) for each in range(NICS)], [{f"host {host}"}])),
    Case("pull and hole at one host", two_nics), Case("hole and down on two rails", two_rails),
    Case("mgmt hole", lambda host, nic, _: ([((host, "mgmt"), ("hole",))], [set()])),
    Case("stop 1.2 s", lambda host, nic, _: ([((host,), ("stop",))], [set()])),
]


def words(verdict):
    """Returns the compared part of a verdict."""
    if verdict["scope"] == "rail":
        return f"rail {verdict['nic']}"
    text = f"{verdict['scope']} {verdict['host']} {verdict['nic']}".strip()
    return text + (f" and {verdict['peer_host']} {verdict['peer_nic']}" if verdict["peer_host"] else "")


class Reader(threading.Thread):
    """Records the time of each line of a program's output."""

    def __init__(self, stream):
        super().__init__(daemon=True)
        self.stream, self.lines = stream, []
        self.start()

    def run(self):
        for line in self.stream:
            self.lines.append((time.time(), line.rstrip()))

    def announced(self):
        """Returns the time when the last rank reported the n-th verdict."""
        ranks = {}
        for when, line in self.lines:
            if ANNOUNCED.search(line):
                ranks.setdefault(line.split(":")[0], []).append(when)
        counts = {len(times) for times in ranks.values()}
        return [max(times) for times in zip(*ranks.values())] if len(counts) == 1 else []


class Trials:
    def __init__(self, lab, run, processes, rng):
        self.lab, self.run, self.processes, self.rng = lab, run, processes, rng
        self.done = []

    def change(self, faults, begin):
        for target, kind in faults:
            if kind == ("stop",):
                os.kill(self.processes[target[0]], signal.SIGSTOP if begin else signal.SIGCONT)
            elif begin:
                self.lab.command("fault", *target, *kind)
            else:
                self.lab.command("fix", *target)

    def one(self, case):
        host, nic, other = f"h{self.rng.randrange(HOSTS)}", *(
            f"nic{each}" for each in self.rng.sample(range(NICS), 2))
        faults, right = case.make(host, nic, other)
        trial = {"kind": case.name, "host": host, "nic": nic, "right": [sorted(r) for r in right],
                 "begin": time.time()}
        self.change(faults, True)
        time.sleep(HOLD_S)
        self.change(faults, False)
        for each in range(HOSTS):
            for number in range(NICS):
                self.run.wait_for_traffic(each, number, timeout=RETURN_MAX_S)
        time.sleep(SETTLE_S)
        trial["end"] = time.time()
        self.done.append(trial)


def check_verdicts(trials, verdicts, announced):
    """Adds each trial's verdicts and their times."""
    for trial in trials:
        said = [(words(v), wall(v), when) for v, when in zip(verdicts, announced)
                if trial["begin"] <= wall(v) < trial["end"]]
        trial["said"] = sorted(word for word, _, _ in said)
        trial["is_right"] = trial["said"] in trial["right"]
        trial["verdict_ms"] = [1e3 * (when - at) for _, at, when in said]


def kill_one(lab, rng):
    """Measures the time from a kill until the others report that the process died."""
    run = lab.start_bench("-b", BYTES, "--duration", 20, "-c", 0, environment={"R2CCL_DEBUG": "WARN"})
    reader = Reader(run.process.stdout)
    host = rng.randrange(HOSTS)
    try:
        if not run.wait_for_traffic(0, 0):
            raise Failed("no traffic")
        processes = rank_processes(lab)
        begin = time.time()
        os.kill(processes[f"h{host}"], signal.SIGKILL)
        run.process.wait(20)
    finally:
        stop(run.process)
    reader.join(5)
    told = [(when, match) for when, line in reader.lines if (match := DEATH.search(line))]
    right = bool(told) and all(match.group(2) == f"h{host}" for _, match in told)
    return {"kind": "rank killed", "host": f"h{host}", "said": sorted({m.group(0) for _, m in told}),
            "is_right": right, "verdict_ms": [1e3 * (told[0][0] - begin)] if told else []}


def run_all(lab, options, rng, document):
    seconds = 5 + options.trials * len(CASES) * TRIAL_S
    run = lab.start_bench("-b", BYTES, "-w", 5, "--duration", seconds, "-c", 1,
                          environment={"R2CCL_DAMPING": "0", "R2CCL_DEBUG": "WARN"})
    reader = Reader(run.process.stdout)
    trials = None
    try:
        if not run.wait_for_traffic(0, 0):
            raise Failed("no traffic")
        time.sleep(0.5)
        trials = Trials(lab, run, rank_processes(lab), rng)
        for number in range(options.trials):
            progress(f"round {number + 1} of {options.trials}")
            for case in rng.sample(CASES, len(CASES)):
                if run.running():
                    trials.one(case)
        run.process.wait(seconds + 60)
        reader.join(5)
    finally:
        lab.command("fix")
        stop(run.process)
    result = run.load()
    announced = reader.announced()
    if len(announced) != len(result["verdicts"]):
        raise Failed(f"{len(announced)} verdicts in the log, {len(result['verdicts'])} in the result")
    check_verdicts(trials.done, result["verdicts"], announced)
    document.update({name: result[name] for name in ("operations", "checked_elements",
                                                     "wrong_elements")})
    return trials.done


def summarize(trials):
    times = [t for trial in trials for t in trial["verdict_ms"]]
    return {"trials": len(trials), "right": sum(trial["is_right"] for trial in trials),
            "verdict_ms": {"median": median(times), "max": max(times, default=None)},
            "wrong": [trial for trial in trials if not trial["is_right"]]}


def main():
    p = parser(__doc__)
    p.add_argument("--trials", type=int, default=20, help="of each kind (default 20)")
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    if options.quick:
        options.trials = 1
    rng = random.Random(options.seed)
    document = {"what": "verdicts", "machine": machine(), "kinds": {}, "error": None}
    trials = []
    with Lab(options.r2ccl, options.name) as lab:
        try:
            trials = run_all(lab, options, rng, document)
            trials += [kill_one(lab, rng) for _ in range(max(options.trials // 4, 1))]
        except Failed as error:
            document["error"] = str(error)
    for name in [case.name for case in CASES] + ["rank killed"]:
        document["kinds"][name] = summarize([t for t in trials if t["kind"] == name])
    for name, row in document["kinds"].items():
        print(f"{name}: {row['right']} of {row['trials']} right, {row['verdict_ms']}")
        for trial in row["wrong"]:
            print(f"  {trial}")
    save(options.json, document)
    right = all(row["right"] == row["trials"] for row in document["kinds"].values())
    return 0 if right and not document["error"] and document.get("wrong_elements") == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
