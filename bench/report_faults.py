"""The pages of bench/results on the cost of a fault, when it comes and long after."""
import stall_svg
from report_text import MIB, Target, find, num, origin, size_text, spread_text, table, wrong_target

EXTRA_TRIALS_WANTED = 30
STALL_TRIALS_WANTED = 200
STALL_TRIALS_OF_A_COLLECTIVE = 12
# At 1 MB, in ms: the bounds of the median and of the 99th percentile.
STALL_MAX_MS = {"down": (5, 20), "pull": (5, 20), "hole": (15, 50), "hole-tx": (15, 50),
                "hole-rx": (15, 50)}
EXTRA_MAX_MS = {"down": 50, "pull": 50, "hole": 200, "hole-tx": 200, "hole-rx": 200}
AFTERMATH_OPERATIONS_WANTED = 3000
VERDICT_TRIALS_WANTED = 150


def stall_text(stall):
    return f"median {num(stall['median'])}, p99 {num(stall['p99'])}"


def fault_targets(document):
    kinds = find(document, "kinds") or {}
    control = find(kinds, "none", "stall_ms")
    beside = f" (none: {stall_text(control)})" if control else ""
    for kind, (median, p99) in STALL_MAX_MS.items():
        row = kinds.get(kind, {})
        stall = row.get("stall_ms")
        yield Target(f"Stall at 1 MB, {kind}",
                     f"median at most {median} ms, p99 at most {p99} ms, {STALL_TRIALS_WANTED} trials",
                     stall if find(stall, "median") is not None else None,
                     lambda v, median=median, p99=p99: v["median"] <= median and v["p99"] <= p99,
                     lambda v, row=row: f"{stall_text(v)} ms in {row['trials']} trials{beside}",
                     row.get("trials", 0) >= STALL_TRIALS_WANTED)
    for kind, bound in EXTRA_MAX_MS.items():
        row = kinds.get(kind, {})
        yield Target(f"Extra time of the hit 1 MB operation, {kind}",
                     f"at most {bound} ms in each of {EXTRA_TRIALS_WANTED} trials",
                     row.get("max_ms"), lambda v, bound=bound: v <= bound,
                     lambda v, row=row: f"at most {num(v)} ms in {row['trials']} trials, "
                                        f"{row['over_bound']} over",
                     row.get("trials", 0) >= EXTRA_TRIALS_WANTED)
    yield wrong_target("Wrong elements under all faults, every element checked",
                       find(document, "checked"))


def aftermath_targets(document):
    kinds = find(document, "kinds") or {}
    control = find(kinds, "none", "slow_permille")
    beside = f" (none: {num(control, 2)})" if control is not None else ""
    for kind in STALL_MAX_MS:
        row = kinds.get(kind, {})
        yield Target(f"Slow operations 1 s to 30 s after the fault, {kind}",
                     "at most 1 in 1,000 over 1.5 x their median", row.get("slow_permille"),
                     lambda v: v <= 1,
                     lambda v, row=row: f"{num(v, 2)} in 1,000 of {num(row['operations'], 0)}{beside}",
                     row.get("operations", 0) >= AFTERMATH_OPERATIONS_WANTED)


def grey_targets(document):
    for row in find(document, "rows") or []:
        if row["kind"] in ("none", "pull"):
            continue
        yield Target(f"AllReduce {row['size']}B, one NIC {row['kind']}",
                     "at least 97 % of the rate that the remaining bandwidth permits",
                     row["share_percent"]["median"], lambda v: v >= 97,
                     lambda v, row=row: f"{num(v)} %, p99 {num(row['p99_ms'])} ms (with the NIC pulled: "
                                        f"{num(gone_ms(document, row['size']))})", row["runs"] >= 3)
    yield wrong_target("Wrong elements on grey paths", document)


def gone_ms(document, size):
    return next((row["p99_ms"] for row in document["rows"]
                 if row["kind"] == "pull" and row["size"] == size), None)


def grey(document):
    lines = ["One NIC is bad and not dead: slow, lossy, or with a delay each way. 100 Mbit/s "
             "a NIC without segmentation offload, so that loss takes single packets; every element checked. "
             "The share is of the rate of three NICs in the same round, or, where a slow NIC has a rate of its "
             "own, of the remaining rate of four; median of the runs (smallest to largest).", ""] + origin(document["machine"])
    lines += table(["size", "NIC", "bus MB/s", "% of the remaining rate", "median ms", "p99 ms, worst run",
                    "% hedged", "verdicts"],
                   [[row["size"] + "B", row["kind"], spread_text(row["bus_MBps"]),
                     spread_text(row["share_percent"]), num(row["median_ms"], 2), num(row["p99_ms"], 2),
                     num(row["mirrored_percent"], 2), row["verdicts"]] for row in document["rows"]])
    return lines + [line for error in document["errors"]
                    for line in (f"Failed: {error.splitlines()[-1]}", "")]


def sim_stalls(document):
    lines = ["The cost of each simulated fault to back-to-back "
             f"AllReduce of {size_text(document['bytes'])} beyond the lost bandwidth, in virtual time: how much longer ten "
             "operations took, or all until the fault's end, than as many later ones. For faults "
             "that stop all ranks for a while, the cost beyond that while.", ""] + origin(document["machine"])
    lines += table(["fault", "trials", "stall ms, median", "p99", "max", "verdicts"],
                   [[kind, row["trials"], num(row["median"]), num(row["p99"]), num(row["max"]),
                     ", ".join(row["verdicts"]) or "none"] for kind, row in document["kinds"].items()])
    errors = {error for row in document["kinds"].values() for error in row["errors"]}
    total = sum(row["checked_elements"] for row in document["kinds"].values())
    return lines + [f"{num(total, 0)} elements checked, none wrong." if not errors else
                    f"Failed: {'; '.join(sorted(errors))}", ""]


GREY_KINDS = ("slow 50 %", "slow 10 %", "delay 1 ms")
GREY_SHARE = 97


def grey_shares(document):
    """Returns (percent of the throughput with the NIC pulled, words) of each cell with a target."""
    for cluster in find(document, "clusters") or []:
        gone = cluster["mean_ms"]["pull"]
        for kind in GREY_KINDS:
            for size, mean in cluster["mean_ms"][kind].items():
                if mean and gone[size]:
                    yield 100 * gone[size] / mean, (f"{kind}, {size}B, {cluster['hosts']} x "
                                                    f"{cluster['nics']} x {cluster['mbit']} Mbit/s")


def sim_grey_targets(document):
    shares = sorted(grey_shares(document))
    missed = sum(share < GREY_SHARE for share, _ in shares)
    yield Target("A grey NIC in use, simulated: throughput against the NIC pulled",
                 f"at least {GREY_SHARE} % in each cell", shares or None, lambda v: missed == 0,
                 lambda v: f"{missed} of {len(v)} cells below; the worst {num(v[0][0])} % ({v[0][1]})")


def sim_grey(document):
    lines = ["The same in the simulator, without the noise of a machine: the throughput "
             "of back-to-back AllReduce under the fault, in percent of the throughput with the NIC pulled. "
             "The first quarter of the operations, in which the job learns the NIC's rate, does not count.", ""] + origin(document["machine"])
    for cluster in document["clusters"]:
        rows = dict(cluster["mean_ms"])
        gone = rows.pop("pull")
        lines += [f"{cluster['hosts']} hosts x {cluster['nics']} NICs x {cluster['mbit']} Mbit/s:", ""]
        lines += table(["NIC", *(f"{size}B" for size in gone)],
                       [["pulled, ms an operation", *(num(mean, 3) for mean in gone.values())]]
                       + [[kind, *(num(100 * gone[size] / mean if mean and gone[size] else None)
                                   for size, mean in row.items())] for kind, row in rows.items()])
    total = num(document["checked_elements"], 0)
    return lines + [f"{total} elements checked, none wrong." if not document["errors"] else
                    f"Failed: {'; '.join(document['errors'])}", ""]


def verdict_targets(document):
    kinds = find(document, "kinds") or {}
    trials = sum(row["trials"] for row in kinds.values())
    right = sum(row["right"] for row in kinds.values())
    slowest = max((find(row, "verdict_ms", "max") or 0 for row in kinds.values()), default=None)
    yield Target("Verdicts in the lab", "the finest that the evidence permits, no innocent component",
                 right if kinds else None, lambda v: v == trials, lambda v: f"{v} of {trials} trials",
                 trials >= VERDICT_TRIALS_WANTED)
    yield Target("From the first path down to the verdict on all ranks", "at most 100 ms",
                 slowest, lambda v: v <= 100, lambda v: f"{num(v)} ms at most",
                 trials >= VERDICT_TRIALS_WANTED)


def verdicts(document):
    lines = ["Every fault that the lab makes, under AllReduce of 1 MB with every element "
             "checked. A verdict is right if it names the fault at the finest class that the evidence "
             "permits, and no innocent component. The time runs from the first path that went down (for "
             "a killed rank: from the kill) until all ranks have the verdict.", ""] + origin(document["machine"])
    lines += table(["fault", "trials", "right", "ms to the verdict, median / max", "other verdicts"],
                   [[name, row["trials"], row["right"],
                     f"{num(row['verdict_ms']['median'])} / {num(row['verdict_ms']['max'])}",
                     "; ".join(sorted({", ".join(trial["said"]) or "nothing"
                                       for trial in row["wrong"]}))]
                    for name, row in document["kinds"].items()])
    lines += [f"{num(document.get('checked_elements'), 0)} elements checked, "
              f"{document.get('wrong_elements', '-')} wrong.", ""]
    return lines + ([f"Failed: {document['error'].splitlines()[-1]}", ""] if document["error"] else [])


def stall_picture(document):
    """Returns the SVG of the stalls by kind."""
    trials = document["timed"]["trials"]
    return stall_svg.draw(
        f"The cost of a fault, {size_text(document['bytes'])} AllReduce, beyond the lost bandwidth",
        {kind: [t["stall_ms"] for t in trials if t["kind"] == kind and t["stall_ms"] is not None]
         for kind in document["kinds"]})


def collective_stall_targets(document):
    for collective, row in document["rows"].items():
        for kind, (median, p99) in STALL_MAX_MS.items():
            stall = find(row, "kinds", kind, "stall_ms")
            if stall is None:
                continue
            beside = stall_text(row["kinds"]["none"]["stall_ms"])
            trials = row["kinds"][kind]["trials"]
            yield Target(f"Stall at 1 MB, {collective}, {kind}",
                         f"as AllReduce: median at most {median} ms, p99 at most {p99} ms",
                         stall if stall["median"] is not None else None,
                         lambda v, median=median, p99=p99: v["median"] <= median and v["p99"] <= p99,
                         lambda v, trials=trials, beside=beside:
                             f"{stall_text(v)} ms in {trials} trials (none: {beside})",
                         trials >= STALL_TRIALS_OF_A_COLLECTIVE)


def collective_stalls(document):
    lines = ["Operations of one collective back to back, one job for all its trials, a random NIC and "
             "moment each. The stall is the time that ten operations from the fault on took beyond "
             "the median of later ones with a NIC gone. `none` breaks nothing: the noise of the "
             "machine.", "", *origin(document["machine"])]
    rows = [[collective, num(row["baseline_ms"], 2),
             *(" / ".join(num(row["kinds"][kind]["stall_ms"][of]) for of in ("median", "p99", "max"))
               for kind in row["kinds"]),
             sum(each["named_culprit"] or 0 for each in row["kinds"].values())]
            for collective, row in document["rows"].items()]
    kinds = list(next(iter(document["rows"].values()))["kinds"])
    lines += table(["1 MB", "median ms", *(f"{kind}, median / p99 / max" for kind in kinds),
                    "NIC and host named"], rows)
    failed = {name: row["error"] for name, row in document["rows"].items() if row["error"]}
    return lines + [f"{name} failed: {error.splitlines()[-1]}" for name, error in failed.items()]


def fault_trials(document):
    lines = ["Back-to-back AllReduce, one job for all trials of a size, a random NIC and moment each. "
             "The stall is the time that ten operations from the fault on took beyond the median of "
             "later ones with a NIC gone. The extra time is the longest operation between fault and "
             "repair less the median of the run with all NICs. `none` breaks nothing: the noise of "
             "the machine.", ""]
    if document["bytes"] == MIB:
        lines += ["![Stalls by kind of fault](stall.svg)", ""]
    timed, checked = document["timed"], document["checked"]
    lines += origin(document["machine"])
    lines += [f"Median with all NICs: {num(timed['baseline_ms'], 2)} ms, with one gone "
              f"{num(timed['gone_ms'], 2)} ms ({num(timed['operations'], 0)} operations).", ""]
    rows = []
    for kind, row in document["kinds"].items():
        causes = ", ".join(f"{count} {name}" for name, count in row["verdict_kinds"].items())
        named = "-" if row["named_culprit"] is None else f"{row['named_culprit']}"
        stall = row["stall_ms"]
        rows.append([kind, row["trials"],
                     f"{num(stall['median'])} / {num(stall['p99'])} / {num(stall['max'])}",
                     num(row["median_ms"]), num(row["p90_ms"]),
                     num(row["max_ms"]), row["bound_ms"] or "-",
                     "-" if row["over_bound"] is None else row["over_bound"],
                     f"{num(row['return_median_s'], 2)} / {num(row['return_max_s'], 2)}",
                     num(row["return_extra_max_ms"]), named, causes or "none"])
    lines += table(["kind", "trials", "stall ms, median / p99 / max", "extra ms, median", "p90",
                    "max", "bound", "over", "return s, median / max", "extra at return, max ms", "NIC and host named",
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


def aftermath(document):
    lines = ["One fault for each job, which stays for "
             f"{document['hold_s']:g} s. An operation of {size_text(document['bytes'])} that starts "
             f"{document['from_s']:g} s after it or later counts as slow if it takes more than "
             f"{document['slow_factor']:g} x the median of these operations. `none` breaks nothing.", ""]
    lines += origin(document["machine"])
    lines += table(["kind", "trials", "operations", "slow", "in 1,000", "most in a trial", "median ms",
                    "p99 ms, worst trial", "slowest ms"],
                   [[kind, row["trials"], num(row["operations"], 0), row["slow"],
                     num(row["slow_permille"], 2), row["worst_trial"], num(row["median_ms"], 2),
                     num(row["p99_ms"], 2), num(row["slowest_ms"])]
                    for kind, row in document["kinds"].items()])
    return lines + [line for error in document["errors"]
                    for line in (f"Failed: {error.splitlines()[-1]}", "")]
