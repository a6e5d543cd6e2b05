"""The page of bench/results on PyTorch jobs."""
from report_text import Target, find, num, origin, table

QUIET_LOAD = 1
NAMES = {"reproducible": "reproducible mode", "default": "default mode"}


def interval_text(values, unit="%", digits=2):
    return f"{num(values['mean'], digits)} {unit} (95 %: {num(values['low'], digits)} to " \
           f"{num(values['high'], digits)}; {values['blocks']} pairs)"


def same_text(value):
    weights = {hash for run in value["weights"] for hash in run}
    return f"{value['different_losses']} of {min(value['steps'])} losses differ, {len(weights)} " \
           f"{'hash' if len(weights) == 1 else 'different hashes'} of weights on {len(value['weights'][0])} ranks"


def until_view(value):
    """Returns whether no loss differs before the first change of view."""
    first, view = value["first_different_step"], value["first_view_step"]
    return first is None or (view is not None and first >= view)


def until_view_text(value):
    first = value["first_different_step"]
    return f"first view after step {value['first_view_step']}, first other loss " + \
        ("nowhere" if first is None else f"in step {first}")


def spread_of_losses(document):
    """Returns (final loss under faults, least and greatest of the runs without faults)."""
    final, others = find(document, "bits", "default", "final_loss"), find(document, "bits",
                                                                         "other_orders")
    return (final[1], min(others), max(others)) if final and others else None


def half_width(values):
    return (values["high"] - values["low"]) / 2


def bit_targets(document):
    steps, faults = find(document, "bits", "steps"), find(document, "bits", "faults")
    head = f"{steps} steps of DDP, {faults} faults"
    yield Target(f"{head}, reproducible mode: bits", "the run without faults",
                 find(document, "bits", "reproducible"), lambda value: value["equal"], same_text)
    yield Target(f"{head}, default mode: bits", "the same up to the first change of view",
                 find(document, "bits", "default"), until_view, until_view_text)
    yield Target(f"{head}, default mode: final loss",
                 "within five runs without faults in other orders", spread_of_losses(document),
                 lambda value: value[1] <= value[0] <= value[2],
                 lambda value: f"{value[0]:.9f} ({value[1]:.9f} to {value[2]:.9f})")


    for name in (find(document, "libraries") or {}):
        if name != "steps":
            yield Target(f"{name}, {document['libraries']['steps']} steps, 3 faults: bits",
                         "the run without faults", document["libraries"][name],
                         lambda value: value["equal"], same_text)


def cost_targets(document):
    four = find(document, "cost4")
    yield Target("Step time, one NIC of four lost on one of two hosts",
                 "at most what the lost bandwidth explains", four,
                 lambda value: value["cost_percent"]["high"] <= value["explained_percent"],
                 lambda value: f"{interval_text(value['cost_percent'])}; explained: "
                               f"{num(value['explained_percent'], 2)} %")
    yield Target("Step time, one NIC of eight lost, communication overlapped",
                 "under 1 % at the upper end, known to 0.5 %", find(document, "cost8", "cost_percent"),
                 lambda value: value["high"] < 1 and half_width(value) <= 0.5, interval_text)
    p50 = find(document, "serving", "cost_of_median_percent")
    yield Target("Requests, one NIC of four lost: p50", "under 3 %",
                 p50, lambda value: value["mean"] < 3, interval_text,
                 enough=p50 is None or half_width(p50) <= 3)
    yield Target("Requests: the worst one over the median, while NICs fail and return",
                 "under 100 ms", find(document, "serving"),
                 lambda value: value["worst_extra_ms"] < 100,
                 lambda value: f"{num(value['worst_extra_ms'])} ms (without faults "
                               f"{num(value['worst_extra_clean_ms'])} ms)")


def overhead_targets(document):
    medians = find(document, "overhead")
    yield Target("A call at world size 1 over its C calls, median of 10,000", "10 us or less",
                 medians and medians["method and wait"] - medians["C calls by ctypes"],
                 lambda value: value <= 10,
                 lambda value: f"{num(value, 2)} us (C calls {num(medians['C calls by ctypes'], 2)} "
                               f"us, dist.all_reduce {num(medians['dist.all_reduce'], 2)} us)")


def gloo_targets(document):
    over = find(document, "gloo1", "r2ccl_over_gloo_percent")
    yield Target("Step time over Gloo's, one NIC, no fault", "no slower, known to 2 %", over,
                 lambda value: value["low"] <= 0, interval_text,
                 enough=over is None or half_width(over) <= 2)
    yield Target("Communication time of Gloo on one NIC over r2ccl's on four", "at least 3.6",
                 find(document, "gloo4", "gloo_over_r2ccl"), lambda value: value["gloo"] >= 3.6,
                 lambda value: f"{num(value['gloo'], 2)} (Gloo on four NICs: "
                               f"{num(value['gloo, all NICs'], 2)})")
    yield Target("A run under Gloo after a pulled cable", "dead", find(document, "picture", "gloo"),
                 lambda value: value["stalled"] or value["status"] != 0,
                 lambda value: f"{len(value['losses'])} steps, then none")


def torch_targets(document):
    """Returns the targets; the missed ones come first."""
    targets = [*bit_targets(document), *cost_targets(document),
               *overhead_targets(document), *gloo_targets(document)]
    order = {"**not reached**": 0, "-": 1, "too few to say": 2}
    return sorted(targets, key=lambda target: order.get(target.row[3], 3))


def bits_lines(document):
    rows = []
    for mode, words in NAMES.items():
        value = document["bits"][mode]
        rows.append([words, same_text(value), until_view_text(value),
                     *(f"{num(value[name][0])}, {num(value[name][1])}"
                       for name in ("median_ms", "worst_ms"))])
    losses = ", ".join(f"{loss:.9f}" for loss in document["bits"]["other_orders"])
    return ["### Bits", "", "4 hosts x 4 NICs x 250 Mbit/s. The faults, one after the other, each "
            "on another NIC: down, pull, hole, hole-tx, hole-rx, slow to 25 Mbit/s, slow to 10 %, "
            "1 % of the packets lost, pull, hole. Times are those without and with faults.", "",
            *table(["mode", "against the run without faults", "where", "median step ms",
                    "worst step ms"], rows),
            f"Final losses of five runs without faults in the default mode, in which the ranks took "
            f"the shares of the batch in five orders: {losses}. The loss is the mean over all "
            "ranks.", ""]


def cost_lines(document):
    rows = []
    for name, words in (("cost4", "DDP, one NIC of four"), ("cost8", "DDP, one NIC of eight"),
                        ("serving", "requests, one NIC of four")):
        value = document.get(name)
        if not value or not value["cost_percent"]:
            continue
        rows.append([words, " / ".join(str(value["steps"][kind]) for kind in ("whole", "lost")),
                     *(" / ".join(num(value[key][kind]) for kind in ("whole", "lost"))
                       for key in ("median_ms", "worst_ms")),
                     interval_text(value["cost_percent"]),
                     interval_text(value["cost_of_median_percent"]),
                     num(value.get("communication_percent"))])
    return ["### The cost of a lost NIC", "",
            "2 hosts of 250 Mbit/s NICs. Blocks of steps with all NICs and with one cable out take "
            "turns in one job, each time with another NIC; the first quarter of a block does not "
            "count. A pair compares a block with the two beside it. Communication is the share of a "
            "step that two jobs of one rank each do not need; a negative one is noise. Left of the "
            "slash: all NICs.", "",
            *table(["job", "steps", "median ms", "worst ms", "cost of the mean",
                    "cost of the median", "communication %"], rows)]


def worst_lines(value):
    rows = [[num(each["ms"]), each["step"], each["change"],
             "-" if each["requests_since"] is None else each["requests_since"]]
            for each in value.get("worst_requests", [])]
    return table(["slowest requests, ms", "number", "last change before its end",
                  "requests since"], rows) if rows else []


def latency_lines(document):
    value = document["serving"]
    rows = [[words, *(num(value["latency_ms"][name][key]) for key in ("p50", "p99", "worst"))]
            for name, words in (("faults", "a cable out half of the time"), ("clean", "no fault"))]
    same = "The answers are the same in both." if value["same_answers"] else \
        "**The answers differ.**"
    return ["### Requests", "", f"{value['requests']} requests to a tensor-parallel transformer on "
            f"two hosts of four NICs, one after the other. All requests count here, those during "
            f"which a NIC failed or returned too. {same}", "",
            *table(["", "p50 ms", "p99 ms", "worst ms"], rows), *worst_lines(value)]


def gloo_lines(document):
    rows = []
    for name in ("gloo1", "gloo4"):
        value = document.get(name)
        for kind, medians in (value["median_ms"] if value else {}).items():
            rows.append([value["nics"], "no communication" if kind == "alone" else kind,
                         ", ".join(num(each) for each in medians),
                         num(value["communication_ms"].get(kind))])
    return ["### Gloo, without faults", "", "2 hosts, runs in turn. With one NIC the model is the "
            "one of the cost; with four it is larger and the batch smaller, so that the network is "
            "the limit. Gloo uses one NIC; told of four, it takes another one for each "
            "operation.", "",
            *table(["NICs", "backend", "median step ms, run by run", "communication ms"], rows)]


def restart_lines(document):
    value = document["restart"]
    rows = [[words, num(value[name].get("lost_s"), 2), value[name].get("steps_redone", "-"),
             "yes" if value[name]["finished"] else "**no**"]
            for name, words in (("r2ccl", "r2ccl"), ("gloo", "Gloo, torchrun and checkpoints"))]
    return ["### A restart from a checkpoint", "", f"A cable is pulled for good after step "
            f"{value['fault_step']} of {value['steps']}, with a checkpoint every "
            f"{value['checkpoint_every']} steps. Gloo's job has a timeout of 10 s (torch's default "
            "is 30 minutes), its agents meet over the management network, and its restart gets a "
            "NIC that works, as if a person had named it at once.", "",
            *table(["job", "time lost s", "steps redone", "finished"], rows)]


def measured_lines(document):
    rows = [[name, of["date"], of["commit"], of["load_before"]]
            for name, of in document.get("measured", {}).items() if name in document]
    return ["### When", "", "The sections were measured one after the other, some in a run of their "
            "own (`--only`). The load is that of the two cores just before, with the other work of "
            "the machine.", "", *table(["section", "date", "commit", "load"], rows)]


def torch_jobs(document):
    lines = ["[The examples](../../docs/pytorch_examples.md) on torch, in the lab. The ranks of all "
             "hosts compute on the same two cores, so times vary with the other work of the "
             "machine.", ""] + origin(document["machine"])
    busiest = max((of["load_before"] for of in document.get("measured", {}).values()), default=0)
    if busiest > QUIET_LOAD:
        lines += [f"**The machine was not quiet: its load was up to {num(busiest)} from other work. "
                  "The times show little; bits and recoveries do not depend on it.**", ""]
    for name, section in (("bits", bits_lines), ("cost4", cost_lines), ("serving", latency_lines),
                          ("gloo1", gloo_lines), ("restart", restart_lines)):
        if name in document:
            lines += section(document)
    lines += measured_lines(document)
    if document["errors"]:
        lines += ["Errors: " + "; ".join(document["errors"]), ""]
    return lines
