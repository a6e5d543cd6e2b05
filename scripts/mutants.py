#!/usr/bin/env python3
"""Breaks every rule of src/base/mutant.h in turn and looks whether the simulation finds it.

Builds into build-mutants. The exit code is 1 when a broken rule is not found, or when the unbroken
code fails a seed.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-mutants"
# Rules that only a rare job breaks: the seeds that are tried at least.
SEEDS = {"host_unwitnessed": 3000, "stale_reports": 7000}
BEGIN, END = "<!-- mutants: written by scripts/mutants.py -->", "<!-- end of mutants -->"


def build(jobs):
    subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release",
                    "-DR2CCL_MUTANTS=ON", "-DR2CCL_TESTS=OFF"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, f"-j{jobs}", "--target", "r2ccl_command"], check=True)
    return BUILD / "r2ccl"


def mutants(r2ccl):
    listed = subprocess.run([r2ccl, "sim", "mutants"], check=True, text=True, capture_output=True)
    return [line.split(None, 1) for line in listed.stdout.splitlines()]


def fuzz(r2ccl, name, seeds, jobs):
    # Rules of the localiser of losses show in jobs with a lossy NIC.
    verb = ["losses"] if name.startswith("loss_") else ["fuzz", "--jobs", str(jobs)]
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run([r2ccl, "sim", *verb, "--mutant", name, "--seeds", f"1..{seeds}",
                               "--until-found", "--json", out.name],
                              text=True, capture_output=True)
        if done.returncode not in (0, 1):
            sys.exit(f"mutants: {name}: {done.stderr.strip()}")
        return json.loads(pathlib.Path(out.name).read_text())


def row(name, what, result):
    if not result["failed"]:
        return f"| `{name}` | {what} | **not found** in {result['seeds']} | |"
    first = result["failed"][0]
    violation = re.sub(r"/\S*/src/", "src/", first["violation"].split(" s: ", 1)[-1])
    violation = violation.replace("|", "\\|").splitlines()[0][:110].rstrip()
    return f"| `{name}` | {what} | {result['seeds']} | {violation} |"


def write(path, table):
    text = path.read_text()
    before, rest = text.split(BEGIN, 1)
    path.write_text(before + BEGIN + "\n" + table + "\n" + END + rest.split(END, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1000, help="tried for each (default 1000; some need more)")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE",
                        help="put the table into this Markdown file, where the last one stands")
    options = parser.parse_args()
    r2ccl = build(options.jobs)
    rows = ["| mutant | what is broken | seeds until found | what is then seen |", "|---|---|---|---|"]
    missed = []
    for name, what in [["none", "nothing"], *mutants(r2ccl)]:
        began = time.monotonic()
        seeds = max(options.seeds, SEEDS.get(name, 0))
        result = fuzz(r2ccl, name, seeds, options.jobs)
        found = bool(result["failed"])
        if found == (name == "none"):
            missed.append(name)
        if name != "none":
            rows.append(row(name, what, result))
        print(f"{name}: {'found' if found else 'not found'} after {result['seeds']} seeds, "
              f"{time.monotonic() - began:.0f} s", flush=True)
    if options.write:
        write(options.write, "\n".join(rows))
    print(f"{len(rows) - 2} mutants, wrong: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
