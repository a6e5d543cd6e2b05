"""The page of bench/results on many conditions."""
from report_text import origin, table


def stall(runs, kind):
    for run in runs:
        if run["kind"] == kind and run["stall_ms"] is not None:
            return f"{run['stall_ms']:.0f}"
    return "-"


def row(entry):
    runs = entry["runs"]
    if entry["skipped"] or not runs:
        return [entry["text"], entry["skipped"] or "failed"] + ["-"] * 7
    quiet = runs[0]
    share = f"{quiet['line_percent']:.1f} %" if quiet["line_percent"] else \
        f"{quiet['busbw_MBps']:.0f} MB/s"
    return [entry["text"], share, f"{quiet['op_ms']['p50']:.1f}", f"{quiet['op_ms']['p99']:.1f}",
            str(quiet["suspicions"]), f"{quiet['mirrored_percent']:.2f}", stall(runs, "hole"),
            stall(runs, "pull"), str(sum(run["wrong_elements"] for run in runs))]


def conditions(document):
    head = ["condition", "of the line", "median ms", "p99 ms", "suspicions", "hedged %",
            "stall of a hole, ms", "of a pull, ms", "wrong elements"]
    lines = ["AllReduce with every element checked, a short run each. The pauses for checking let the "
             "shapers' buckets fill, so a share of the line can exceed 100 % and is no line rate. "
             f"{document['false_verdicts']} verdicts without a fault, {document['failed']} conditions "
             "failed.", ""]
    return lines + origin(document["machine"]) + table(head, [row(entry) for entry in document["conditions"]])
