"""One run of an example of examples/pytorch in a lab, with faults at given steps."""
import json
import math
import pathlib
import statistics
import time

from lab import Failed, ROOT, progress, stop

EXAMPLES = ROOT / "examples/pytorch"
START_S = 90  # for the interpreters of all hosts to load torch on a machine that they share
T_975 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26,
         10: 2.23, 12: 2.18, 15: 2.13, 20: 2.09, 30: 2.04}


def fault(step, host, nic, *kind):
    return step, ("fault", f"h{host}", f"nic{nic}", *kind)


def fix(step, host, nic):
    return step, ("fix", f"h{host}", f"nic{nic}")


class TorchJob:
    """A job with a rank on each host. `changes`: [(step, words of `r2ccl lab`)], which are carried
    out when rank 0 has ended that step."""

    def __init__(self, lab, python, script, *options, backend="r2ccl", changes=(), environment=None,
                 launcher=(), name="job"):
        self.lab, self.backend = lab, backend
        self.directory = lab.directory / f"{name}-{time.monotonic_ns()}"
        self.directory.mkdir()
        self.changes = sorted(changes, key=lambda change: change[0])
        self.applied = []  # {"step", "time", "words"}
        self.view_step = None  # the step that ended before rank 0 logged its first view
        self.after_change = None  # called after each change
        self.records = []  # of rank 0
        self.read_bytes = 0  # of their file
        self.last_step = -1
        command = [*(launcher or [python]), EXAMPLES / script, "--backend", backend, "--record",
                   self.directory / "record.%r", *options]
        self.started = time.monotonic()
        self.process = lab.start(lab.on_all(*command), {**self.settings(), **(environment or {})})

    def settings(self):
        """Returns the environment of the ranks. Gloo has one NIC unless told otherwise."""
        library = pathlib.Path(self.lab.r2ccl).parent / "libr2ccl.so"
        return {"PYTHONPATH": str(ROOT / "python"), "R2CCL_LIBRARY": str(library),
                "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "R2CCL_DEBUG": "INFO",
                "R2CCL_DEBUG_FILE": str(self.directory / "debug.%h"), "GLOO_SOCKET_IFNAME": "nic0"}

    def record_of(self, rank):
        path = self.directory / f"record.{rank}"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def read_more(self):
        """Adds the records of rank 0 since the last time."""
        path = self.directory / "record.0"
        if not path.exists():
            return
        with path.open("rb") as record:
            record.seek(self.read_bytes)
            lines = record.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                return
            self.read_bytes += len(line)
            self.records.append(json.loads(line))
            self.last_step = max(self.last_step, self.records[-1].get("step", -1))

    def look(self):
        """Reads rank 0's record, and carries out the changes that are due."""
        self.read_more()
        step = self.last_step
        debug = self.directory / "debug.h0"
        if self.view_step is None and debug.exists() and " view " in debug.read_text():
            self.view_step = step
        while self.changes and self.changes[0][0] <= step:
            words = self.changes.pop(0)[1]
            self.lab.command(*words)
            self.applied.append({"step": step, "time": time.monotonic(), "words": words})
            if self.after_change:
                self.after_change()

    def run(self, timeout, stall=None):
        """Waits for the end and returns self. `stall`: the job counts as dead after so many seconds
        without a step, once it has made one. Raises Failed if it fails, unless `stall` is given."""
        deadline = time.monotonic() + timeout + START_S
        self.stalled = False
        seen, moved = 0, time.monotonic()
        while self.process.poll() is None:
            time.sleep(0.02)
            self.look()
            now = time.monotonic()
            if len(self.records) > seen:
                seen, moved = len(self.records), now
            self.stalled = bool(stall and seen and now - moved > stall)
            if self.stalled or now > deadline:
                stop(self.process)
        self.output = self.process.stdout.read()
        self.look()
        self.lab.command("fix")
        if self.process.returncode != 0 and not stall:
            raise Failed(f"{self.directory.name}, {self.backend}: status {self.process.returncode}: "
                         f"{self.errors() or self.output[-1500:]}")
        return self

    def errors(self):
        """Returns the lines of the output that name an error, of all ranks."""
        lines = [line.strip() for line in self.output.splitlines() if "Error" in line]
        return "\n".join(dict.fromkeys(lines))[:3000]

    @property
    def steps(self):
        return [record for record in self.records if "step" in record]

    @property
    def losses(self):
        return [record.get("loss") for record in self.steps]

    def final_loss(self):
        """Returns the last loss, the mean over all ranks: each has the loss of its own share."""
        return statistics.fmean(next(record["loss"] for record in reversed(self.record_of(rank))
                                     if "loss" in record) for rank in range(self.lab.hosts))

    def weights(self):
        """Returns the hash of the weights of each rank, None for a rank that did not end."""
        return [next((record["weights"] for record in self.record_of(rank) if "weights" in record),
                     None) for rank in range(self.lab.hosts)]


def compared(clean, hit):
    """Returns how the two runs agree: on losses of rank 0, and on the weights of all ranks."""
    different = [step for step, (a, b) in enumerate(zip(clean.losses, hit.losses)) if a != b]
    return {"steps": [len(clean.steps), len(hit.steps)],
            "first_different_step": different[0] if different else None,
            "different_losses": len(different),
            "weights": [clean.weights(), hit.weights()],
            "equal": not different and len(clean.steps) == len(hit.steps)
            and len(set(clean.weights() + hit.weights())) == 1 and None not in clean.weights(),
            "final_loss": [clean.final_loss(), hit.final_loss()]}


def interval(values):
    """Returns the mean and its 95 % interval, by Student's t."""
    if len(values) < 2:
        return None
    freedom = len(values) - 1
    t = next((T_975[n] for n in sorted(T_975, reverse=True) if n <= freedom), 1.96)
    half = t * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return {"mean": mean, "low": mean - half, "high": mean + half, "blocks": len(values)}


class Blocks:
    """Steps in blocks that take turns: whole, one NIC lost, whole, ... Each time another NIC is
    lost, so that none flaps. The first steps of a block, in which the fault is found or the NIC
    returns, do not count."""

    def __init__(self, lab, pairs, length, skipped):
        self.length, self.skipped, self.pairs = length, skipped, pairs
        self.first = 2 * length  # the start of the job
        self.changes = []
        for pair in range(pairs):
            victim = (pair % lab.hosts, pair // lab.hosts % lab.nics)
            lost = self.first + (2 * pair + 1) * length
            self.changes += [fault(lost - 1, *victim, "pull"), fix(lost + length - 1, *victim)]

    @property
    def steps(self):
        return self.first + (2 * self.pairs + 1) * self.length

    def block(self, records, number):
        start = self.first + number * self.length
        return [record["seconds"] for record in records
                if start + self.skipped <= record["step"] < start + self.length]

    def costs(self, records, summary):
        """Returns, for each block with a lost NIC, its excess over the two blocks beside it."""
        values = [summary(self.block(records, number)) for number in range(2 * self.pairs + 1)]
        return [100 * (2 * values[i] / (values[i - 1] + values[i + 1]) - 1)
                for i in range(1, len(values), 2)]

    def summary(self, job):
        records = job.steps
        of_kind = {kind: [s for number in range(first, 2 * self.pairs + 1, 2)
                          for s in self.block(records, number)]
                   for kind, first in (("whole", 0), ("lost", 1))}
        return {"steps": {kind: len(values) for kind, values in of_kind.items()},
                "median_ms": {kind: 1000 * statistics.median(values)
                              for kind, values in of_kind.items()},
                "mean_ms": {kind: 1000 * statistics.fmean(values)
                            for kind, values in of_kind.items()},
                "cost_percent": interval(self.costs(records, statistics.fmean)),
                "cost_of_median_percent": interval(self.costs(records, statistics.median)),
                "worst_ms": {kind: 1000 * max(values) for kind, values in of_kind.items()}}


def say(job, words):
    times = [record["seconds"] for record in job.steps[5:]]
    middle = f"{1000 * statistics.median(times):.1f} ms" if times else "no step"
    progress(f"{words}: {len(job.steps)} steps, median {middle}, "
             f"{time.monotonic() - job.started:.0f} s")
