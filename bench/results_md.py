#!/usr/bin/env python3
"""Writes RESULTS.md from the JSON of the bench scripts: results_md.py DIRECTORY [OUTPUT].

Every figure comes from a file, with its command beside it; what was not measured says so.
"""
import json
import pathlib
import sys

NAMES = ["line_rate", "fault_trials", "flap"]
MIB = 1 << 20
TRIALS_WANTED = 30


def load(directory):
    documents = {}
    for name in NAMES:
        path = directory / f"{name}.json"
        if path.exists():
            documents[name] = json.loads(path.read_text())
    return documents


def num(value, digits=1):
    return "-" if value is None else f"{value:,.{digits}f}"


def size_text(size):
    return f"{size // MIB} MB" if size >= MIB else f"{size >> 10} KB"


def spread_text(values, digits=1):
    if values["median"] is None:
        return "failed"
    return f"{num(values['median'], digits)} ({num(values['min'], digits)} to " \
           f"{num(values['max'], digits)})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


class Target:
    """One line of the targets' table; value None: there is no result, or too little of it."""

    def __init__(self, what, wanted, value, reached, shown, enough=True):
        verdict = "reached" if reached else "**not reached**"
        if value is None:
            verdict, shown = "-", "no result"
        elif reached and not enough:
            verdict = "too few to say"
        self.row = [what, wanted, shown, verdict]


def rate_targets(document):
    ours = {row["bytes"]: row for row in document["compare"]["results"]["r2ccl"]}
    for size, percent in ((16 * MIB, 98), (64 * MIB, 98), (MIB, 95)):
        value = ours.get(size, {}).get("line_percent")
        yield Target(f"AllReduce {size_text(size)}, 4 NICs", f"at least {percent} % of the line",
                     value, value is not None and value >= percent, f"{num(value)} %")
    value = ours.get(64 << 10, {}).get("op_ms", {}).get("median")
    yield Target("AllReduce 64 KB, median operation", "at most 1.65 ms", value,
                 value is not None and value <= 1.65, f"{num(value, 2)} ms")
    for name, row in document["degraded"].items():
        wanted = 90 if "slowed" in name else 97
        value = row["line_percent"]
        yield Target(f"AllReduce {size_text(row['bytes'])}, {name}",
                     f"at least {wanted} % of three NICs' line", value,
                     value is not None and value >= wanted, f"{num(value)} %")


def fault_targets(document):
    for kind, row in document["kinds"].items():
        if row["bound_ms"] is None:
            continue
        yield Target(f"Extra time of the hit 1 MB operation, {kind}",
                     f"at most {row['bound_ms']} ms in each of {TRIALS_WANTED} trials",
                     row["max_ms"], row["over_bound"] == 0,
                     f"at most {num(row['max_ms'])} ms in {row['trials']} trials, "
                     f"{row['over_bound']} over", row["trials"] >= TRIALS_WANTED)
    checked = document["checked"]
    wrong = checked["wrong_elements"] if checked else None
    yield Target("Wrong elements under all faults, every element checked", "0", wrong, wrong == 0,
                 f"{wrong} of {num((checked or {}).get('checked_elements'), 0)}")


def flap_targets(document):
    returned, wrong = document["returned"], document.get("wrong_elements")
    yield Target("A path pulled for 1.5 s every 3 s, 20 times, damping off", "returns each time",
                 returned, returned == document["pulled"],
                 f"{returned} of {document['pulled']}", document["pulled"] >= 20)
    yield Target("Wrong elements while it flaps", "0", wrong, wrong == 0,
                 f"{wrong} of {num(document.get('checked_elements'), 0)}")


def targets(documents):
    rows = []
    for name, rule in (("line_rate", rate_targets), ("fault_trials", fault_targets),
                       ("flap", flap_targets)):
        if name in documents:
            rows += [target.row for target in rule(documents[name])]
        else:
            rows.append([f"bench/{name}.py", "", "not measured", "-"])
    return ["## Targets", ""] + table(["what", "wanted", "measured", ""], rows)


def origin(document):
    m = document["machine"]
    lines = ["```sh", m["command"], "```", "",
             f"{m['date']}, commit {m['commit']}, load before {m['load_before']}, "
             f"{m['stolen_percent']} % of the CPU time taken away by the machine's own host.", ""]
    if "--quick" in m["command"]:
        lines += ["**A quick run: it shows that the script works, and measures nothing.**", ""]
    return lines


def line_rate(document):
    results = document["compare"]["results"]
    sizes = [row["bytes"] for row in results["r2ccl"]]
    head = ["", *map(size_text, sizes)]
    versions = ", ".join(f"{name} {version}" for name, version in document["peers"].items())
    lines = ["## Line rate", "", "AllReduce, float32 sum, out of place, 4 hosts x 4 NICs x 250 "
             f"Mbit/s. {versions}, from Debian.", ""] + origin(document)
    lines += ["Bus MB/s: median of the runs (smallest to largest). The line is "
              f"{num(document['line_MBps'])} MB/s.", ""]
    lines += table(head, [[name, *(spread_text(row["bus_MBps"]) for row in rows)]
                          for name, rows in results.items()])
    lines += ["Percent of the line, and ours over the best peer:", ""]
    lines += table(head, [[name, *(num(row["line_percent"]) for row in rows)]
                          for name, rows in results.items()]
                   + [["r2ccl / best peer", *(num(row.get("ratio_to_best_peer"), 2)
                                              for row in results["r2ccl"])]])
    lines += ["Median operation in ms: median of the runs (smallest to largest).", ""]
    lines += table(head, [[name, *(spread_text(row["op_ms"], 2) for row in rows)]
                          for name, rows in results.items()])
    lines += failures(results)
    for name, why in document["compare"]["missing_peers"].items():
        lines += [f"Did not run: {name}: {why.splitlines()[-1] if why else ''}", ""]
    check = document["check"]
    lines += [f"A run apart checked {num(check['checked_elements'], 0)} elements: "
              f"{check['wrong_elements']} wrong.", ""]
    return lines + nic_bytes(document) + degraded(document)


def failures(results):
    """A run that failed is in no median; it must not go unsaid."""
    lines = []
    for name, rows in results.items():
        for row in rows:
            if row["errors"]:
                last = row["errors"][-1].splitlines()[-1]
                lines += [f"{name}, {size_text(row['bytes'])}: {len(row['errors'])} runs failed, "
                          f"the last with: `{last}`", ""]
    return lines


def nic_table(sent):
    nics = list(next(iter(sent.values())))
    return table(["MB sent", *nics], [[host, *(num(counts[nic] / 1e6) for nic in nics)]
                                      for host, counts in sent.items()])


def nic_bytes(document):
    sent = document["compare"]["nic_tx_bytes"]
    lines = []
    for size, counts in list(sent["r2ccl"].items())[-1:]:
        lines += [f"Sent per NIC by r2ccl in one run of {size_text(int(size))}, headers included:",
                  ""] + nic_table(counts)
    for name, counts in sent.items():
        if name == "r2ccl" or not counts:
            continue
        all_counts = [count / 1e6 for nics in counts.values() for count in nics.values()]
        lines += [f"{name}, one run of all sizes: {num(min(all_counts))} to "
                  f"{num(max(all_counts))} MB per NIC.", ""]
    return lines


def degraded(document):
    rows = []
    lines = ["### Three of four NICs, and a slow one", "",
             "h1's nic2 is hit. In the run: only what began 1.5 s after the fault counts, "
             "against the line of three NICs.", ""]
    details = []
    for name, row in document["degraded"].items():
        rows.append([name, size_text(row["bytes"]), spread_text(row["bus_MBps"]),
                     num(row["line_percent"]), spread_text(row["op_ms"], 1),
                     num(row["slowest_op_ms"]["max"])])
        if row["nic_tx_bytes"]:
            details += [f"Sent per NIC in the last run with {name}, from its start to its end:",
                        ""] + nic_table({"h1": row["nic_tx_bytes"]["h1"]})
    return lines + table(["", "size", "bus MB/s", "% of three NICs' line", "median operation ms",
                          "slowest ms"], rows) \
        + failures({name: [row] for name, row in document["degraded"].items()}) + details


def fault_trials(document):
    timed, checked = document["timed"], document["checked"]
    lines = ["## The operation that a fault hits", "",
             "Back-to-back AllReduce of 1 MB, one job for all trials, a random NIC and moment each; "
             "the extra time is the longest operation between fault and repair less the median of "
             "the run with all NICs. The stall is what the ten operations from the fault on took "
             "beyond the median of later ones with a NIC gone. `none` breaks nothing: the noise of "
             "the machine.", ""]
    lines += origin(document)
    lines += [f"Median with all NICs: {num(timed['baseline_ms'], 2)} ms "
              f"({num(timed['operations'], 0)} operations).", ""]
    rows = []
    for kind, row in document["kinds"].items():
        causes = ", ".join(f"{count} {name}" for name, count in row["verdict_kinds"].items())
        named = "-" if row["named_culprit"] is None else f"{row['named_culprit']}"
        stall = row["stall_ms"]
        rows.append([kind, row["trials"], f"{num(stall['median'])} / {num(stall['p99'])}",
                     num(row["median_ms"]), num(row["p90_ms"]),
                     num(row["max_ms"]), row["bound_ms"] or "-",
                     "-" if row["over_bound"] is None else row["over_bound"],
                     f"{num(row['return_median_s'], 2)} / {num(row['return_max_s'], 2)}",
                     num(row["return_extra_max_ms"]), named, causes or "none"])
    lines += table(["kind", "trials", "stall ms, median / p99", "extra ms, median", "p90", "max", "bound", "over",
                    "return s, median / max", "extra at return, max ms", "NIC and host named",
                    "verdicts"], rows)
    if timed["error"]:
        lines += [f"The job failed: {timed['error'].splitlines()[-1]}", ""]
    if checked:
        lines += [f"The checked job: {len(checked['trials'])} trials, "
                  f"{num(checked['operations'], 0)} operations, "
                  f"{num(checked['checked_elements'], 0)} elements, "
                  f"{checked['wrong_elements']} wrong.", ""]
    surplus = timed["unexpected_verdicts"]
    if surplus:
        lines += [f"Verdicts that name another NIC than the broken one, or come at another time: "
                  f"{len(surplus)}", ""]
        lines += table(["trial", "host", "nic", "towards", "kind"],
                       [[v["trial"] or "between", v["host"], v["nic"], v["peer_host"] or "-",
                         v["kind"]] for v in surplus[:20]])
    return lines


def flap(document):
    lines = ["## A path that flaps", "", f"Its cable is out for half of every "
             f"{document['period_s']:g} s, {document['times']} times, every element checked.", ""]
    lines += origin(document)
    lines += table(["pulled", "returned", "return s, median / max", "operations", "elements checked",
                    "wrong", "verdicts"],
                   [[document["pulled"], document["returned"],
                     f"{num(document['return_median_s'], 2)} / {num(document['return_max_s'], 2)}",
                     num(document.get("operations"), 0), num(document.get("checked_elements"), 0),
                     document.get("wrong_elements", "-"), len(document.get("verdicts", []))]])
    if document["error"]:
        lines += [f"The job failed: {document['error'].splitlines()[-1]}", ""]
    return lines


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
    for name, section in (("line_rate", line_rate), ("fault_trials", fault_trials), ("flap", flap)):
        if name in documents:
            lines += section(documents[name])
    text = "\n".join(lines).rstrip() + "\n"
    if len(sys.argv) == 3:
        pathlib.Path(sys.argv[2]).write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
