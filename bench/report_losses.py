"""The pages of bench/results on NICs that lose packets: in the lab, and in the simulator."""
from report_text import Target, find, num, origin, table

RUNS_WANTED = 60
TRIALS_WANTED = 20_000
NAMED_SHARE = 0.95


def lab_targets(document):
    done = find(document, "summary") or {}
    runs = done.get("runs", 0)
    yield Target("A lossy NIC (2 to 20 %) named within 2 s, in the lab", "in 95 % of 60 runs",
                 done.get("named_in_time"), lambda v: v >= NAMED_SHARE * runs,
                 lambda v: f"{v} of {runs} runs", runs >= RUNS_WANTED)
    yield Target("Innocent NICs named beside it, and in healthy runs", "0",
                 done["innocent"] + done["said_of_healthy"] if done else None, lambda v: v == 0,
                 lambda v: f"{v} of {runs + done['healthy']} runs", runs >= RUNS_WANTED)


def lab(document):
    lossy = [run for run in document["runs"] if run["percent"]]
    late = [run for run in lossy if run["named_s"] is None or run["named_s"] > 2]
    done = document["summary"]
    lines = ["AllReduce of 64 KB to 4 MB on 3, 4 and 5 hosts x 3 NICs x 300 Mbit/s (the third NIC "
             "of each host 30 Mbit/s in every second run), and packets of one NIC lost both "
             "ways. The time runs until all ranks name it.", ""] + origin(document["machine"])
    lines += [f"Not named within 2 s: {len(late)} of {len(lossy)}"
              + "".join(f"; {run['hosts']} hosts, {run['bytes']}, {run['percent']} %: "
                        + (f"{num(run['named_s'])} s" if run["named_s"] else "never") for run in late)
              + f". Runs whose log has a `pair` with the NIC beside it: {done['with_other_verdicts']}. "
              f"Innocent NICs named: {done['innocent']}. Healthy runs with a verdict: "
              f"{done['said_of_healthy']} of {done['healthy']}. Runs that failed: {len(document['errors'])}.", ""]
    rows = []
    for percent in sorted({run["percent"] for run in lossy}):
        mine = [run for run in lossy if run["percent"] == percent]
        times = sorted(run["named_s"] for run in mine if run["named_s"] is not None)
        said = sorted(run["percent_said"] for run in mine if run["percent_said"] is not None)
        middle = len(times) // 2
        rows.append([f"{percent} %", len(mine), sum(time <= 2 for time in times),
                     f"{times[middle]:.2f} / {times[-1]:.2f}" if times else "-",
                     f"{num(said[len(said) // 2])} ({num(said[0])} to {num(said[-1])})" if said else "-"])
    lines += table(["loss", "runs", "named in 2 s", "s to the verdict, median / max",
                    "% said, median (smallest to largest)"], rows)
    return lines + ["The share is that of the first second, and rough: the lab drops super-packets of up to 64 KB. "
                    "`r2ccl status` continues to measure it.", ""]


def sim_targets(document):
    rows = find(document, "rows") or []
    trials = sum(row["trials"] for row in rows)
    enough = find(document, "seeds") is not None and document["seeds"] >= TRIALS_WANTED
    yield Target("A lossy NIC (0.1 to 30 %) named within 2 s, simulated", "95 %, where the packets permit it",
                 sum(row["in_time"] for row in rows) if rows else None,
                 lambda v: v >= NAMED_SHARE * trials, lambda v: f"{v} of {trials} trials", enough)
    yield Target("Simulated trials that name an innocent NIC", "0",
                 len(document["failed"]) if rows else None, lambda v: v == 0,
                 lambda v: f"{v} of {document['seeds']} trials", enough)


def sim(document):
    lines = ["Random jobs (docs/simulation.md, Losses). Bad numbers first: "
             "below 1 % these NICs of 2 to 6 MB/s lose too few packets in 2 s, and a loss of one direction, in three of five "
             "trials, has half the evidence.",
             "", "```sh", document.get("command", "r2ccl sim losses"), "```", ""]
    lines += table(["loss", "trials", "named in 2 s", "in 6 s", "only a pair", "several verdicts"],
                   [[row["loss"], row["trials"], row["in_time"], row["named"], row["pairs"], row["several"]]
                    for row in document["rows"]])
    return lines + [f"Failures (an innocent NIC is named): {len(document['failed'])} of {document['seeds']} trials.", ""]
