"""The pages of bench/results on NICs that come back, and on false alarms."""
from report_text import Target, find, num, origin, size_text, spread_text, table, wrong_target

FALSE_ALARM_MINUTES = 60
SOAK_MINUTES = 30


def flap_targets(document):
    pulled = find(document, "pulled")
    yield Target("A path pulled for 1.5 s every 3 s, 20 times, damping off", "returns each time",
                 find(document, "returned"), lambda v: v == pulled, lambda v: f"{v} of {pulled}",
                 (pulled or 0) >= 20)
    yield wrong_target("Wrong elements while it flaps", document)


def flap_damped_targets(document):
    pulled = find(document, "pulled")
    enough = (pulled or 0) >= 100
    yield Target("The same 100 times, damping on", "returns at least 10 times",
                 find(document, "returned"), lambda v: v >= 10 or not enough,
                 lambda v: f"{v} of {pulled}", enough)
    final = find(document, "final_return_s")
    yield Target("The NIC after its last pull, damping on", "back within 30 s",
                 (final,) if document else None, lambda v: v[0] is not None and v[0] <= 30,
                 lambda v: "not back" if v[0] is None else f"after {num(v[0], 2)} s", enough)
    yield Target("Descriptors, memory and threads, pull 10 to pull 100", "equal within 1 %",
                 find(document, "growth_percent"), lambda v: v <= 1,
                 lambda v: f"{num(v, 2)} % at most", enough)
    yield wrong_target("Wrong elements while it flaps, damping on", document)


def first_return_targets(document):
    control = find(document, "kinds", "none", "line_percent", "median")
    for kind in ("pull", "down"):
        row = find(document, "kinds", kind)
        yield Target(f"1 MB, 1 s after a first outage is over, {kind}", "at least 98 % of the line",
                     find(row, "line_percent", "median"), lambda v: v >= 98,
                     lambda v, row=row: f"{num(v)} % ({num(row['before_percent']['median'])} % of "
                                        f"before; none: {num(control)} % of the line)")


def false_alarm_targets(document):
    minutes = find(document, "minutes")
    hedged = find(document, "mirrored_percent")
    yield Target("An hour without a fault, a compiler on all cores",
                 "0 verdicts, less than 0.5 % hedged", find(document, "verdicts"),
                 lambda v: v == 0 and hedged < 0.5 and not document["error"],
                 lambda v: f"{v} verdicts, {num(hedged, 3)} % in {num(minutes, 0)} min",
                 (minutes or 0) >= FALSE_ALARM_MINUTES)
    yield wrong_target("Wrong elements in it", document)


def soak_targets(document):
    enough = (find(document, "minutes") or 0) >= SOAK_MINUTES
    yield Target("A soak of half an hour, a random fault every second", "0 wrong elements, no job fails",
                 find(document, "wrong_elements"), lambda v: v == 0 and not document["errors"],
                 lambda v: f"{v} of {num(document['checked_elements'], 0)} under "
                           f"{document['faults']} faults, {len(document['errors'])} jobs failed", enough)
    yield Target("Verdicts in it that name a healthy component", "0", find(document, "innocent"),
                 lambda v: v == 0, lambda v: f"{v} of {document['verdicts']}", enough)


def flap(document):
    lines = [f"Its cable is out for half of every {document['period_s']:g} s, {document['times']} "
              "times, every element checked.", ""] + origin(document["machine"])
    lines += table(["pulled", "returned", "return s, median / max", "after the last pull",
                    "operations", "elements checked", "wrong", "verdicts"],
                   [[document["pulled"], document["returned"],
                     f"{num(document['return_median_s'], 2)} / {num(document['return_max_s'], 2)}",
                     num(document["final_return_s"], 2),
                     num(document.get("operations"), 0), num(document.get("checked_elements"), 0),
                     document.get("wrong_elements", "-"), len(document.get("verdicts", []))]])
    if document["usage"]:
        lines += ["While the cable is out, median of some samples:", ""]
        lines += table(["pull", "host", "descriptors", "RSS KiB", "threads"],
                       [[number, host, *(num(counts[what], 0)
                                         for what in ("descriptors", "rss_kib", "threads"))]
                        for number, hosts in document["usage"].items()
                        for host, counts in hosts.items()])
    if document.get("own_growth_kib"):
        own = document["own_growth_kib"].values()
        lines += ["The measuring program keeps the times of each operation: without faults and over as "
                  f"many operations memory grows by {min(own)} to {max(own)} KiB, which is subtracted.",
                  ""]
    if document["error"]:
        lines += [f"The job failed: {document['error'].splitlines()[-1]}", ""]
    return lines


def first_return(document):
    lines = [f"A NIC is gone for {document['out_s']:g} s, once in each "
             f"job. The figures count the operations of {size_text(document['bytes'])} that start in the "
             f"{document['counted_s']:g} s from {document['after_s']:g} s after the kernel calls the "
             "NIC running again; median of the trials (smallest to largest). `none` breaks nothing.",
             ""]
    lines += origin(document["machine"])
    lines += table(["kind", "trials", "% of line after", "% of line before", "% of before",
                    "usable after s", "then data after s", "not returned"],
                   [[kind, row["trials"],
                     *(spread_text(row[name]) for name in (
                         "line_percent", "before_line_percent", "before_percent")),
                     *(spread_text(row[name], 2) for name in ("usable_s", "returned_s")),
                     row["not_returned"]] for kind, row in document["kinds"].items()])
    return lines + [line for error in document["errors"]
                    for line in (f"Failed: {error.splitlines()[-1]}", "")]


def soak(document):
    lines = ["A fault begins every second, at random: of a NIC (down, pulled, holes, slow, "
             "lossy), of a rail, of all NICs of a host, of the management network, or a rank is stopped; "
             "each for 0.1 to 4 s. Every element checked; damping on. Memory and descriptors are the growth "
             "since 20 s after the begin of a job; 24 bytes of each operation are the measuring program's own.", ""] + origin(document["machine"])
    lines += table(["job", "faults", "operations", "elements checked", "wrong", "verdicts", "innocent",
                    "operation ms, median / p99 / max", "RSS KiB more", "descriptors more"],
                   [[f"{job['collective']} {job['size']}", job["faults"], num(job["operations"], 0),
                     num(job["checked_elements"], 0), job["wrong_elements"], len(job["verdicts"]),
                     len(job["innocent"]),
                     " / ".join(num(job["op_ms"][name]) for name in ("p50", "p99", "max")),
                     num(job["growth"]["rss_kib"], 0), job["growth"]["descriptors"]]
                    for job in document["jobs"]])
    return lines + [line for error in document["errors"]
                    for line in (f"Failed: {error.splitlines()[-1]}", "")]


def false_alarms(document):
    lines = ["Mixed collectives and sizes without any fault, every element "
             "checked, while a compiler keeps every core busy.", ""] + origin(document["machine"])
    lines += table(["min", "jobs", "operations", "elements checked", "wrong", "suspicions", "verdicts",
                    "GB sent", "% hedged"],
                   [[num(document["minutes"], 0), len(document["jobs"]),
                     num(document["operations"], 0), num(document["checked_elements"], 0),
                     document["wrong_elements"], document["suspicions"], document["verdicts"],
                     num(document["sent_bytes"] / 1e9), num(document["mirrored_percent"], 3)]])
    if document["error"]:
        lines += [f"A job failed: {document['error'].splitlines()[-1]}", ""]
    return lines
