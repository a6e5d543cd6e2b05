"""The page of bench/results on schedules for networks with slow hosts."""
import math

from report_text import Target, num, origin, size_text, table

GIB = 1 << 30
NAMES = ("direct", "nested", "packed", "leaf", "split", "recursive_split", "ring", "auto")
PUBLISHED = 64, [50], 2  # hosts, loss and latency of the published figures


def rounded(points):
    """Returns the points without the error of the arithmetic, which would print as -0.00."""
    return round(points, 3) + 0.0


def above(row):
    """Returns the points above the floor; infinitely many for a plan that cannot end."""
    if "error" in row:
        return math.inf
    return rounded(row["overhead_pct"] - row["floor_overhead_pct"])


def reductions(document, **wanted):
    return [row for row in document["rows"] if row["collective"] == "all_reduce"
            and all(row[name] == value for name, value in wanted.items())]


def networks(rows):
    """Returns lists of rows that differ in the algorithm only, each by algorithm."""
    by_network = {}
    for row in rows:
        key = (row["kind"] == "one_way", row["hosts"], tuple(row["loss"]), row["fabric"],
               row["latency_us"], row["bytes"])
        by_network.setdefault(key, {})[row["algorithm"]] = row
    return list(by_network.values())


def best(network):
    return min(network.values(), key=above)


def loss_text(loss):
    if len(loss) == 1:
        return f"{loss[0]:g}"
    return f"{len(loss)} hosts, {min(loss):g} to {max(loss):g}"


def where(row):
    return f"{row['hosts']} hosts, loss {loss_text(row['loss'])} %"


def worst(rows, pick):
    """Returns (points, row, networks, networks within a point) of the network where the row that
    `pick` returns is farthest above its floor."""
    picked = [row for row in map(pick, networks(rows)) if row]
    if not picked:
        return None
    row = max(picked, key=above)
    return above(row), row, len(picked), sum(above(each) <= 1 for each in picked)


def worst_text(value):
    points, row, count, within = value
    if points == math.inf:
        return f"one has no way between two hosts ({where(row)}); {within} of {count}"
    return f"{num(points, 2)} points at most ({row['used']}, {where(row)}); {within} of {count}"


def published(document, size):
    hosts, loss, latency = PUBLISHED
    rows = [row for row in reductions(document, hosts=hosts, loss=loss, latency_us=latency,
                                      bytes=size)]
    return min(rows, key=above) if rows else None


def published_targets(document):
    for size, known, goal in ((GIB, 5.5, 5), (8 * GIB, 4.1, 3)):
        for name, limit in (("best known", known), ("goal", goal)):
            yield Target(f"64 hosts, loss 50 %, 2 us, {size // GIB} GB: overhead, {name}",
                         f"at most {limit} %", published(document, size),
                         lambda row, limit=limit: row["overhead_pct"] <= limit,
                         lambda row: f"{num(row['overhead_pct'], 2)} % ({row['used']}; "
                                     f"floor {num(row['floor_overhead_pct'], 2)} %)")


def steady(document):
    """Returns the pairs of rows of which the second one has twice the rounds."""
    rows = [row for row in reductions(document, kind="steady") if "error" not in row]
    pairs = {}
    for row in rows:
        key = row["hosts"], tuple(row["loss"]), row["fabric"], row["algorithm"]
        pairs.setdefault(key, []).append(row)
    for pair in pairs.values():
        if len(pair) == 2:
            yield tuple(sorted(pair, key=lambda row: row["bytes"]))


def without_fill(row, twice):
    """Returns the overhead of the rounds in between."""
    share = [twice[name] - row[name] for name in ("time_s", "faultfree_ring_s")]
    return 100 * (share[0] / share[1] - 1)


def steady_worst(document, fabric, one):
    """Returns (points, row) of the best algorithm without fill and drain, where that is worst, among
    the networks of one slow host, or of several."""
    least = {}
    for row, twice in steady(document):
        if row["fabric"] != fabric or (len(row["loss"]) == 1) != one:
            continue
        key = row["hosts"], tuple(row["loss"])
        points = rounded(without_fill(row, twice) - row["floor_overhead_pct"])
        least[key] = min(least.get(key, (points, row)), (points, row), key=lambda pair: pair[0])
    return max(least.values(), key=lambda pair: pair[0]) if least else None


def excess(row):
    """Returns the percentage by which the time exceeds the floor."""
    return rounded(100 * (row["time_s"] / row["floor_s"] - 1))


def other_rows(document):
    rows = [row for row in document["rows"] if row["collective"] != "all_reduce"]
    return sorted(rows, key=excess, reverse=True)


def schedule_targets(document):
    def within(value):
        return value[0] <= 1

    cells = [(f"{kind}, {fabric}, {latency} us", reductions(document, kind=key, fabric=fabric,
                                                           latency_us=latency))
             for kind, key in (("One slow host", "one"), ("Random vectors", "vector"),
                               ("Slow in one direction", "one_way"))
             for fabric, latency in (("flat", 0), ("rails", 0), ("flat", 2))]
    for words, rows in cells:
        if not rows:
            continue
        yield Target(f"{words}: best plan above the floor", "at most 1 point in each network",
                     worst(rows, best), within, worst_text)
        yield Target(f"{words}: automatic choice above the floor",
                     "at most 1 point in each network", worst(rows, lambda net: net.get("auto")),
                     within, worst_text)
    for words, fabric, one in (("One slow host, flat", "flat", True),
                               ("Random vectors, flat", "flat", False),
                               ("Random vectors, rails", "rails", False)):
        yield Target(f"{words}, 0 us, without fill and drain: best plan above the floor",
                     "at most 1 point in each network", steady_worst(document, fabric, one), within,
                     lambda value: f"{num(value[0], 2)} points at most ({value[1]['used']}, "
                                   f"{where(value[1])})")
    yield from published_targets(document)
    others = other_rows(document)
    yield Target("Other collectives: time above the floor", "at most 1 %",
                 others[0] if others else None, lambda row: excess(row) <= 1,
                 lambda row: f"{num(excess(row), 2)} % at most ({row['collective']}, {where(row)})")


def points_text(row):
    if row is None:
        return "-"
    if "error" in row:
        return "**no way**"
    return num(above(row), 2) + (f" ({row['used']})" if row["algorithm"] == "auto" else "")


def network_table(rows):
    found = sorted(networks(rows), key=lambda net: above(best(net)), reverse=True)
    columns = [name for name in NAMES if any(name in network for network in found)]
    lines = []
    for network in found:
        row = best(network)
        cells = [points_text(network.get(name)) for name in columns]
        lines.append([row["hosts"], loss_text(row["loss"]), num(row["floor_overhead_pct"], 2),
                      num(row["overhead_pct"], 2), *cells])
    return table(["hosts", "loss %", "floor %", "best plan %", *columns], lines)


def published_table(document):
    hosts, loss, latency = PUBLISHED
    rows = reductions(document, hosts=hosts, loss=loss, latency_us=latency)
    return table(["bytes", "algorithm", "overhead %", "floor %", "published %", "best known %",
                  "goal %"],
                 [[size_text(row["bytes"]), row["used"], num(row["overhead_pct"], 2),
                   num(row["floor_overhead_pct"], 2), "2 to 6",
                   *((5.5, 5) if row["bytes"] == GIB else (4.1, 3))]
                  for row in sorted(rows, key=lambda row: -row["overhead_pct"])])


def steady_table(document):
    rows = [[row["fabric"], row["hosts"], loss_text(row["loss"]), row["algorithm"],
             num(row["floor_overhead_pct"], 2), num(row["overhead_pct"], 2),
             num(without_fill(row, twice), 2),
             num(rounded(without_fill(row, twice) - row["floor_overhead_pct"]), 2)]
            for row, twice in steady(document)]
    rows.sort(key=lambda row: -float(row[-1]))
    return table(["fabric", "hosts", "loss %", "algorithm", "floor %", "with fill and drain %",
                  "without %", "without, above the floor"], rows)


def other_table(document):
    return table(["collective", "hosts", "loss of host 0 %", "root", "algorithm", "time ms",
                  "floor ms", "above the floor %"],
                 [[row["collective"], row["hosts"], loss_text(row["loss"]), row["root"], row["used"],
                   num(1000 * row["time_s"], 2), num(1000 * row["floor_s"], 2), num(excess(row), 2)]
                  for row in other_rows(document)])


def schedules(document):
    lines = ["Simulated by `r2ccl sim plan` ([the model](../../docs/simulation.md#plans)): hosts of "
             f"{document['nics']} NICs with 50 Gbit/s each, one rank a host, 1 GB in an AllReduce. "
             "All other hosts are whole. The base is the ring on the same network without losses. "
             "The columns of the algorithms are the points by which the overhead exceeds that of the "
             "floor of the same fabric, with fill and drain. The worst network is first: the one "
             "whose best plan is farthest above its floor. On rails a plan "
             "may need a pair of hosts that share no rail: there is no way, and it cannot end. "
             "[Schedules](../../docs/schedules.md) explains the algorithms and the floor. Networks "
             "of more than 32 hosts have no automatic choice, some of 64 and all larger ones have "
             "`nested` alone, and there is no "
             "network of 1,024 hosts: these simulations take minutes each.", ""] + origin(document["machine"])
    for fabric, latency in (("flat", 0), ("flat", 2), ("rails", 0)):
        rows = [row for kind in ("one", "vector")
                for row in reductions(document, kind=kind, fabric=fabric, latency_us=latency)
                if row["bytes"] <= GIB]
        if rows:
            lines += [f"### AllReduce, fabric {fabric}, {latency} us", "", *network_table(rows)]
    lines += ["### Slow in one direction, 0 us", "",
              "The first slow host has lost this part of its bandwidth when it sends, the second one "
              "when it receives, and so on: on all of its NICs, so the rails make no difference to "
              "the pairs.", ""]
    for fabric in ("flat", "rails"):
        rows = reductions(document, kind="one_way", fabric=fabric)
        if rows:
            lines += [f"Fabric {fabric}:", "", *network_table(rows)]
    lines += ["### Beside the published figures", "",
              "64 hosts, one of which has lost 50 %, 2 us a hop. The published figures are those of "
              "OptCC (arXiv 2606.01680) for losses up to 50 %; the best known ones are of another "
              "simulation of its four stages.", "", *published_table(document)]
    lines += ["### Fill and drain", "",
              "The same plans with 128 and with 256 rounds, or with 512 and 1,024 where several hosts "
              "are slow, 0 us. The difference of the two times is that of many rounds without the "
              "first and the last one.", "", *steady_table(document)]
    lines += ["### Other collectives", "",
              "Host 0 has lost bandwidth, and the choice is automatic. Flat fabric, 0 us.", "",
              *other_table(document)]
    return lines
