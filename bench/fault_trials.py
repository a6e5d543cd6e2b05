#!/usr/bin/env python3
"""How much longer the operation takes that a fault hits: back-to-back AllReduce of 1 MB on 4 hosts x
4 NICs x 250 Mbit/s, while NICs fail one after the other.

One job runs through all trials. A trial breaks a random NIC of a random host at a random moment,
repairs it after a while, and waits until the NIC carries data again. Kinds take turns in random
order, among them "none", which breaks nothing: what it shows is the machine's own noise.
The stall of a trial is what the fault cost beyond the NIC's bandwidth: the sum, over the
STALL_OPERATIONS that end after the fault's beginning, of what each took longer than the median of
the later operations with a NIC gone. That of "none", against the median with all NICs, is the
control.
The extra time of a trial is the longest operation that ran between the fault's beginning and the
repair (--window later, or when the job moves again), less the median of the operations that ran with
all NICs. So it contains the slower operations with three NICs and any other delay in the window.
A second, shorter job does the same with every element of every operation checked.
R2CCL_DAMPING=0 in both, or NICs that fail every few seconds would be held back, as they should be.
"""
import bisect
import calendar
import dataclasses
import itertools
import random
import sys
import time

from lab import (Failed, HOSTS, Lab, NICS, machine, median, parser, percentile, progress, save)

BYTES = 1 << 20
KINDS = ["none", "down", "pull", "hole", "hole-tx", "hole-rx"]
BOUND_MS = {"down": 50, "pull": 50, "hole": 200, "hole-tx": 200, "hole-rx": 200}
# A NIC that takes longer to come back is left for dead by the trial (and counted).
RETURN_MAX_S = 10
STALL_OPERATIONS = 10
# A job that stands still at the end of the window gets this long before the repair helps it.
STALL_MAX_S = 5
# After a repair, and before operations count again as run with all NICs.
SETTLED_S = 0.15
# How long a round of all kinds is guessed to take before the first one is over.
ROUND_GUESS_S = 7


@dataclasses.dataclass
class Trial:
    kind: str
    host: int
    nic: int
    begin: float  # not yet broken
    hit: float  # surely broken
    repair: float = 0.0  # still broken
    fixed: float = 0.0
    returned: float = None  # the NIC carries data again
    extra_ms: float = None
    stall_ms: float = None
    return_extra_ms: float = None  # the same, from the repair to the end of the trial
    verdicts: list = dataclasses.field(default_factory=list)

    @property
    def end(self):
        return (self.returned or self.fixed + RETURN_MAX_S) + SETTLED_S


class Trials:
    def __init__(self, lab, run, options, dice):
        self.lab, self.run, self.options, self.dice = lab, run, options, dice
        self.done = []

    def one(self, kind):
        host, nic = self.dice.randrange(HOSTS), self.dice.randrange(NICS)
        time.sleep(self.dice.uniform(0.03, 0.15))
        if kind == "none":
            begin = time.monotonic()
            self.lab.command("stat")  # as much work for the machine as breaking something
            hit = time.monotonic()
        else:
            begin, hit = self.lab.fault(host, nic, kind)
        time.sleep(self.options.window)
        self.run.wait_for_traffic(host, (nic + 1) % NICS, timeout=STALL_MAX_S)
        trial = Trial(kind, host, nic, begin, hit)
        self.done.append(trial)
        trial.repair = time.monotonic()
        if kind != "none":
            self.lab.fix(host, nic)
        trial.fixed = time.monotonic()
        if self.run.wait_for_traffic(host, nic, timeout=RETURN_MAX_S):
            trial.returned = time.monotonic()
        time.sleep(SETTLED_S)

    def until(self, deadline, rounds):
        """Rounds of all kinds until the deadline leaves no room for one more, or all are done."""
        longest = 0.0
        for number in itertools.count() if rounds is None else range(rounds):
            begin = time.monotonic()
            if not self.run.running() or begin + longest > deadline:
                return
            for kind in self.dice.sample(self.options.kinds, len(self.options.kinds)):
                if self.run.running():
                    self.one(kind)
            longest = max(longest, time.monotonic() - begin)
            progress(f"round {number + 1}{f' of {rounds}' if rounds else ''}, {longest:.1f} s at most each, "
                     f"{deadline - time.monotonic():.0f} s left")


def job(lab, options, seconds, rounds, check):
    """Runs one job with trials; returns them with what each operation and verdict says."""
    run = lab.start_bench("-b", BYTES, "-w", 20, "--duration", seconds, "-c", int(check),
                          environment={"R2CCL_DAMPING": "0"})
    dice = random.Random(options.seed + check)
    trials = Trials(lab, run, options, dice)
    error = None
    try:
        if run.wait_for_traffic(0, 0):
            time.sleep(0.5)
            trials.until(time.monotonic() + seconds - 1.5, rounds)
        run.wait(seconds + 120)
        verdicts = run.result["verdicts"]
    except Failed as failure:
        error, verdicts = str(failure), []
        progress(error)
    finally:
        lab.command("fix")
    baseline = evaluate(trials.done, run.operations)
    left_over = assign(trials.done, verdicts)
    return {"command": run.text, "error": error, "seconds": seconds, "trials": trials.done,
            "baseline_ms": baseline, "operations": len(run.operations),
            "unexpected_verdicts": left_over,
            "checked_elements": run.result["checked_elements"] if not error else None,
            "wrong_elements": run.result["wrong_elements"] if not error else None}


def evaluate(trials, operations):
    """Fills in the extra times; returns the median operation with all NICs, in ms."""
    broken = [(t.begin, t.end) for t in trials if t.kind != "none"]
    healthy = [o.seconds for o in operations
               if not any(o.start < end and o.end > begin for begin, end in broken)]
    if not healthy:
        return None
    baseline = median(healthy)

    def longest(begin, end):
        inside = [o.seconds for o in operations if o.start < end and o.end > begin]
        return (max(inside) - baseline) * 1e3 if inside else None

    for trial in trials:
        trial.extra_ms = longest(trial.begin, trial.repair)
        trial.return_extra_ms = longest(trial.repair, trial.end)
    add_stalls(trials, operations, baseline)
    return baseline * 1e3


def add_stalls(trials, operations, baseline):
    ends = [o.end for o in operations]
    first = [bisect.bisect_right(ends, t.begin) for t in trials]
    gone = [o.seconds for t, at in zip(trials, first) if t.kind != "none"
            for o in operations[at + STALL_OPERATIONS:bisect.bisect_right(ends, t.repair)]]
    steady = median(gone) or baseline
    for trial, at in zip(trials, first):
        usual = baseline if trial.kind == "none" else steady
        hit = operations[at:at + STALL_OPERATIONS]
        if len(hit) == STALL_OPERATIONS:
            trial.stall_ms = sum(max(0.0, o.seconds - usual) for o in hit) * 1e3


def assign(trials, verdicts):
    """Gives each verdict to the trial in whose time it was found; returns those of no trial."""
    wall_offset = time.time() - time.monotonic()
    left_over = []
    for verdict in verdicts:
        date, fraction = verdict["at"].rstrip("Z").split(".")
        at = calendar.timegm(time.strptime(date, "%Y-%m-%dT%H:%M:%S")) + float("0." + fraction)
        at -= wall_offset
        owner = next((t for t in trials if t.begin <= at <= t.end), None)
        if owner is None or (verdict["host"], verdict["nic"]) != (f"h{owner.host}",
                                                                  f"nic{owner.nic}"):
            left_over.append(dict(verdict, monotonic=round(at, 3),
                                  trial=owner.kind if owner else None))
        if owner is not None:
            owner.verdicts.append(verdict)
    return left_over


def names_culprit(trial):
    return any((v["host"], v["nic"], v["peer_host"]) == (f"h{trial.host}", f"nic{trial.nic}", "")
               for v in trial.verdicts)


def summarize(kind, trials):
    mine = [t for t in trials if t.kind == kind]
    extra = [t.extra_ms for t in mine if t.extra_ms is not None]
    stall = [t.stall_ms for t in mine if t.stall_ms is not None]
    bound = BOUND_MS.get(kind)
    returns = [t.returned - t.fixed for t in mine if t.returned]
    causes = {}
    for verdict in (v for t in mine for v in t.verdicts):
        causes[verdict["kind"]] = causes.get(verdict["kind"], 0) + 1
    return {"trials": len(mine), "median_ms": median(extra), "p90_ms": percentile(extra, 0.9),
            "max_ms": max(extra, default=None), "bound_ms": bound,
            "stall_ms": {"median": median(stall), "p99": percentile(stall, 0.99),
                         "max": max(stall, default=None)},
            "over_bound": sum(e > bound for e in extra) if bound else None,
            "not_returned": sum(t.returned is None for t in mine),
            "return_median_s": median(returns), "return_max_s": max(returns, default=None),
            "return_extra_max_ms": max((t.return_extra_ms for t in mine
                                        if t.return_extra_ms is not None), default=None),
            "named_culprit": sum(names_culprit(t) for t in mine) if bound else None,
            "verdict_kinds": causes}


def shown(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def print_table(document):
    timed = document["timed"]
    print(f"\n1 MB AllReduce, median with all NICs {shown(timed['baseline_ms'], 2)} ms; "
          f"stall and extra time of the hit operation in ms, and return in s")
    print(f"{'kind':8} {'trials':>6} {'stall':>8} {'p99':>8} "
          f"{'median':>8} {'p90':>8} {'max':>8} {'bound':>6} {'over':>5} "
          f"{'return':>7} {'r.max':>7} {'culprit named':>14}  verdicts")
    for kind, row in document["kinds"].items():
        stall = row["stall_ms"]
        print(f"{kind:8} {row['trials']:6} {shown(stall['median']):>8} {shown(stall['p99']):>8} "
              f"{shown(row['median_ms']):>8} {shown(row['p90_ms']):>8} "
              f"{shown(row['max_ms']):>8} {row['bound_ms'] or '-':>6} "
              f"{'-' if row['over_bound'] is None else row['over_bound']:>5} "
              f"{shown(row['return_median_s'], 2):>7} {shown(row['return_max_s'], 2):>7} "
              f"{'-' if row['named_culprit'] is None else row['named_culprit']:>14}  "
              + ", ".join(f"{count} {name}" for name, count in row["verdict_kinds"].items()))
    checked = document["checked"]
    if checked:
        print(f"checked job: {len(checked['trials'])} trials, {checked['operations']} operations, "
              f"{checked['checked_elements']} elements, {checked['wrong_elements']} wrong")
    for verdict in timed["unexpected_verdicts"]:
        print(f"a verdict that no trial explains: {verdict}")


def main():
    p = parser(__doc__)
    p.add_argument("--trials", type=int, default=30, help="trials of each kind (default 30)")
    p.add_argument("--checked-trials", type=int, default=3, help="of each kind, checked (default 3)")
    p.add_argument("--seconds", type=float,
                   help="run rounds of all kinds for this long, in place of --trials")
    p.add_argument("--checked-seconds", type=float, help="the same for the checked job")
    p.add_argument("--window", type=float, default=0.3, help="seconds from fault to repair")
    p.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    if options.quick:
        options.trials, options.checked_trials = 1, min(options.checked_trials, 1)
    seconds = options.seconds or 3 + options.trials * ROUND_GUESS_S
    checked_seconds = options.checked_seconds or 3 + options.checked_trials * ROUND_GUESS_S
    document = {"what": "fault_trials", "machine": machine(), "seed": options.seed, "checked": None}
    with Lab(options.r2ccl, options.name) as lab:
        timed = job(lab, options, seconds, None if options.seconds else options.trials, check=False)
        if options.checked_trials:
            rounds = None if options.checked_seconds else options.checked_trials
            document["checked"] = job(lab, options, checked_seconds, rounds, check=True)
    document["timed"] = timed
    document["kinds"] = {kind: summarize(kind, timed["trials"]) for kind in options.kinds}
    print_table(document)
    for part in (timed, document["checked"]):
        if part:
            part["trials"] = [dataclasses.asdict(trial) for trial in part["trials"]]
    save(options.json, document)
    failed = timed["error"] or (document["checked"] or {}).get("error")
    return 1 if failed or (document["checked"] or {}).get("wrong_elements") else 0


if __name__ == "__main__":
    sys.exit(main())
