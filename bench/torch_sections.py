"""The measurements of bench/torch_faults.py. Each section returns a part of its document."""
import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

from lab import Failed, Lab, ROOT, percentile, progress
from torch_job import Blocks, EXAMPLES, TorchJob, compared, fault, fix, interval, say

TEN_FAULTS = (("down",), ("pull",), ("hole",), ("hole-tx",), ("hole-rx",), ("slow", "25"),
              ("slow", "10%"), ("lose", "1"), ("pull",), ("hole",))
FIVE_FAULTS = (("pull",), ("hole",), ("slow", "25"), ("lose", "1"), ("down",))
# A small model: most of the time of a step goes into communication.
SMALL = ("--batch", 2, "--width", 64)
MEDIUM = ("--width", 128)


class Bench:
    """The options of a run of the bench, and its errors."""

    def __init__(self, options):
        self.options = options
        self.labs = 0

    @contextlib.contextmanager
    def lab(self, hosts, nics, mbit=250):
        self.labs += 1
        with Lab(self.options.r2ccl, self.options.name, hosts, nics, mbit) as lab:
            yield lab

    def count(self, full, quick):
        return quick if self.options.quick else full

    def job(self, lab, script, *options, **more):
        return TorchJob(lab, self.options.python, script, *options, **more)


def schedule(kinds, steps, lab, seed=1, share=0.6):
    """Returns the changes of a run in which each fault hits another NIC, one after the other, and
    is fixed before the next."""
    rng = random.Random(seed)
    victims = rng.sample([(host, nic) for host in range(lab.hosts) for nic in range(lab.nics)],
                         min(len(kinds), lab.hosts * lab.nics))
    gap = steps / (len(kinds) + 1)
    changes = []
    for number, kind in enumerate(kinds):
        start = round((number + 0.5) * gap)
        host, nic = victims[number % len(victims)]
        changes += [fault(start, host, nic, *kind), fix(round(start + share * gap), host, nic)]
    return changes


def plain(job):
    """Returns a job's losses, step times and faults."""
    return {"backend": job.backend, "losses": job.losses,
            "seconds": [record["seconds"] for record in job.steps],
            "ends": [record["end"] for record in job.steps], "faults": job.applied,
            "weights": job.weights()}


def digits(bench):
    """A classifier on two hosts of two NICs while a cable is out, against the same without a fault,
    in reproducible mode."""
    steps = bench.count(300, 60)
    with bench.lab(2, 2) as lab:
        changes = [fault(steps // 4, 1, 0, "pull"), fix(steps // 2, 1, 0)]
        clean, hit = (bench.job(lab, "train_digits.py", "--steps", steps, changes=of_run,
                                environment={"R2CCL_REPRODUCIBLE": "1"}, name="digits").run(120)
                      for of_run in ((), changes))
        say(hit, "digits with a pulled cable")
        return {"applied": hit.applied, **compared(clean, hit)}


def bits(bench):
    """Ten faults of all kinds against no fault: in reproducible mode, and in the default mode
    beside runs that add the ranks' gradients in another order."""
    steps = bench.count(500, 60)
    orders = bench.count(["1,0,2,3", "3,2,1,0", "2,0,3,1", "1,3,0,2"], ["3,2,1,0"])
    document = {"steps": steps}
    with bench.lab(4, 4) as lab:
        def train(changes=(), reproducible="0", *more):
            job = bench.job(lab, "train_text.py", *SMALL, "--steps", steps, *more, changes=changes,
                            environment={"R2CCL_REPRODUCIBLE": reproducible}, name="bits").run(600)
            say(job, f"bits: reproducible {reproducible}, {len(job.applied)} changes, {more}")
            return job

        changes = schedule(TEN_FAULTS, steps, lab)
        document["faults"] = len(TEN_FAULTS)
        for name, mode in (("reproducible", "1"), ("default", "0")):
            clean, hit = train((), mode), train(changes, mode)
            document[name] = {**compared(clean, hit), "first_fault_step": hit.applied[0]["step"],
                              "first_view_step": hit.view_step, "applied": len(hit.applied),
                              "median_ms": [1000 * statistics.median(
                                  record["seconds"] for record in job.steps) for job in (clean, hit)],
                              "worst_ms": [1000 * max(record["seconds"] for record in job.steps[2:])
                                           for job in (clean, hit)]}
        document["other_orders"] = [document["default"]["final_loss"][0]]
        document["other_orders"] += [train((), "0", "--shares", order).final_loss()
                                     for order in orders]
    return document


def libraries(bench):
    """FSDP2, the Trainer of transformers and DeepSpeed's ZeRO through three faults, against the
    same without faults, on two hosts."""
    steps = bench.count(60, 30)
    document = {"steps": steps}
    with bench.lab(2, 4) as lab:
        changes = schedule((("pull",), ("hole",), ("slow", "10%")), steps, lab)
        for name, script, *options in (("FSDP2", "train_text.py", "--fsdp", *SMALL),
                                       ("Trainer", "trainer_example.py"),
                                       ("DeepSpeed ZeRO-1", "deepspeed_example.py", "--stage", 1),
                                       ("DeepSpeed ZeRO-2", "deepspeed_example.py", "--stage", 2)):
            clean, hit = (bench.job(lab, script, *options, "--steps", steps, changes=of_run,
                                    name="library").run(200) for of_run in ((), changes))
            say(hit, name)
            document[name] = {**compared(clean, hit), "applied": len(hit.applied)}
    return document


def picture(bench):
    """A run through five faults, the same without faults, and the same under Gloo."""
    steps = bench.count(300, 60)
    with bench.lab(4, 4) as lab:
        changes = schedule(FIVE_FAULTS, steps, lab, seed=3)
        # Gloo uses nic0, so its first fault hits that NIC.
        of_gloo = [fault(changes[0][0], changes[0][1][1][1:], 0, "pull")]
        runs = {}
        for name, backend, faults, stall in (("clean", "r2ccl", (), None),
                                             ("faults", "r2ccl", changes, None),
                                             ("gloo", "gloo", of_gloo, 20)):
            job = bench.job(lab, "train_text.py", *SMALL, "--steps", steps, "--timeout", 15,
                            backend=backend, changes=faults, name="picture",
                            environment={"R2CCL_REPRODUCIBLE": "1"}).run(300, stall)
            say(job, f"picture: {name}")
            runs[name] = {**plain(job), "stalled": job.stalled, "status": job.process.returncode,
                          "said": last_error(job.output)}
    return runs


def last_error(output):
    lines = [line.strip() for line in output.splitlines() if "Error" in line]
    return lines[-1][:200] if lines else ""


def median_ms(job):
    return 1000 * statistics.median(record["seconds"] for record in job.steps[10:])


def median_alone(bench, lab, *options):
    """Returns the time of a step where each host trains for itself, at the same time. All jobs
    have rank 0 alone, so the first host's alone is recorded."""
    alone = ('[ "$RANK" = 0 ] || set -- "$@" --record /dev/null; '
             'RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost exec "$0" "$@"')
    job = bench.job(lab, "train_text.py", *options, "--steps", bench.count(40, 20), name="alone",
                    launcher=["sh", "-c", alone, bench.options.python]).run(300)
    say(job, "without communication")
    return median_ms(job)


def batch_for_a_fifth(bench, lab, *options, batch=8):
    """Returns the batch with which communication takes about a fifth of a step here. The time of
    the rest grows with the batch."""
    options = (*options, "--batch", batch)
    job = bench.job(lab, "train_text.py", *options, "--steps", 40, name="batch").run(300)
    alone = median_alone(bench, lab, *options)
    found = round(4 * batch * (median_ms(job) - alone) / alone)
    progress(f"a batch of {found}, for communication of a fifth")
    return min(max(found, 1), 64)


def cost(bench, nics, pairs, length, *options):
    """The cost of one lost NIC on two hosts, in blocks that take turns within one job, and the time
    of a step without communication: two jobs of one rank each."""
    with bench.lab(2, nics) as lab:
        options = (*options, "--batch", batch_for_a_fifth(bench, lab, *options))
        blocks = Blocks(lab, pairs, length, skipped=length // 4)
        job = bench.job(lab, "train_text.py", *options, "--steps", blocks.steps, name="cost",
                        changes=blocks.changes).run(900)
        say(job, f"cost of one NIC of {nics}")
        summary = blocks.summary(job)
        summary["alone_ms"] = median_alone(bench, lab, *options)
    whole = summary["median_ms"]["whole"]
    summary["communication_percent"] = 100 * (1 - summary["alone_ms"] / whole)
    # The time of communication grows by 1 / (nics - 1); without overlap so much of the step.
    summary["explained_percent"] = summary["communication_percent"] / (nics - 1)
    return {"nics": nics, **summary}


def overhead(bench):
    """The medians of bench/torch_overhead.py, in microseconds."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "overhead.json"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1",
                       "R2CCL_LIBRARY": str(pathlib.Path(bench.options.r2ccl).parent
                                            / "libr2ccl.so")}
        done = subprocess.run(
            [bench.options.python, "-B", ROOT / "bench/torch_overhead.py", "--json", path, "--calls",
             str(bench.count(10_000, 1000))],
            env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(done.stderr[-1500:])
        medians = json.loads(path.read_text())
    progress(f"overhead: {medians}")
    return medians


def serving(bench):
    """Latencies of requests with one NIC of four lost, and while it is lost and returns."""
    pairs, length = bench.count((20, 50), (2, 12))
    with bench.lab(2, 4) as lab:
        blocks = Blocks(lab, pairs, length, skipped=length // 4)
        job = bench.job(lab, "serve.py", "--steps", blocks.steps, name="serve",
                        changes=blocks.changes).run(900)
        say(job, "serving")
        answers = [record["answer"] for record in job.steps]
        clean = bench.job(lab, "serve.py", "--steps", blocks.steps // 2, name="serve").run(900)
        say(clean, "serving without faults")
    summary = blocks.summary(job)
    times = {"faults": [1000 * record["seconds"] for record in job.steps[blocks.first:]],
             "clean": [1000 * record["seconds"] for record in clean.steps[blocks.first:]]}
    middle = statistics.median(times["clean"])
    return {**summary, "requests": blocks.steps,
            "same_answers": answers[:len(clean.steps)] == [record["answer"]
                                                           for record in clean.steps],
            "latency_ms": {name: {"p50": statistics.median(values), "p99": percentile(values, 0.99),
                                  "worst": max(values)} for name, values in times.items()},
            "worst_requests": worst_requests(job),
            "worst_extra_ms": max(times["faults"]) - middle,
            "worst_extra_clean_ms": max(times["clean"]) - middle}


def worst_requests(job, count=5):
    """Returns the slowest requests, each with the last change before its end and the requests since
    then."""
    slowest = sorted(job.steps[10:], key=lambda record: -record["seconds"])[:count]
    rows = []
    for record in slowest:
        before = [change for change in job.applied if change["time"] <= record["end"]]
        last = before[-1] if before else None
        rows.append({"ms": 1000 * record["seconds"], "step": record["step"],
                     "change": " ".join(last["words"]) if last else "none",
                     "requests_since": record["step"] - last["step"] if last else None})
    return rows


def against_gloo(bench, nics, *options):
    """Step times of r2ccl and Gloo without faults, in runs that take turns. Gloo has one NIC, and
    where there are more also all of them (it takes another NIC for each operation)."""
    steps, rounds = bench.count((60, 8), (12, 2))
    kinds = {"r2ccl": ("r2ccl", {}), "gloo": ("gloo", {})}
    if nics > 1:
        names = ",".join(f"nic{nic}" for nic in range(nics))
        kinds["gloo, all NICs"] = ("gloo", {"GLOO_SOCKET_IFNAME": names})
    medians = {name: [] for name in [*kinds, "alone"]}
    with bench.lab(2, nics) as lab:
        for number in range(rounds):
            for name, (backend, environment) in kinds.items():
                job = bench.job(lab, "train_text.py", *options, "--steps", steps, name="peer",
                                backend=backend, environment=environment).run(300)
                say(job, f"{nics} NICs, round {number + 1}: {name}")
                medians[name].append(median_ms(job))
            medians["alone"].append(median_alone(bench, lab, *options))
    ratios = [100 * (a / b - 1) for a, b in zip(medians["r2ccl"], medians["gloo"])]
    alone = statistics.median(medians["alone"])
    wire = {name: statistics.median(medians[name]) - alone for name in kinds}
    return {"nics": nics, "steps": steps, "rounds": rounds, "median_ms": medians,
            "r2ccl_over_gloo_percent": interval(ratios), "communication_ms": wire,
            "gloo_over_r2ccl": {name: wire[name] / wire["r2ccl"] for name in kinds
                                if name != "r2ccl" and wire["r2ccl"] > 0}}


def restart(bench):
    """The same permanent fault with r2ccl, and with Gloo under torchrun, which restarts the job
    from a checkpoint."""
    steps, at = bench.count((200, 130), (120, 65))
    common = ("--steps", steps, *SMALL)
    document = {"steps": steps, "fault_step": at, "checkpoint_every": 50}
    with bench.lab(2, 4) as lab:
        changes = [fault(at, 1, 0, "pull")]
        job = bench.job(lab, "train_text.py", *common, changes=changes, name="restart").run(300)
        say(job, "restart: r2ccl")
        document["r2ccl"] = recovery(job)
        # The restarted job gets a NIC that works, as if a person had named it at once.
        nic = lab.directory / "nic"
        nic.write_text("nic0")
        worker = f"GLOO_SOCKET_IFNAME=$(cat {nic}) exec {bench.options.python} \"$@\""
        launcher = [bench.options.python, "-m", "torch.distributed.run", "--nnodes", 2,
                    "--nproc-per-node", 1, "--rdzv-backend", "c10d", "--rdzv-endpoint", "h0:29500",
                    "--rdzv-id", "restart", "--max-restarts", 3, "--no-python", "sh", "-c", worker,
                    "worker"]
        job = bench.job(lab, "train_text.py", *common, "--timeout", 10, "--checkpoint",
                        lab.directory / "checkpoint.%r", backend="gloo", changes=changes,
                        launcher=launcher, name="restart")
        job.after_change = lambda: nic.write_text("nic1")
        job.run(400)
        say(job, "restart: Gloo")
        document["gloo"] = recovery(job)
    return document


def recovery(job):
    """Returns what the fault cost: the time from the step before it to the next new one, less a
    step, and the steps that were done twice."""
    at = job.applied[0]["time"]
    before = [record for record in job.steps if record["end"] <= at]
    last = max(record["step"] for record in before)
    step_s = statistics.median(record["seconds"] for record in before[10:])
    new = next((record for record in job.steps if record["step"] > last + 1), None)
    if new is None:
        return {"finished": False}
    # The step under way when the NIC failed may still have ended, so the new step is the second.
    start = next(record["end"] for record in job.steps if record["step"] == last)
    return {"finished": len({record["step"] for record in job.steps}) == last_step(job) + 1,
            "lost_s": new["end"] - start - 2 * step_s, "median_ms": 1000 * step_s,
            "steps_redone": len(job.steps) - len({record["step"] for record in job.steps}),
            "applied": len(job.applied)}


def last_step(job):
    return max(record["step"] for record in job.steps)
