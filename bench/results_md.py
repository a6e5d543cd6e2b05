#!/usr/bin/env python3
"""Writes RESULTS.md from the JSON of the bench scripts: results_md.py DIRECTORY [OUTPUT]; and beside
it stall.svg, the picture it shows.

Every figure comes from a file, with its command beside it. A target without a file has "no result".
"""
import json
import pathlib
import sys

import report_conditions
import report_faults
import report_losses
import report_rates
import report_readiness
import report_returns
from report_text import table, wrapped


def no_targets(_):
    return []


# In the order of the document: NAME.json, its lines in the table of targets (given {} without a
# file), and its section.
PARTS = [
    ("line_rate", report_rates.rate_targets, report_rates.line_rate),
    ("fan_in", report_rates.fan_in_targets, report_rates.fan_in),
    ("fault_trials", report_faults.fault_targets, report_faults.fault_trials),
    ("fault_trials_64K", no_targets, report_faults.fault_trials_of_size),
    ("fault_trials_16M", no_targets, report_faults.fault_trials_of_size),
    ("aftermath", report_faults.aftermath_targets, report_faults.aftermath),
    ("flap", report_returns.flap_targets, report_returns.flap),
    ("flap_damped", report_returns.flap_damped_targets, report_returns.flap),
    ("first_return", report_returns.first_return_targets, report_returns.first_return),
    ("false_alarms", report_returns.false_alarm_targets, report_returns.false_alarms),
    ("sim_stalls", no_targets, report_faults.sim_stalls),
    ("grey", report_faults.grey_targets, report_faults.grey),
    ("sim_grey", no_targets, report_faults.sim_grey),
    ("soak", report_returns.soak_targets, report_returns.soak),
    ("verdicts", report_faults.verdict_targets, report_faults.verdicts),
    ("lossy_nics", report_losses.lab_targets, report_losses.lab),
    ("sim_losses", report_losses.sim_targets, report_losses.sim),
    ("conditions", no_targets, report_conditions.conditions),
    ("readiness", report_readiness.readiness_targets, report_readiness.readiness),
    ("instructions", no_targets, report_readiness.instructions),
]


def load(directory):
    paths = {name: directory / f"{name}.json" for name, _, _ in PARTS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def targets(documents):
    rows = [target.row for name, rule, _ in PARTS for target in rule(documents.get(name, {}))]
    return ["## Targets", ""] + table(["quantity", "target", "measured", "result"], rows)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    documents = load(pathlib.Path(sys.argv[1]))
    if not documents:
        sys.exit(f"no results in {sys.argv[1]}")
    m = next(iter(documents.values()))["machine"]
    lines = ["# Results", "",
             f"{m['cores']} cores of {m['cpu']}, {m['memory_gib']} GiB, Linux {m['kernel']}, "
             f"{m['date']}. All hosts are network namespaces of this one machine and share its cores; "
             "the NICs are veth pairs, shaped with token buckets. `bench/run-all.sh` measures all of "
             "this again and writes this file.", ""]
    lines += targets(documents)
    for name, _, section in PARTS:
        if name in documents:
            lines += section(documents[name])
    text = "\n".join(wrapped(lines)).rstrip() + "\n"
    if len(sys.argv) == 3:
        output = pathlib.Path(sys.argv[2])
        output.write_text(text)
        if "fault_trials" in documents:
            output.with_name("stall.svg").write_text(
                report_faults.stall_picture(documents["fault_trials"]))
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
