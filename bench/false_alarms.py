#!/usr/bin/env python3
"""False alarms: an hour of mixed collectives, every element checked, without any fault, on 4 hosts
x 4 NICs x 250 Mbit/s, while a compiler keeps every core of the machine busy. The target is no
verdict, and hardly a byte sent twice.

Each minute is a job of its own with another collective and size, in an order that --seed gives.
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from lab import Failed, Lab, ROOT, machine, parser, progress, save, stop

COLLECTIVES = ("all_reduce", "all_reduce", "broadcast", "sendrecv", "alltoall")
SIZES = ("4K", "64K", "1M", "16M")


class Compiler:
    """Compiles this project again and again, on all cores."""

    def __init__(self):
        for tool in ("cmake", "make", "g++"):
            if shutil.which(tool) is None:
                sys.exit(f"{tool} is missing: run `make deps` first")

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="r2busy-")
        build = pathlib.Path(self.directory.name)
        subprocess.run(["cmake", "-S", ROOT, "-B", build], check=True, stdout=subprocess.DEVNULL)
        script = ("while make -C \"$0\" -j\"$1\" r2ccl_command && make -C \"$0\" clean; do :; done")
        self.process = subprocess.Popen(["sh", "-c", script, build, str(os.cpu_count())],
                                        start_new_session=True, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *unused):
        stop(self.process)
        self.directory.cleanup()

    def check(self):
        if self.process.poll() is not None:
            raise Failed("the compiler ended")


def run_job(lab, collective, size, seconds):
    run = lab.bench("--collective", collective, "-b", size, "-w", 2, "--duration", seconds, "-c", 1,
                    timeout=seconds + 120)
    sent = sum(count["tx"] for nics in run.result["nic_bytes"].values() for count in nics.values())
    return {"collective": collective, "size": size, "sent_bytes": sent,
            **run.counts()}


def main():
    p = parser(__doc__)
    p.add_argument("--minutes", type=float, default=60)
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    seconds = 5 if options.quick else 60
    if options.quick:
        options.minutes = 0.25
    choose = random.Random(options.seed)
    document = {"what": "false_alarms", "machine": machine(), "jobs": [], "error": None}
    begin = time.monotonic()
    end = begin + options.minutes * 60
    with Lab(options.r2ccl, options.name) as lab, Compiler() as compiler:
        while time.monotonic() < end:
            try:
                compiler.check()
                job = run_job(lab, choose.choice(COLLECTIVES), choose.choice(SIZES), seconds)
            except Failed as error:
                document["error"] = str(error)
                break
            document["jobs"].append(job)
            progress(f"{(time.monotonic() - begin) / 60:.0f} min: {job['collective']} {job['size']}: "
                     f"{job['operations']} operations, {job['suspicions']} suspicions, "
                     f"{len(job['verdicts'])} verdicts")
    jobs = document["jobs"]
    document["minutes"] = (time.monotonic() - begin) / 60
    document["verdicts"] = sum(len(job["verdicts"]) for job in jobs)
    for name in ("operations", "checked_elements", "wrong_elements", "suspicions", "sent_bytes",
                 "mirrored_bytes", "replayed_bytes"):
        document[name] = sum(job[name] for job in jobs)
    document["mirrored_percent"] = 100 * document["mirrored_bytes"] / max(document["sent_bytes"], 1)
    print(f"{document['minutes']:.0f} min, {document['operations']} operations, "
          f"{document['checked_elements']} elements, {document['wrong_elements']} wrong, "
          f"{document['verdicts']} verdicts, {document['suspicions']} suspicions, "
          f"{document['mirrored_percent']:.3f} % of {document['sent_bytes'] / 1e9:.1f} GB mirrored"
          + (f", error: {document['error']}" if document["error"] else ""))
    save(options.json, document)
    right = not document["error"] and document["wrong_elements"] == 0 and document["verdicts"] == 0
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
