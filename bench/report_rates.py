"""The pages of bench/results on rates without a fault in the middle: line rate, lost bandwidth, fan-in."""
from report_text import (MIB, Target, find, num, origin, size_text, spread_text, table, wrong_target)

DOWN, PULLED, SLOWED = ("one NIC down before the start", "one NIC pulled in the run",
                        "one NIC slowed to 10%")


def degraded_row(document, name, size):
    rows = find(document, "degraded") or []
    return next((row for row in rows if (row["name"], row["bytes"]) == (name, size)), None)


def percent(value):
    return f"{num(value)} %"


def rate_targets(document):
    ours = {row["bytes"]: row for row in find(document, "compare", "results", "r2ccl") or []}
    for size in (MIB, 16 * MIB, 64 * MIB):
        row = ours.get(size)
        share, all_ms = find(row, "line_percent"), find(row, "all_ms")
        tail = all_ms["p99"] / all_ms["median"] if share else None
        yield Target(f"AllReduce {size_text(size)}, 4 NICs",
                     "at least 98 % of the line, p99 at most 1.3 x median",
                     (share, tail) if share else None, lambda v: v[0] >= 98 and v[1] <= 1.3,
                     lambda v: f"{num(v[0])} %, p99 {num(v[1], 2)} x median")
    all_ms = find(ours.get(64 << 10), "all_ms")
    yield Target("AllReduce 64 KB, 4 NICs", "median at most 1.0 ms, p99 at most 4 ms",
                 (all_ms["median"], all_ms["p99"]) if find(all_ms, "median") else None,
                 lambda v: v[0] <= 1.0 and v[1] <= 4,
                 lambda v: f"median {num(v[0], 2)} ms, p99 {num(v[1], 2)} ms")
    for name, size, wanted, line in (
            (DOWN, MIB, 97, "three NICs' line"), (DOWN, 16 * MIB, 97, "three NICs' line"),
            (PULLED, 16 * MIB, 97, "three NICs' line"), (SLOWED, 64 * MIB, 98.5, "3.1/4 of the line")):
        yield Target(f"AllReduce {size_text(size)}, {name}", f"at least {wanted} % of {line}",
                     find(degraded_row(document, name, size), "line_percent"),
                     lambda v, wanted=wanted: v >= wanted, percent)
    tail = find(degraded_row(document, SLOWED, MIB), "all_ms", "p99")
    gone = find(degraded_row(document, PULLED, MIB), "all_ms", "median")
    yield Target(f"AllReduce 1 MB, {SLOWED}", "p99 at most 1.2 x the median with that NIC gone",
                 tail / gone if tail and gone else None, lambda v: v <= 1.2,
                 lambda v: f"{num(v, 2)} x ({num(tail, 2)} / {num(gone, 2)} ms)")


def fan_in_targets(document):
    yield Target("Fan-in, all to all, 8 hosts", "at least 92 % of line, 0 suspicions",
                 (find(document, "line_percent", "median"), find(document, "suspicions"))
                 if document else None, lambda v: v[0] >= 92 and v[1] == 0,
                 lambda v: f"{num(v[0])} %, {v[1]} suspicions")
    yield wrong_target("Wrong elements in fan-in", {
        "wrong_elements": find(document, "wrong_elements"),
        "checked_elements": find(document, "checked", "checked_elements")})


def line_rate(document):
    results = document["compare"]["results"]
    sizes = [row["bytes"] for row in results["r2ccl"]]
    head = ["", *map(size_text, sizes)]
    versions = ", ".join(f"{name} {version}" for name, version in document["peers"].items())
    lines = ["AllReduce, float32 sum, out of place, 4 hosts x 4 NICs x 250 "
             f"Mbit/s. {versions}, from Debian.", ""] + origin(document["machine"])
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
    lines += ["r2ccl's operations of all runs together, in ms (of fewer than a hundred, the 99th "
              "percentile is the slowest):", ""]
    lines += table(["", *map(size_text, sizes)], tails(results["r2ccl"]))
    lines += failures(results)
    for name, why in document["compare"]["missing_peers"].items():
        lines += [f"Did not run: {name}: {why.splitlines()[-1] if why else ''}", ""]
    check = document["check"]
    lines += [f"A run apart checked {num(check['checked_elements'], 0)} elements: "
              f"{check['wrong_elements']} wrong.", ""]
    return lines + nic_bytes(document) + degraded(document)


def tails(rows):
    return [["operations", *(num(row["operations"], 0) for row in rows)],
            *([what, *(num(row["all_ms"][what], 2) for row in rows)]
              for what in ("median", "p99", "max"))]


def failures(results):
    """Returns the failed runs, which no median includes."""
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
    rows, details = [], []
    lines = ["## Three of four NICs, and a slow one", "",
             "h1's nic2 is hit. In the run: only operations that began 1.5 s after the fault count. The line is "
             "that of three NICs, or of three and a tenth.", ""]
    for row in document["degraded"]:
        rows.append([row["name"], size_text(row["bytes"]), spread_text(row["bus_MBps"]),
                     num(row["line_percent"]), row["operations"],
                     *(num(row["all_ms"][what]) for what in ("median", "p99", "max"))])
        if row["nic_tx_bytes"]:
            details += [f"Sent per NIC in the last run of {size_text(row['bytes'])} with "
                        f"{row['name']}, from its start to its end:", ""]
            details += nic_table({"h1": row["nic_tx_bytes"]["h1"]})
    return lines + table(["", "size", "bus MB/s", "% of the line left", "operations", "median ms",
                          "p99 ms", "slowest ms"], rows) \
        + failures({row["name"]: [row] for row in document["degraded"]}) + details


def fan_in(document):
    lines = ["All to all among 8 hosts x 4 NICs x 100 Mbit/s, 1 MB from each rank to "
             "each: seven senders share every receiving NIC. No path may become suspect.", ""]
    lines += origin(document["machine"])
    checked = document["checked"]
    return lines + table(
        ["runs", "% of line", "suspicions", "verdicts", "hedged bytes", "elements checked", "wrong"],
        [[document["line_percent"]["runs"], spread_text(document["line_percent"]),
          document["suspicions"], document["verdicts"], num(document["mirrored_bytes"], 0),
          num(checked["checked_elements"], 0), document["wrong_elements"]]])
