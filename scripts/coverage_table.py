#!/usr/bin/env python3
"""Writes docs/coverage.md: the collectives, types, reductions and faults that simulated seeds have
run together, with every element checked.

usage: coverage_table.py JSON [--output FILE]   with JSON from
       r2ccl sim fuzz --seeds 100001..110000 --json JSON
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
TITLES = {"shift": "Send and Recv (ring)", "send_to_all": "Send and Recv (all pairs)",
          "run_ahead": "calls far ahead", "tagged": "SendTagged and RecvTagged (all pairs)",
          "tagged_ahead": "SendTagged, far ahead"}


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


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("json", type=pathlib.Path)
    p.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/coverage.md")
    options = p.parse_args()
    result = json.loads(options.json.read_text())
    types, reductions, faults = pages(result["covered"])
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True,
                            capture_output=True, check=True).stdout.strip()
    text = HEAD.format(first=result["first"], last=result["last"], commit=commit,
                       seeds=f"{result['seeds']:,}", failed=len(result["failed"]))
    all_types = sorted({column for row in types.values() for column in row})
    kinds = sorted({column for row in faults.values() for column in row})
    for heading, lines in [
            ("Types", table("collective", all_types, dict(sorted(types.items())))),
            ("Reductions", table("reduction", all_types, dict(sorted(reductions.items())))),
            ("Faults", table("fault", kinds, dict(sorted(faults.items()))))]:
        text += f"\n## {heading}\n\n" + "\n".join(lines) + "\n"
    options.output.write_text(text)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
