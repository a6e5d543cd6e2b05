#!/usr/bin/env python3
"""Writes a table of the collectives, types, reductions and faults that have run together,
with every element checked, in simulated seeds and on real sockets in the lab. An input that is not
given leaves its part of the page as it is.

usage: coverage_table.py [JSON] [--lab LINES] [--output FILE]
  JSON    from r2ccl sim fuzz --seeds 100001..110000 --json JSON
  LINES   the output of tests/process/collective_fault_test.py
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECKED = "checked "
HEAD = """# Checked combinations

Written by `scripts/coverage_table.py` from seeds {first} to {last} of the deterministic simulation
at commit {commit}: {failed} of {seeds} seeds failed. A number is that of the seeds in which the
combination ran and every element of every rank was right; a dash marks one that no seed had. A
fault counts for the operations that ran while it was in force. Faults that end the job (`kill`,
`abort`, `call_mismatch`) count for the operations that ended well in spite of them.
"""
LAB_HEADING = "## On real sockets\n"
LAB_HEAD = """
Written by `scripts/coverage_table.py --lab` from the lines of
`tests/process/collective_fault_test.py` at commit {commit}: real processes and kernels in the
lab, {operations} operations and {elements} elements, {wrong} of them wrong. A number is
that of the operations which ran while the fault was in force, for the type that had fewest: each
cell stands for {types} types, and for the {integers} integer types where the reduction is bitwise.
A dash marks a cell in which a type was missing or wrong. A fault hits one NIC unless its name says
more; `slow` leaves a tenth of the rate, `lose` drops 2 % of the packets.
"""
TITLES = {"shift": "Send and Recv (ring)", "send_to_all": "Send and Recv (all pairs)",
          "run_ahead": "calls far ahead", "tagged": "SendTagged and RecvTagged (all pairs)",
          "tagged_ahead": "SendTagged, far ahead"}
LAB_TITLES = {"alltoall": "AllToAll", "sendrecv": "Send and Recv (ring)",
              "tagged": "SendTagged and RecvTagged (ring)"}
BITWISE = ("band", "bor", "bxor")


def name_of(kind):
    return TITLES.get(kind) or "".join(word.capitalize() for word in kind.split("_"))


def table(title, columns, rows):
    lines = ["| " + " | ".join([title, *columns]) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, counts in rows.items():
        cells = [f"{counts[c]:,}" if counts.get(c) else "-" for c in columns]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return lines


def pages(covered):
    """Returns the counts by collective and type, by reduction and type, and by collective and
    fault."""
    known = {text[len("fault "):] for text in covered if text.startswith("fault ")}
    types, reductions, faults = (collections.defaultdict(dict) for _ in range(3))
    for text, seeds in covered.items():
        if not text.startswith(CHECKED):
            continue
        kind, *rest = text[len(CHECKED):].split(", ")
        row = name_of(kind)
        if rest[0] in known:
            faults[rest[0]][row] = seeds
        else:
            types[row][rest[0]] = types[row].get(rest[0], 0) + seeds
            if len(rest) == 2:
                reductions[f"{row}, {rest[1]}"][rest[0]] = seeds
    return types, reductions, faults


def commit():
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True,
                          capture_output=True, check=True).stdout.strip()


def simulated_part(result):
    """Returns the page's part of the simulated seeds."""
    types, reductions, faults = pages(result["covered"])
    text = HEAD.format(first=result["first"], last=result["last"], commit=commit(),
                       seeds=f"{result['seeds']:,}", failed=len(result["failed"]))
    all_types = sorted({column for row in types.values() for column in row})
    kinds = sorted({column for row in faults.values() for column in row})
    for heading, lines in [
            ("Types", table("collective", all_types, dict(sorted(types.items())))),
            ("Reductions", table("reduction", all_types, dict(sorted(reductions.items())))),
            ("Faults", table("fault", kinds, dict(sorted(faults.items()))))]:
        text += f"\n## {heading}\n\n" + "\n".join(lines) + "\n"
    return text


def lab_part(entries):
    """Returns the page's part of the lab: a row for each collective and reduction, a column for
    each fault. A type that a cell lacks makes it a dash."""
    operations = collections.defaultdict(lambda: collections.defaultdict(dict))
    for each in entries:
        name = LAB_TITLES.get(each["collective"]) or name_of(each["collective"])
        row = ", ".join(filter(None, (name, each["op"])))
        right = each["operations"] if each["checked"] and not each["wrong"] else 0
        operations[row][each["fault"]][each["type"]] = right
    types = {each["type"] for each in entries}
    integers = {each for each in types if "int" in each}
    faults = list(dict.fromkeys(each["fault"] for each in entries))
    rows = {}
    for row, found in sorted(operations.items()):
        wanted = integers if row.rpartition(", ")[2] in BITWISE else types
        rows[row] = {fault: min(found[fault].get(each, 0) for each in wanted) for fault in faults}
    return LAB_HEADING + LAB_HEAD.format(
        commit=commit(), types=len(types), integers=len(integers),
        **{name: f"{sum(each[column] for each in entries):,}" for name, column in
           (("operations", "operations"), ("elements", "checked"), ("wrong", "wrong"))}) + \
        "\n" + "\n".join(table("collective", faults, rows)) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("json", type=pathlib.Path, nargs="?")
    p.add_argument("--lab", type=pathlib.Path)
    p.add_argument("--output", type=pathlib.Path, default=ROOT / "build/coverage.md")
    options = p.parse_args()
    if not (options.json or options.lab):
        p.error("it needs JSON or --lab")
    present = options.output.read_text() if options.output.exists() else ""
    simulated, heading, lab = present.partition(LAB_HEADING)
    lab = heading + lab
    result = json.loads(options.json.read_text()) if options.json else {"failed": []}
    entries = [json.loads(line) for line in options.lab.read_text().splitlines()
               if line.startswith("{")] if options.lab else []
    if options.json:
        simulated = simulated_part(result)
    if options.lab:
        lab = lab_part(entries)
    options.output.write_text("\n".join(part.strip("\n") + "\n" for part in (simulated, lab) if part))
    return 1 if result["failed"] or any(each["wrong"] for each in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
