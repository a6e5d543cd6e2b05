#!/usr/bin/env python3
"""Measures what a training loses when a process dies and another one takes its place.

    python3 bench/torch_rejoin.py --python build/torch-venv/bin/python

Beside r2ccl (examples/pytorch/elastic.py) runs what torch has: torchrun starts all processes of
train_text.py anew, which read a checkpoint. Both compute the same model on this host with r2ccl's
collectives, one after the other, --runs times. Prints a table of Markdown: medians, and the largest value.
"""
import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples/pytorch"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python3", help="one that has torch")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--dies-at", type=int, default=50)
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps, for torchrun")
    return parser.parse_args()


def rows(path):
    """Returns the steps in a record; the last line may be cut off."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return [row for row in found if "step" in row]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def of_r2ccl(args, folder):
    """Returns (seconds without a new step after the death, after the join, steps done again)."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    subprocess.run(
        [args.python, "-B", EXAMPLES / "elastic.py", "--processes", str(args.processes), "--steps",
         str(args.steps), "--width", str(args.width), "--dies-at", str(args.dies_at), "--listen",
         f"127.0.0.1:{free_port()}", "--record", f"{folder}/%r"],
        env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records = {int(path.name.rsplit("-", 1)[1]): rows(path) for path in folder.iterdir()}
    joined = records[args.processes][0]["step"]
    pauses = {step: max(row["seconds"] for worker in range(1, args.processes)
                        for row in records[worker] if row["step"] == step)
              for step in (args.dies_at, joined)}
    again = max(len(records[worker]) - args.steps for worker in range(1, args.processes))
    return pauses[args.dies_at], pauses[joined], again


def workers_of(launcher):
    """Returns the processes that torchrun has started."""
    return [int(each) for each in pathlib.Path(
        f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()]


def of_torchrun(args, folder):
    """As of_r2ccl. All processes start anew, so the death and the join are one pause."""
    launcher = subprocess.Popen(
        [args.python, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
         str(args.processes), "--max-restarts", "3", EXAMPLES / "train_text.py", "--steps", str(args.steps), "--width", str(args.width), "--checkpoint",
         f"{folder}/state.%r", "--checkpoint-every", str(args.checkpoint_every), "--record",
         f"{folder}/%r"], env=dict(os.environ, PYTHONPATH=str(ROOT / "python")),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    last = folder / str(args.processes - 1)
    while not last.exists() or len(rows(last)) < args.dies_at:
        time.sleep(0.01)
    os.kill(workers_of(launcher)[0], signal.SIGKILL)
    if launcher.wait() != 0:
        raise SystemExit(f"torchrun ended with {launcher.returncode}")
    ends, again, new = [], 0, -1
    for row in rows(last):
        again += row["step"] <= new
        if row["step"] > new:
            new = row["step"]
            ends.append(row["end"])
    pause = max(later - earlier for earlier, later in zip(ends, ends[1:]))
    return pause, 0.0, again


def main():
    args = arguments()
    print(f"{args.processes} processes, {args.steps} steps, a checkpoint for torchrun every "
          f"{args.checkpoint_every} steps\n\n"
          "| | no step after the death, s | after the join, s | steps done again |\n"
          "|---|---|---|---|", flush=True)
    for name, run in (("torchrun, checkpoint", of_torchrun), ("r2ccl.reconfigure", of_r2ccl)):
        results = []
        for _ in range(args.runs):
            with tempfile.TemporaryDirectory() as folder:
                results.append(run(args, pathlib.Path(folder)))
        cells = [f"{statistics.median(column):.2f} ({max(column):.2f})"
                 for column in zip(*[result[:2] for result in results])]
        print(f"| {name} | {' | '.join(cells)} | {max(result[2] for result in results)} |",
              flush=True)


if __name__ == "__main__":
    main()
