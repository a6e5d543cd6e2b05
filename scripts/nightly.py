#!/usr/bin/env python3
"""Runs one slice of the nightly steps, about 4 minutes on two cores, with which `.ci/run` ends.

    nightly.py [SLICE] [--write]   runs SLICE, or the one that is due; --write puts its row into the
                                   table of docs/testing.md
    nightly.py --list              prints the slices, and which one is due

Steps that take longer are cut into pieces; the commit's hash picks the piece.

The table is the memory of which slice ran when. While somebody keeps it (its newest row is not two
days older than the commit), the slice that ran longest ago is due, and the hash decides among equals:
so ten runs cover all. Otherwise the hash picks one of all, which leaves gaps. Without
git, the time takes the place of the hash.
"""

import argparse
import datetime
import os
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "testing.md"
KEPT_DAYS = 2
BEGIN, END = "<!-- slices: written by scripts/nightly.py -->", "<!-- end of slices -->"
HEAD = ("| slice | steps | last run, UTC | commit | result | seconds |", "|---|---|---|---|---|---|")
CONDITIONS = 24  # bench/conditions.py has so many
MUTANT_PIECES = 96
# One or two of each version of the interface with plugins.
NCCL_VERSIONS = ("2.22.3", "2.23.4", "2.25.1", "2.26.5", "2.27.7", "2.28.9", "2.29.7", "2.32.3")
# Programs of the unit tests that the CI builds with sanitizers alone.
UNIT_PIECES = (("base", "protocol"), ("plan", "transport"), ("runtime",), ("job", "corpus"))


def steps(*names):
    return f"python3 -B scripts/run-tests.py {' '.join(names)}"


def slices(number):
    """Returns the commands of each slice. `number`, from the hash, picks the pieces."""
    programs = ("sim", *UNIT_PIECES[number % len(UNIT_PIECES)])
    return {
        "fuzzers": (steps("fuzz", "simgrid"),),
        "lint": (steps("lint", "instructions"),),
        "packages": (steps("packages"),
                     "python3 -B tests/nccl/run.py collectives cycles --only-plugin --ranks 2 "
                     "--cuda 12 --version "
                     f"{NCCL_VERSIONS[number % len(NCCL_VERSIONS)]}"),
        "torch": (steps("torch_recorded", "torch_members"),),
        "collectives": (steps("collective_fault"),),
        "simulation": (steps("asan_sim"),),
        # In release, the long cases too.
        "units": (steps(*(f"unit_{name}" for name in programs)),),
        "lab": ("python3 -B bench/conditions.py --r2ccl build/r2ccl --only "
                f"{number % CONDITIONS}",
                f"python3 -B bench/soak.py --r2ccl build/r2ccl --minutes 1 --seed {number}",
                steps("rare")),
        "seeds": (steps("mismatches"), *seeds(number)),
        "mutants": (f"scripts/mutants.py --piece {number % MUTANT_PIECES}/{MUTANT_PIECES}",),
    }


def seeds(number):
    """Returns the commands that run a piece of the nightly seeds, of each of the three kinds."""
    pieces = ((1001 + number % 99 * 1000, 70), (103701 + number % 8 * 1000, 50),
              (200301 + number % 2 * 1000, 40))
    return tuple(f"build/r2ccl sim fuzz --seeds {first}..{first + 999} --seconds {seconds}"
                 for first, seconds in pieces)


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, text=True, capture_output=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit():
    """Returns the hash, a number made of it, and the time of the commit; the present without git."""
    name = git("rev-parse", "HEAD")
    if not name:
        return "none", int(time.time()) // 60, time.time()
    return name, int(name[:8], 16), float(git("show", "-s", "--format=%ct", "HEAD") or time.time())


def read_rows(text):
    """Returns {slice: the cells of its row} of the table."""
    table = text.split(BEGIN, 1)[1].split(END, 1)[0].splitlines() if BEGIN in text else []
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[3:] if line]
    return {row[0].strip("`"): row for row in rows}


def seconds_of(cells):
    """Returns the time at which the slice of this row ran last; 0 if it never did."""
    try:
        day = datetime.datetime.strptime(cells[2], "%Y-%m-%d %H:%M")
    except (ValueError, IndexError, TypeError):
        return 0
    return day.replace(tzinfo=datetime.timezone.utc).timestamp()


def due(rows, names, number, commit_time):
    """Returns the slice that is due."""
    last = {name: seconds_of(rows.get(name)) for name in names}
    kept = commit_time - max(last.values()) < KEPT_DAYS * 86400
    choice = [name for name in names if not kept or last[name] == min(last.values())]
    return choice[number % len(choice)]


def quoted(commands):
    return "; ".join(f"`{line}`" for line in commands)


def written(text, first_pieces, name, cells):
    """Returns the document with this row of the slice. The rows of slices that never ran have the
    commands of `first_pieces`, so that they are the same whatever the commit."""
    rows = read_rows(text) | {name: cells}
    for each, commands in first_pieces.items():
        if not seconds_of(rows.get(each)):
            rows[each] = [f"`{each}`", quoted(commands), "not yet", "", "", ""]
    lines = ["| " + " | ".join(rows[each]) + " |" for each in first_pieces]
    before, after = text.split(BEGIN, 1)[0], text.split(END, 1)[1]
    return before + "\n".join([BEGIN, *HEAD, *lines, END]) + after


def run(line):
    print("+", line, flush=True)
    return subprocess.run(shlex.split(line), cwd=ROOT, stdin=subprocess.DEVNULL,
                          check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("slice", nargs="?", help="the slice; default: the one that is due")
    parser.add_argument("--list", action="store_true", help="print the slices and their commands")
    parser.add_argument("--write", action="store_true",
                        help=f"write the result into {DOCUMENT.relative_to(ROOT)}")
    args = parser.parse_args()
    name, number, commit_time = commit()
    known = slices(number)
    text = DOCUMENT.read_text(encoding="utf-8")
    chosen = args.slice or due(read_rows(text), list(known), number, commit_time)
    if chosen not in known:
        parser.error(f"no such slice: {chosen}; there are {', '.join(known)}")
    if args.list:
        for each, commands in known.items():
            print(f"{each}{' (due)' if each == chosen else ''}: {'; '.join(commands)}")
        return 0
    print(f"=== slice {chosen} of {len(known)}, at commit {name}", flush=True)
    os.environ.setdefault("R2CCL_FUZZ_SECONDS", "2")
    began = time.monotonic()
    # 77: it cannot run on this machine.
    failed = [line for line in known[chosen] if run(line) not in (0, 77)]
    took = time.monotonic() - began
    cells = [f"`{chosen}`", quoted(known[chosen]),
             f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M}", name[:10],
             f"**failed**: {'; '.join(failed)}" if failed else "passed", f"{took:.0f}"]
    if args.write:
        # A developer commits the row. On the CI machine it goes with the checkout.
        DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), slices(0), chosen, cells),
                            encoding="utf-8")
    print(f"slice {chosen}: {'failed: ' + '; '.join(failed) if failed else 'passed'} ({took:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
