#!/usr/bin/env python3
"""Breaks every rule of src/base/mutant.h in turn and checks that the simulation finds it.

Seeds look for a broken rule of the contract. The tests of the simulation, and where these see
nothing the unit tests, look for a broken rule of docs/tuning.md (its name begins with tune_), and
for the few of the contract that no seed breaks. Builds into build-mutants. The exit code is 1 if
nothing notices a broken rule, or if the unbroken code fails.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-mutants"
# The least number of seeds for rules that only a rare job breaks.
SEEDS = {"host_unwitnessed": 3000}
TUNING = "tune_"
# No simulated job of a seed finalizes while its calls wait, no proposer of a view dies in one,
# links lose no notice, no handshake ends after its incarnation, no job of a seed looks into a pipe,
# all ranks of one make their communicators at its start, few die in an agreement on a smaller one,
# the losses of most trials are alike, and few reports are out of reach or come late: the tests break
# these rules.
BY_TESTS = ("silent_close", "view_", "health_", "join_", "relay_tail", "relay_unbounded", "relay_preferred",
            "ended_early", "closed_heard", "forget_at_once", "early_lost", "ended_link",
            "shrink_", "loss_", "query_", "bytes_untold", "stale_reports", "any_order", "stalled_answers", "dead_in_the_dark")
# Only seeds above 100,000 have tagged messages, and only those above 200,000 hosts without a common
# rail.
# None below it breaks verdict_unvouched.
FIRST = {"verdict_unvouched": 42_001, "tagged_unordered": 100_001, "tagged_no_credit": 100_001, "relay_never": 200_001,
         "relay_blamed": 200_001}
TESTS = ("sim_test", "protocol_test", "runtime_test", "base_test")
# Release takes a third longer to compile, and a piece has four minutes for all.
OPTIMIZATION = "-O1"
TEST_S = 900
# A table in a document stands between these marks.
BEGIN = {kind: f"<!-- {kind}: written by scripts/mutants.py -->" for kind in ("mutants", "rules")}
END = {kind: f"<!-- end of {kind} -->" for kind in BEGIN}
HEAD = {"mutants": ["| mutant | what is broken | seeds until found | what is then seen |",
                    "|---|---|---|---|"],
        "rules": ["| mutant | what is broken | a test that fails |", "|---|---|---|"]}


def build(jobs, targets):
    launcher = (["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "-DCMAKE_C_COMPILER_LAUNCHER=ccache"]
                if shutil.which("ccache") else [])
    subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release",
                    f"-DCMAKE_CXX_FLAGS_RELEASE={OPTIMIZATION} -DNDEBUG", "-DR2CCL_MUTANTS=ON",
                    *launcher], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, f"-j{jobs}", "--target", *targets], check=True)


def mutants():
    """Returns the names and meanings of src/base/mutant.h, "none" first."""
    text = (ROOT / "src" / "base" / "mutant.h").read_text()
    listed = re.findall(r'X\((\w+),\s*((?:"[^"]*"[\s\\]*)+)\)', text)
    return [[name, "".join(re.findall(r'"([^"]*)"', words))] for name, words in listed]


def by_tests(name):
    return name.startswith((TUNING, *BY_TESTS))


def piece_of(listed, text):
    """Returns the mutants of piece "K/N". Pieces with odd numbers hold rules that tests look for, the
    others rules that seeds break: each kind has a build of its own. Rules that need more than a
    thousand seeds are in no piece."""
    number, count = map(int, text.split("/"))
    wanted = [each for each in listed if each[0] != "none" and each[0] not in SEEDS and
              by_tests(each[0]) == (number % 2 == 1)]
    return wanted[number // 2::max(count // 2, 1)]


def simulate(r2ccl, name, first, last, jobs):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run([r2ccl, "sim", "fuzz", "--jobs", str(jobs), "--mutant", name,
                               "--seeds", f"{first}..{last}", "--until-found", "--json", out.name],
                              text=True, capture_output=True)
        if done.returncode not in (0, 1):
            sys.exit(f"mutants: {name}: {done.stderr.strip()}")
        return json.loads(pathlib.Path(out.name).read_text())


def fuzz(r2ccl, name, seeds, jobs):
    first = FIRST.get(name, 1)
    last = first + seeds - 1
    result = simulate(r2ccl, name, first, last, jobs)
    while name != "none" and result["failed"]:
        # A seed that fails whatever is broken shows nothing.
        seed = result["failed"][0]["seed"]
        if not simulate(r2ccl, "none", seed, seed, jobs)["failed"]:
            break
        print(f"{name}: seed {seed} fails without a mutant, too", flush=True)
        result = simulate(r2ccl, name, seed + 1, last, jobs)
    return result


def programs(name):
    """Returns the programs in the order in which they look for the rule."""
    # The simulation takes longest, and its tests see most rules of tuning.
    if name.startswith(TUNING):
        return TESTS
    sources = (ROOT / "src" / "protocol").rglob("*.cc")
    of_protocol = any(re.search(rf"Mutant::{name}\b", path.read_text()) for path in sources)
    return sorted(reversed(TESTS), key=lambda each: of_protocol and each != "protocol_test")


def failing_test(name, jobs):
    """Returns the first test that fails under the mutant, in words; None if none does."""
    for program in programs(name):
        build(jobs, [program])
        try:
            done = run_tests(program, name, "--gtest_fail_fast")
        except subprocess.TimeoutExpired:
            return f"`{program}` does not end"
        if done.returncode != 0:
            # A test that ends the process is the last one that has begun.
            names = (re.findall(r"^\[  FAILED  \] (\S+\.[^\s,]+)", done.stdout, re.MULTILINE)[:1] or
                     re.findall(r"^\[ RUN      \] (\S+)", done.stdout, re.MULTILINE)[-1:])
            if not names:
                return f"`{program}` ends with {done.returncode}"
            if run_tests(program, "none", f"--gtest_filter={names[0]}").returncode != 0:
                sys.exit(f"mutants: {names[0]} fails without a mutant, too")
            return f"`{names[0]}`"
    return None


def run_tests(program, mutant, *options):
    # The folder that ctest runs them in: a test finds the documents from there.
    return subprocess.run([BUILD / program, *options], text=True, timeout=TEST_S, errors="replace",
                          capture_output=True, cwd=BUILD / "tests",
                          env=dict(os.environ, R2CCL_MUTANT=mutant))


def rule_row(name, what, seen):
    """Returns the row of a rule that tests look for, which stands in the table of its kind."""
    after = "" if name.startswith(TUNING) else " none, a test |"
    return f"| `{name}` | {what} |{after} {seen or '**not found**'} |"


def row(name, what, result):
    if not result["failed"]:
        return f"| `{name}` | {what} | **not found** in {result['seeds']} | |"
    first = result["failed"][0]
    violation = re.sub(r"/\S*/src/", "src/", first["violation"].split(" s: ", 1)[-1])
    violation = violation.replace("|", "\\|").splitlines()[0][:110].rstrip()
    return f"| `{name}` | {what} | {result['seeds']} | {violation} |"


def write(path, tables):
    """Writes each table that the document has marks for."""
    text = path.read_text()
    for kind, rows in tables.items():
        if BEGIN[kind] not in text:
            continue
        before, rest = text.split(BEGIN[kind], 1)
        after = rest.split(END[kind], 1)[1]
        text = before + "\n".join([BEGIN[kind], *HEAD[kind], *rows, END[kind]]) + after
    path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1000, help="tried for each (default 1000; some need more)")
    parser.add_argument("--only", default="", metavar="PREFIX", help="break only the rules with such names")
    parser.add_argument("--piece", metavar="K/N", help="break only the K-th of N parts of the rules")
    parser.add_argument("--write", type=pathlib.Path, nargs="+", default=[], metavar="FILE",
                        help="put the tables into these Markdown files, where the last ones stand")
    options = parser.parse_args()
    if (options.only or options.piece) and options.write:
        parser.error("--write needs the results of all mutants")
    chosen = [["none", "nothing"], *mutants()[1:]]
    if options.piece:
        chosen = piece_of(chosen, options.piece)
    chosen = [each for each in chosen if each[0].startswith(options.only)]
    r2ccl = BUILD / "r2ccl"
    if not all(by_tests(name) for name, _ in chosen):
        build(options.jobs, ["r2ccl_command"])
    tables = {kind: [] for kind in HEAD}
    missed = []
    for name, what in chosen:
        began = time.monotonic()
        if by_tests(name):
            seen = failing_test(name, options.jobs)
            found, after = seen is not None, seen or "all tests"
            kind = "rules" if name.startswith(TUNING) else "mutants"
            tables[kind].append(rule_row(name, what, seen))
        else:
            result = fuzz(r2ccl, name, max(options.seeds, SEEDS.get(name, 0)), options.jobs)
            found, after = bool(result["failed"]), f"{result['seeds']} seeds"
            if name != "none":
                tables["mutants"].append(row(name, what, result))
        if found == (name == "none"):
            missed.append(name)
        print(f"{name}: {'found' if found else 'not found'} after {after}, "
              f"{time.monotonic() - began:.0f} s", flush=True)
    for path in options.write:
        write(path, tables)
    print(f"{sum(map(len, tables.values()))} mutants, wrong: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
