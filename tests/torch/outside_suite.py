#!/usr/bin/env python3
"""Runs the distributed tests of torch's wheel on gloo and on r2ccl, and compares what passes.

    outside_suite.py [--recorded | --record] [--jobs N] [--results DIR] [-k TEXT]

Run it with the Python of an environment that has torch, numpy and expecttest. Each test that gloo
passes must pass on r2ccl, unless outside_known.toml names it with a reason; such an entry must fail.
With --recorded gloo does not run: outside_gloo.txt has the names of the tests that it passes. --record
writes them. docs/outside_suite.md tells more. The last line is the sum: "N passed, N failed, N
skipped".
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECORD = HERE / "outside_gloo.txt"
WORLD_SIZE = 4  # some tests want an even number
SKIPPED_PERCENT_MAX = 5


def environment():
    """Returns the environment of a worker, which imports this tree's package."""
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    return dict(os.environ, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                MKL_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1",
                PYTHONPATH=os.pathsep.join(filter(None, paths)))


def worker(backend, *arguments, **settings):
    command = [sys.executable, str(HERE / "outside_worker.py"), backend, str(WORLD_SIZE),
               *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), **settings)


def all_names():
    process = worker("gloo", "list", stdout=subprocess.PIPE, text=True)
    names = process.communicate()[0].split()
    if process.returncode or not names:
        raise SystemExit("outside_suite: cannot list torch's tests: see above")
    return names


def run(backend, names, args):
    """Runs the tests in several workers. Returns {name: result}."""
    started = time.monotonic()
    workers, files = [], []
    for job in range(args.jobs):
        files.append(args.results / f"{backend}-{job}.jsonl")
        files[-1].unlink(missing_ok=True)
        with open(args.results / f"{backend}-{job}.log", "w", encoding="utf-8") as log:
            workers.append(worker(backend, files[-1], *names[job::args.jobs], stdout=log,
                                  stderr=log))
    for process in workers:
        process.wait()
    lines = [line for file in files if file.exists()
             for line in file.read_text(encoding="utf-8").splitlines()]
    results = {result.pop("name"): result for result in map(json.loads, lines)}
    for name in set(names) - set(results):
        results[name] = {"end": "failed", "seconds": 0, "why": "the worker died before this test"}
    ends = collections.Counter(result["end"] for result in results.values())
    print(f"{backend:6} {ends['passed']} passed, {ends['failed']} failed, {ends['skipped']} not "
          f"for it ({time.monotonic() - started:.0f} s)", flush=True)
    return results


def last_line(why):
    """Returns the line of a traceback that has the error."""
    lines = [line for line in why.splitlines() if line and line[0] not in " \t"]
    errors = [line for line in lines if "Error" in line.partition(":")[0]]
    return (errors or lines or ["?"])[-1][:300]


def judge(wanted, r2ccl, known):
    """Prints each finding about the tests that gloo passes. Returns (passed, failed, skipped)."""
    skips = known["skips"] | known["either"]
    bad = {name for name in wanted if r2ccl[name]["end"] != "passed"}
    failed = 0
    for name in sorted(bad - set(skips)):
        print(f"FAIL {name}: {last_line(r2ccl[name]['why'])}")
        failed += 1
    for name in sorted(set(known["skips"]) & set(wanted) - bad):
        print(f"FAIL {name}: r2ccl passes it: remove it from outside_known.toml")
        failed += 1
    skipped = len(bad & set(skips))
    if skipped * 100 > SKIPPED_PERCENT_MAX * len(wanted):
        print(f"FAIL {skipped} of {len(wanted)} tests that gloo passes are skipped: more than "
              f"{SKIPPED_PERCENT_MAX} %")
        failed += 1
    for name in sorted(bad & set(skips)):
        print(f"skip {name}: {skips[name]}")
    return len(wanted) - len(bad), failed, skipped


def run_gloo(names, args):
    """Returns the names of the tests that gloo passes, and of those that run on it and fail."""
    results = run("gloo", names, args)
    passes = [name for name in names if results[name]["end"] == "passed"]
    if args.record:
        RECORD.write_text("\n".join(passes) + "\n", encoding="utf-8")
    return passes, [name for name in names if results[name]["end"] == "failed"]


def compare_with_record(passes, names):
    """Returns the number of tests whose end on gloo differs from the record. Prints them."""
    recorded = set(RECORD.read_text(encoding="utf-8").split()) & set(names)
    for name in sorted(recorded ^ set(passes)):
        was, now = ("passes", "fails") if name in recorded else ("fails", "passes")
        print(f"FAIL {name}: it {was} on gloo in {RECORD.name}, and now it {now}. Find out why, or "
              "write the file by --record")
    return len(recorded ^ set(passes))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recorded", action="store_true", help="do not run the tests on gloo")
    parser.add_argument("--record", action="store_true", help="record what gloo passes")
    parser.add_argument("--jobs", type=int, default=3, help="tests at a time")
    parser.add_argument("--results", type=pathlib.Path, help="keep results and logs in this folder")
    parser.add_argument("-k", dest="text", default="", help="only tests with this text in the name")
    args = parser.parse_args()
    if args.results is None:
        args.results = pathlib.Path(tempfile.mkdtemp(prefix="r2ccl-outside-"))
    args.results.mkdir(parents=True, exist_ok=True)
    known = tomllib.loads((HERE / "outside_known.toml").read_text(encoding="utf-8"))
    every = all_names()
    names = [name for name in every if args.text in name and name not in known["long"]]
    failed = 0
    if args.recorded:
        passes = [name for name in RECORD.read_text(encoding="utf-8").split() if name in names]
        fails = []
    else:
        passes, fails = run_gloo(names, args)
        failed += compare_with_record(passes, names)
    r2ccl = run("r2ccl", passes + fails, args)
    passed, wrong, skipped = judge(passes, r2ccl, known)
    failed += wrong
    recorded = RECORD.read_text(encoding="utf-8").split()
    for name in sorted({*recorded, *(name for table in known.values() for name in table)} - {*every}):
        print(f"FAIL {name}: {RECORD.name} or outside_known.toml names it, but torch has no such test")
        failed += 1
    more = [name for name in fails if r2ccl[name]["end"] == "passed"]
    if more:
        print(f"r2ccl also passes, and gloo does not: {', '.join(more)}")
    print(f"Of {len(passes)} tests that gloo passes r2ccl passes {passed}. Results and logs are in "
          f"{args.results}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
