#!/usr/bin/env python3
"""Times of AllReduce and of the other collectives on networks with slow hosts, simulated by `r2ccl
sim plan`: 4 to 256 hosts of eight NICs with 50 Gbit/s each, one host or up to half of them slow.

Every cell is one plan on one network: its overhead over the fault-free ring, and the overhead of the
floor, which no plan can beat. Large messages; the latency is 0 or 2 us. The simulation is exact, so a
cell needs one run. Cells whose simulation takes long have fewer losses.
"""
import concurrent.futures
import json
import os
import random
import subprocess
import sys

from lab import machine, parser, progress, save

NICS = 8
GIB = 1 << 30
LOSSES = (12.5, 25, 37.5, 50, 62.5, 75)
FEW_LOSSES = (25, 50)
VECTORS = 3  # random vectors of each number of hosts
ALGORITHMS = ("direct", "nested", "leaf", "split", "ring", "auto")
VECTOR_ALGORITHMS = ("direct", "nested", "packed", "recursive_split", "ring", "auto")
ONE_WAY_ALGORITHMS = ("direct", "nested", "packed", "ring", "auto")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
OTHERS = ("all_gather", "reduce_scatter", "all_to_all", *ROOTED)


def cell(hosts, loss, algorithm, **more):
    """Returns the values of one run. So many bytes have at least 128 rounds, and among few hosts many
    more."""
    return {"collective": "all_reduce", "kind": "one" if len(loss) == 1 else "vector",
            "fabric": "flat", "latency_us": 0, "root": 0, "hosts": hosts, "loss": list(loss),
            "algorithm": algorithm, "bytes": GIB, **more}


def vectors(hosts, count=VECTORS):
    """Returns random losses of two or more hosts, at most half of them, in whole NICs."""
    for number in range(count):
        rng = random.Random(1000 * hosts + number)
        slow = rng.randint(2, hosts // 2)
        yield [12.5 * rng.randint(1, 6) for _ in range(slow)]


def one_way_cells(hosts, count, fabric):
    """Yields networks whose slow hosts are slow in one direction: the first, third and so on when they
    send, and the others when they receive."""
    for loss in ([50], [25, 25], [40] * hosts, *vectors(hosts, count)):
        for algorithm in ONE_WAY_ALGORITHMS:
            yield cell(hosts, loss, algorithm, kind="one_way", fabric=fabric)


def small_cells(hosts, losses, count, **more):
    for loss in losses:
        for algorithm in ALGORITHMS:
            yield cell(hosts, [loss], algorithm, **more)
    for loss in vectors(hosts, count):
        for algorithm in VECTOR_ALGORITHMS:
            yield cell(hosts, loss, algorithm, **more)


def large_cells():
    """Yields the cells of 64 hosts and more, whose simulation takes long."""
    for algorithm in ("direct", "nested"):
        yield cell(64, [25], algorithm)
        yield from (cell(64, loss, algorithm) for loss in vectors(64, 1))
    for hosts in (64, 128, 256):
        yield cell(hosts, [50], "nested")
    # The network of the published figures. An exchange of 8 GB takes many minutes to simulate.
    for algorithm in ("direct", "nested", "ring"):
        yield cell(64, [50], algorithm, latency_us=2)
    yield cell(64, [50], "nested", latency_us=2, bytes=8 * GIB)


def steady_cells(sizes):
    """Yields pairs of cells of which the second one has twice the rounds, 256, and 1,024 where several
    hosts are slow: packed trees come back after 32 rounds. So the difference of their times is that of
    many rounds without the first and the last one."""
    for hosts in sizes:
        stars = ("direct",) if hosts <= 32 else ()
        plans = [([loss], "flat", ("nested", *stars), GIB // 4, 128) for loss in FEW_LOSSES]
        if hosts <= 32:
            plans += [(loss, fabric, ("packed", "direct"), GIB, 512) for loss in vectors(hosts, 2)
                      for fabric in ("flat", "rails")]
        for loss, fabric, algorithms, size, rounds in plans:
            for algorithm in algorithms:
                for factor in (1, 2):
                    yield cell(hosts, loss, algorithm, kind="steady", fabric=fabric,
                               bytes=factor * size, segment=size // rounds // hosts)


def other_cells(sizes):
    for hosts in sizes:
        for loss in FEW_LOSSES:
            for collective in OTHERS:
                yield cell(hosts, [loss], "auto", collective=collective)
                if collective in ROOTED:
                    yield cell(hosts, [loss], "auto", collective=collective, root=1)


def cells(quick):
    if quick:
        yield from small_cells(4, FEW_LOSSES, 1)
        yield from other_cells((4,))
        yield from steady_cells((4,))
        return
    for hosts in (4, 8, 16):
        yield from one_way_cells(hosts, 2, "flat")
        yield from one_way_cells(hosts, 1, "rails")
        yield from small_cells(hosts, LOSSES, VECTORS)
        yield from small_cells(hosts, FEW_LOSSES, 1, latency_us=2)
        yield from small_cells(hosts, FEW_LOSSES, 2, fabric="rails")
    yield from small_cells(32, FEW_LOSSES, 1)
    yield from small_cells(32, [50], 1, fabric="rails")
    yield from other_cells((8, 16))
    yield from steady_cells((8, 16, 32, 64))
    yield from large_cells()


def rates_of(one):
    """Returns the options that give the rates of all NICs."""
    if one["kind"] != "one_way":
        return "--loss", ",".join(map(str, one["loss"]))
    slow = [f"{NICS}x{rate}:1000" if host % 2 == 0 else f"{NICS}x1000:{rate}"
            for host, rate in enumerate(round(1000 - 10 * loss) for loss in one["loss"])]
    whole = one["hosts"] - len(slow)
    return "--view", "/".join([*slow, *([f"{whole}*{NICS}x1000"] if whole else [])])


def run(r2ccl, one):
    """Returns the cell with its times, or with the error of a plan that needs a pair of hosts without
    a common rail."""
    command = [r2ccl, "sim", "plan", one["collective"], "--nics", NICS, "--hosts", one["hosts"],
               "--bytes", one["bytes"], "--fabric", one["fabric"], "--algorithm", one["algorithm"],
               "--latency-us", one["latency_us"], "--root", one["root"], "--json", "-",
               *rates_of(one),
               *(["--segment", one["segment"]] if "segment" in one else [])]
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          check=False)
    if "no pair of NICs carries" in done.stderr:
        return {**one, "error": done.stderr.strip().rpartition(": ")[2]}
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr[-400:]}")
    told = json.loads(done.stdout)
    return {**one, "used": told["algorithm"],
            **{name: told[name] for name in ("overhead_pct", "floor_overhead_pct", "time_s",
                                             "floor_s", "faultfree_ring_s", "messages")}}


def main():
    options = parser(__doc__).parse_args()
    document = {"what": "schedules", "machine": machine(), "nics": NICS, "rows": []}
    every = list(cells(options.quick))
    # The longest ones begin first.
    every.sort(key=lambda one: -one["bytes"] * one["hosts"] ** 2)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for row in pool.map(lambda one: run(options.r2ccl, one), every):
            document["rows"].append(row)
            times = row.get("error") or (f"{row['overhead_pct']:.2f} %, floor "
                                         f"{row['floor_overhead_pct']:.2f} %")
            progress(f"{row['collective']}, {row['hosts']} hosts, {row['fabric']}, loss "
                     f"{row['loss']}, {row['algorithm']}: {times}")
    save(options.json, document)


if __name__ == "__main__":
    main()
