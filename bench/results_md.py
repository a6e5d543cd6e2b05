#!/usr/bin/env python3
"""Writes the pages of bench/results from the JSON of the bench scripts, and the first page.

usage: results_md.py JSON_DIRECTORY [BENCH_DIRECTORY]

Each NAME.json becomes results/NAME.md: its targets, its command and its figures. A page whose JSON
is absent stays as it is, with the commit that it names. RESULTS.md is made from all the pages: five
numbers, two pictures, the missed targets, and the list of pages.
"""
import json
import pathlib
import re
import sys

import report_conditions
import report_faults
import report_losses
import report_rates
import report_readiness
import report_returns
import report_scale
import report_schedules
import report_sharing
import report_torch
from report_text import place, table, wrapped

BENCH = pathlib.Path(__file__).resolve().parent
HEAD = ["quantity", "target", "measured", "result"]


def no_targets(_):
    return []


# In the order of the first page: NAME.json, the title of its page, its targets and its section.
PARTS = [
    ("line_rate", "Line rate", report_rates.rate_targets, report_rates.line_rate),
    ("fan_in", "Fan-in", report_rates.fan_in_targets, report_rates.fan_in),
    ("fault_trials", "The operation that a fault hits, 1 MB", report_faults.fault_targets,
     report_faults.fault_trials),
    ("fault_trials_64K", "The operation that a fault hits, 64 KB", no_targets,
     report_faults.fault_trials),
    ("fault_trials_16M", "The operation that a fault hits, 16 MB", no_targets,
     report_faults.fault_trials),
    ("collective_stalls", "The stall of each collective, 1 MB",
     report_faults.collective_stall_targets, report_faults.collective_stalls),
    ("aftermath", "Long after a fault", report_faults.aftermath_targets, report_faults.aftermath),
    ("flap", "A path that flaps", report_returns.flap_targets, report_returns.flap),
    ("flap_damped", "A path that flaps, damping on", report_returns.flap_damped_targets,
     report_returns.flap),
    ("first_return", "After a first outage", report_returns.first_return_targets,
     report_returns.first_return),
    ("false_alarms", "False alarms", report_returns.false_alarm_targets,
     report_returns.false_alarms),
    ("sim_stalls", "Stalls of every fault, simulated", no_targets, report_faults.sim_stalls),
    ("grey", "Grey NICs", report_faults.grey_targets, report_faults.grey),
    ("sim_grey", "Grey NICs, simulated", report_faults.sim_grey_targets,
     report_faults.sim_grey),
    ("soak", "Soak", report_returns.soak_targets, report_returns.soak),
    ("verdicts", "Verdicts", report_faults.verdict_targets, report_faults.verdicts),
    ("lossy_nics", "Lossy NICs", report_losses.lab_targets, report_losses.lab),
    ("sim_losses", "Lossy NICs, simulated", report_losses.sim_targets, report_losses.sim),
    ("conditions", "Conditions", no_targets, report_conditions.conditions),
    ("readiness", "The cost of readiness", report_readiness.readiness_targets,
     report_readiness.readiness),
    ("two_communicators", "Two communicators", report_sharing.communicator_targets,
     report_sharing.communicators),
    ("idle", "An idle job", report_sharing.idle_targets, report_sharing.idle),
    ("instructions", "Instructions", no_targets, report_readiness.instructions),
    ("profile_collectives", "Where the time goes in each collective", no_targets,
     report_readiness.collective_profiles),
    ("sim_scale", "Many ranks, simulated", report_scale.scale_targets, report_scale.scale),
    ("schedules", "Schedules for slow hosts, simulated", report_schedules.schedule_targets,
     report_schedules.schedules),
    ("pytorch", "PyTorch jobs", report_torch.torch_targets, report_torch.torch_jobs),
]
# bench/compare.py writes its own page, and people write the profiles.
PAGES = [("compare", "r2ccl against its peers"),
         ("compare_collectives", "Collectives against Open MPI's"),
         ("profiles", "Profiles of the missed targets"),
         *((name, title) for name, title, _, _ in PARTS)]

# The five numbers of the first page: page, quantity in its targets, and words about it.
NUMBERS = [
    ("compare", None, "The worst ratio to the best peer"),
    ("line_rate", "AllReduce 16 MB, 4 NICs", "AllReduce of 16 MB, share of the line of four NICs"),
    ("fault_trials", "Stall at 1 MB, pull", "Stall when a cable is pulled, AllReduce of 1 MB"),
    ("fault_trials", "Stall at 1 MB, hole", "Stall when a NIC loses everything silently, 1 MB"),
    ("soak", "A soak of half an hour, a random fault every second",
     "Wrong elements with a random fault every second"),
]


def page(document, title, targets, section):
    rows = [target.row for target in targets(document)]
    lines = [f"# {title}", "", place(document["machine"]), ""]
    if rows:
        lines += ["## Targets", "", *table(HEAD, rows), "## Figures", ""]
    return "\n".join(wrapped(lines + section(document))).rstrip() + "\n"


def write_pages(json_directory, results):
    for name, title, targets, section in PARTS:
        path = json_directory / f"{name}.json"
        if not path.exists():
            continue
        document = json.loads(path.read_text())
        (results / f"{name}.md").write_text(page(document, title, targets, section))
        if name == "fault_trials":
            (results / "stall.svg").write_text(report_faults.stall_picture(document))


def target_rows(text):
    """Returns the rows of the table of targets of a page, each a list of four texts."""
    below = text.partition("\n## Targets\n")[2].lstrip().partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")]
            for line in below.splitlines()[2:]]


def commits(text):
    return ", ".join(dict.fromkeys(re.findall(r"\b[Cc]ommit ([0-9a-f]{7,})", text))) or "unknown"


def link(name, text):
    return f"[{text}](results/{name}.md)"


def numbers(pages):
    for name, quantity, words in NUMBERS:
        rows = target_rows(pages.get(name, ""))
        row = next((row for row in rows if quantity in (None, row[0])), None)
        if row:
            measured = f"{row[2]} ({row[0]})" if quantity is None else row[2]
            yield [words, measured, row[1], link(name, row[3].strip("*"))]


def missed(pages):
    """Returns the rows of all targets that are not reached."""
    return [[*row[:3], link(name, title)] for name, title in PAGES
            for row in target_rows(pages.get(name, "")) if "**" in row[3]]


def first_page(pages):
    bad = missed(pages)
    every = sum(len(target_rows(text)) for text in pages.values())
    lines = ["# Results", "",
             "All hosts are network namespaces of one machine with 2 cores and share its cores; the "
             "NICs are veth pairs, shaped with token buckets or unshaped. Each page names its commit "
             "and its commands. `bench/run-all.sh` and `bench/compare.py` measure all of it again.",
             "", *table(["", "measured", "target", ""], list(numbers(pages))),
             "![Time over that of the best peer](results/compare.svg)", "",
             "![Stalls by kind of fault](results/stall.svg)", "",
             "## Bad results", "", f"{len(bad)} of {every} targets are not reached:", "",
             *table(["quantity", "target", "measured", "page"], bad), "## Pages", "",
             *table(["page", "commit"], [[link(name, title), commits(pages[name])]
                                         for name, title in PAGES if name in pages])]
    return "\n".join(wrapped(lines)).rstrip() + "\n"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    bench = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else BENCH
    results = bench / "results"
    results.mkdir(parents=True, exist_ok=True)
    write_pages(pathlib.Path(sys.argv[1]), results)
    pages = {name: (results / f"{name}.md").read_text() for name, _ in PAGES
             if (results / f"{name}.md").exists()}
    (bench / "RESULTS.md").write_text(first_page(pages))


if __name__ == "__main__":
    main()
