#!/usr/bin/env python3
"""r2ccl against Open MPI, Gloo and iperf3 on this machine: our figure over that of the best peer,
the worst ratio first. Peers that are missing are installed.

All programs of a cell run in the same lab, alternately: each repetition runs every program once. A
run's figure is the median of its operations, which run back to back. Each lasts from the start of its
last rank to the end of its last rank, for all ranks read the clock of this machine. Operations with a
root overlap and end in bursts: there the figure of a run is their mean, as in nccl-tests.
The ratio is that of the medians of the runs; its spread is that of the repetitions. "By means" is
the ratio by the means of the operations: where ranks share cores, some operations wait for a core,
and only the mean counts them. The processor time per GB is that of all processes of both ends, user
and system, in a long run less a short one, so that it has no part of the start.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile
import time

import peers
import ratios
import ratios_svg
from lab import (Failed, Lab, Operation, PAYLOAD_SHARE, Place, ROOT, machine, median, output_of,
                 parser, progress, save)
from report_text import origin, place, size_text, wrapped

KIB, MIB = 1 << 10, 1 << 20
TIMEOUT_S = 60
BUILD = ROOT / "build/bench/peers"
# bytes: warm-up operations, timed operations; some tenths of a second each.
PLAN = {8: (100, 2000), KIB: (100, 2000), 64 * KIB: (50, 400), MIB: (5, 60), 16 * MIB: (1, 10)}
CROWD_PLAN = {64 * KIB: (10, 100)}
LARGE = (64 * KIB, MIB, 16 * MIB)
LAB_GOALS = {8: 1, KIB: 1, 64 * KIB: 1 / 1.0, MIB: 1 / 1.3, 16 * MIB: 1 / 1.3}
ONE_HOST_GOALS = {64 * KIB: 1 / 1.1, MIB: 1 / 1.3, 16 * MIB: 1 / 2}
RATE_GOAL, PROCESSOR_GOAL = 0.7, 1.5
BROADCAST_BYTES = 64 * MIB
# The difference of a long and a short broadcast run counts as processor time: its operations.
LONG, SHORT, BROADCAST_WARMUP = 48, 4, 2
GLOO_BYTES_MIN = 64 * KIB
NAMES = {"all_reduce": "AllReduce", "reduce": "Reduce", "broadcast": "Broadcast",
         "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "gather": "Gather",
         "scatter": "Scatter", "alltoall": "AllToAll"}
# The share of the wire's limit that a collective of many bytes shall reach.
WIRE_GOAL, ROOTED_WIRE_GOAL = 0.97, 0.92
WHOLE_VECTOR = ("broadcast", "reduce")  # one host sends or receives all of it
ROOTED = (*WHOLE_VECTOR, "gather", "scatter")


class ThisMachine(Place):
    """The ranks of one host: programs start on this machine itself, outside any lab."""

    lab_command = None

    def __init__(self, r2ccl, ranks):
        self.r2ccl, self.ranks = str(pathlib.Path(r2ccl).resolve()), ranks
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("R2CCL_")}

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="r2bench-")
        self.directory = pathlib.Path(self.scratch.name)
        return self

    def __exit__(self, *unused):
        self.scratch.cleanup()

    def our_bench(self, *options):
        return [self.r2ccl, "bench", "-p", self.ranks, *options]


class CompareLab(Lab):
    @property
    def lab_command(self):
        return f"{self.r2ccl} lab --name {self.name} up {self.hosts} {self.nics} {self.mbit}"

    def our_bench(self, *options):
        return self.on_all(self.r2ccl, "bench", *options)


def command_text(place, command):
    """Returns the command with the variables that it needs, and the lab before it."""
    if not place.lab_command:
        return command
    names = ("R2CCL_LAB", "R2CCL_SOCKET_IFNAME", "R2CCL")
    variables = [f"{name}={shlex.quote(place.environment[name])}" for name in names]
    return f"{place.lab_command} && export {' '.join(variables)} && {command}"


def run_ours(place, options):
    """Returns the command as text, and the seconds of each operation."""
    argv = [str(word) for word in place.our_bench(*options, "-c", 0)]
    log = place.directory / "operations.log"
    log.unlink(missing_ok=True)
    output_of(place.start([*argv, "--op-log", log]), TIMEOUT_S)
    lines = log.read_text().splitlines() if log.exists() else []
    seconds = [Operation(line).seconds for line in lines if not line.startswith("#")]
    if not seconds:
        raise Failed("no operation in the log")
    return shlex.join(argv), seconds


def add_times(cell, program, seconds, command, rooted):
    mean = sum(seconds) / len(seconds) * 1e3
    cell.add(program, mean if rooted else median(seconds) * 1e3, command, mean=mean)


def note_others(cells, seconds=0.3):
    """Records the share of all cores that other programs use now, while no measurement runs."""
    def busy_and_all():
        fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
        return sum(fields) - fields[3] - fields[4], sum(fields)
    before = busy_and_all()
    time.sleep(seconds)
    busy, total = (now - then for now, then in zip(busy_and_all(), before))
    for cell in cells:
        cell.others_cpu.append(round(100 * busy / max(total, 1), 1))


class Group:
    """The cells of one place, which `make_place(options)` makes: sizes of a collective."""

    def __init__(self, make_place, peer_list, plan, cells, collective="all_reduce"):
        self.make_place, self.peers, self.plan, self.cells = make_place, peer_list, plan, cells
        self.collective = collective
        self.rooted = collective in ROOTED

    def select(self, wanted):
        self.cells = {size: cell for size, cell in self.cells.items() if wanted in cell.name}
        return list(self.cells.values())

    def run(self, options, repetitions, missing):
        with self.make_place(options) as place:
            ready, absent = peers.available(place, self.peers, BUILD)
            missing.update(absent)
            for repetition in range(repetitions):
                note_others(self.cells.values())
                for size in self.cells:
                    self.run_ours(place, size)
                for peer in ready:
                    self.run_peer(place, peer)
                progress(f"repetition {repetition + 1}/{repetitions}: " + "; ".join(
                    f"{cell.name} {ratios.figure(ratios.ratio(cell))}"
                    for cell in self.cells.values()))

    def run_ours(self, place, size):
        warmup, iterations = self.plan[size]
        options = ["--collective", self.collective, "-b", size, "-w", warmup, "--iters",
                   iterations, "--out-of-place"]
        cell = self.cells[size]
        try:
            command, seconds = run_ours(place, options)
            add_times(cell, ratios.OURS, seconds, command_text(place, command), self.rooted)
        except Failed as error:
            progress(f"{cell.name}: r2ccl: {error}")
            command = shlex.join(map(str, place.our_bench(*options)))
            cell.fail(ratios.OURS, str(error), command_text(place, command))

    def run_peer(self, place, peer):
        sizes = [size for size in self.cells
                 if size >= GLOO_BYTES_MIN or not isinstance(peer, peers.Gloo)]
        if not sizes:
            return
        measured, why = {}, "no figure"
        try:
            measured = peer.run(place, [(size, *self.plan[size]) for size in sizes], TIMEOUT_S)
        except Failed as error:
            progress(str(error))
            why = str(error)
        for size in sizes:
            command = command_text(place, peer.command)
            if measured.get(size):
                add_times(self.cells[size], peer.name, measured[size], command, self.rooted)
            else:
                self.cells[size].fail(peer.name, why, command)


@dataclasses.dataclass
class Transfer:
    """One run that moves many bytes: its command, rate, and the processor time of all processes."""

    command: str
    bytes_per_s: float
    moved: int
    cpu_s: float


def cpu_s():
    """Returns the processor time of the children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def our_broadcast(lab, operations):
    before = cpu_s()
    command, seconds = run_ours(lab, ["--collective", "broadcast", "-b", BROADCAST_BYTES, "-w",
                                      BROADCAST_WARMUP, "--iters", operations, "--in-place"])
    rate = BROADCAST_BYTES * len(seconds) / sum(seconds)
    return Transfer(command, rate, BROADCAST_BYTES * (operations + BROADCAST_WARMUP),
                    cpu_s() - before)


def iperf3(lab, operations):
    """Moves as many bytes as our_broadcast() over one stream from h0 to h1."""
    count = BROADCAST_BYTES * (operations + BROADCAST_WARMUP)
    shown = json.loads(lab.command("run", "h1", "ip", "-j", "-4", "address", "show", "nic0"))
    address = shown[0]["addr_info"][0]["local"]
    before = cpu_s()
    server = lab.start([lab.r2ccl, "lab", "run", "h1", "iperf3", "-s", "-1", "-B", address,
                        "--forceflush"])
    try:
        any("listening" in line for line in server.stdout)
        argv = [lab.r2ccl, "lab", "run", "h0", "iperf3", "-c", address, "-n", str(count), "-J"]
        result = json.loads(output_of(lab.start(argv), TIMEOUT_S))
        output_of(server, TIMEOUT_S)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    text = f"{{ {shlex.join(server.args)} & sleep 1; {shlex.join(argv)}; }}"
    return Transfer(text, result["end"]["sum_received"]["bits_per_second"] / 8, count,
                    cpu_s() - before)


class Broadcast:
    """64 MB from h0 to h1 against one stream of iperf3: the rate, and the processor time per GB."""

    def __init__(self):
        self.rate = ratios.Cell("broadcast 64 MB, 2x1, rate", RATE_GOAL, "GB/s", True)
        self.processor = ratios.Cell("broadcast 64 MB, 2x1, processor time", PROCESSOR_GOAL, "s/GB")
        self.cells = [self.rate, self.processor]

    def select(self, wanted):
        self.cells = [cell for cell in self.cells if wanted in cell.name]
        return self.cells

    def run(self, options, repetitions, missing):
        programs = {ratios.OURS: our_broadcast, "iperf3": iperf3}
        try:
            peers.install(["iperf3"])
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            missing["iperf3"] = str(error)
            del programs["iperf3"]
        with CompareLab(options.r2ccl, options.name, 2, 1, 0) as lab:
            for repetition in range(repetitions):
                note_others(self.cells)
                for name, transfer in programs.items():
                    self.once(lab, name, transfer)
                progress(f"repetition {repetition + 1}/{repetitions}: " + "; ".join(
                    f"{cell.name} {ratios.figure(ratios.ratio(cell))}" for cell in self.cells))

    def once(self, lab, name, transfer):
        try:
            short, long = transfer(lab, SHORT), transfer(lab, LONG)
        except (Failed, ValueError, KeyError) as error:
            progress(f"broadcast, {name}: {error}")
            for cell in self.cells:
                cell.fail(name, str(error), cell.commands.get(name))
            return
        command = command_text(lab, long.command)
        self.rate.add(name, long.bytes_per_s / 1e9, command)
        self.processor.add(name, (long.cpu_s - short.cpu_s) / (long.moved - short.moved) * 1e9,
                           f"{command}  # less that of: {short.command}")


def lab_group(title, hosts, nics, mbit, sizes, goals, collective="all_reduce"):
    cells = {size: ratios.Cell(f"{NAMES[collective]} {bytes_text(size)}, {title}", goals.get(size))
             for size in sizes}
    return Group(lambda options: CompareLab(options.r2ccl, options.name, hosts, nics, mbit),
                 peers.all_in_lab(collective), PLAN, cells, collective)


def add_wire_limit(group, size, hosts, nics, mbit):
    """Sets the limit of one size in a lab of shaped NICs: the bytes that the busiest host sends or
    receives, over the TCP payload that its NICs carry."""
    share = 1 if group.collective in WHOLE_VECTOR else (hosts - 1) / hosts
    cell = group.cells[size]
    cell.limit = share * size / (nics * mbit * PAYLOAD_SHARE * 1e6 / 8) * 1e3
    cell.share_goal = ROOTED_WIRE_GOAL if group.rooted else WIRE_GOAL
    return group


def host_group(ranks, plan, goals, collective="all_reduce"):
    cells = {size: ratios.Cell(f"{NAMES[collective]} {bytes_text(size)}, one host, {ranks} ranks",
                               goals.get(size)) for size in plan}
    shared = {"btl": "vader,self"}
    others = [peers.LocalOpenMpi("Open MPI, shared memory", shared, collective),
              peers.LocalOpenMpi("Open MPI, loopback TCP",
                                 {"btl": "tcp,self", "btl_tcp_if_include": "lo"}, collective)]
    if ranks <= os.cpu_count():
        others.append(peers.LocalOpenMpi("Open MPI, shared memory, spinning",
                                         {**shared, "mpi_yield_when_idle": 0}, collective))
    return Group(lambda options: ThisMachine(options.r2ccl, ranks), others, plan, cells,
                 collective)


def bytes_text(size):
    return f"{size} B" if size < KIB else size_text(size)


def all_groups():
    small = (8, KIB)
    small_goals = {size: LAB_GOALS[size] for size in small}
    one_host = {size: PLAN[size] for size in LARGE}
    crowds = [host_group(ranks, CROWD_PLAN, {64 * KIB: 1}) for ranks in (8, 16, 32)]
    return [lab_group("2x1", 2, 1, 0, small + LARGE, small_goals),
            lab_group("4x1", 4, 1, 0, small + LARGE, LAB_GOALS),
            lab_group("4x4", 4, 4, 0, LARGE, LAB_GOALS),
            lab_group("4x4 at 250 Mbit/s", 4, 4, 250, LARGE, {}),
            host_group(4, one_host, ONE_HOST_GOALS), host_group(2, one_host, {}), *crowds,
            Broadcast()]


def groups_of_collectives():
    """The collectives but AllReduce, on shaped and unshaped NICs and in memory: no slower than the
    best peer."""
    goals = {size: 1 for size in LARGE}
    for collective in NAMES:
        if collective == "all_reduce":
            continue
        shaped = lab_group("4x4 at 250 Mbit/s", 4, 4, 250, LARGE, goals, collective)
        yield add_wire_limit(shaped, 16 * MIB, 4, 4, 250)
        yield lab_group("4x4", 4, 4, 0, LARGE, goals, collective)
        yield host_group(4, {size: PLAN[size] for size in LARGE}, goals, collective)


def wire_words(cells):
    if all(cell.share_goal is None for cell in cells):
        return []
    return ["The wire's limit is the time of the bytes that the busiest host sends or receives, at "
            "the TCP payload that its NICs carry (1448 of 1514 bytes).", ""]


def report(document, cells, picture):
    """Returns the tables as Markdown. `picture`: the file name of the chart."""
    where = document["machine"]
    lines = [f"# {document['title']}", "", f"![The ratios as bars]({picture})", "",
             place(where), "",
             "\"4x1\" is 4 hosts with one NIC each, unshaped unless a rate is given. \"Others' CPU\" is "
             "the share of the cores that other programs used before the repetitions. "
             f"{document['repetitions']} repetitions. "
             + ", ".join(f"{name} {version}" for name, version in document["peers"].items())
             + ", from Debian. [Profiles](profiles.md) of the missed targets.", "",
             *wire_words(cells), "## Targets", "", *ratios.target_table(cells),
             "## Figures", "", *origin(where)]
    lines += ratios.ratio_table(cells) + ratios.figure_table(cells)
    lines += [f"- {line}" for line in ratios.failures(cells)]
    lines += [f"- Did not run: {name}: {why.splitlines()[-1] if why else ''}"
              for name, why in document["missing_peers"].items()]
    return "\n".join(wrapped(lines)).rstrip() + "\n"


def write(path, text):
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        progress(f"wrote {path}")


def options_of(description):
    p = parser(description)
    p.add_argument("--repetitions", type=int, default=5, help="runs of every program (default 5)")
    p.add_argument("--only", default="", metavar="TEXT", help="only cells with this in their name")
    p.add_argument("--markdown", type=pathlib.Path, help="write the tables here")
    p.add_argument("--svg", type=pathlib.Path, help="write a bar chart of the ratios here")
    p.add_argument("--collectives", action="store_true",
                   help="compare the collectives other than AllReduce")
    p.add_argument("--list", action="store_true", help="print the names of the cells, and end")
    return p.parse_args()


def run(groups, options, repetitions, document):
    missing = document["missing_peers"]
    BUILD.mkdir(parents=True, exist_ok=True)
    for group in groups:
        try:
            group.run(options, repetitions, missing)
        except (Failed, subprocess.TimeoutExpired) as error:
            progress(f"left out: {error}")
            missing[f"a lab of {options.name}"] = str(error)


def main():
    options = options_of(__doc__)
    chosen = groups_of_collectives() if options.collectives else all_groups()
    groups = [group for group in chosen if group.select(options.only)]
    cells = [cell for group in groups for cell in group.select(options.only)]
    if options.list or not cells:
        print("\n".join(cell.name for cell in cells) or "no cell has this in its name")
        return 0 if cells else 2
    repetitions = 1 if options.quick else options.repetitions
    document = {"what": "compare_collectives" if options.collectives else "compare",
                "title": "Collectives against Open MPI's" if options.collectives else
                         "r2ccl against its peers",
                "machine": machine(), "repetitions": repetitions, "missing_peers": {}}
    with contextlib.suppress(KeyboardInterrupt):
        run(groups, options, repetitions, document)
    document |= {"peers": {**peers.versions(), "iperf3": peers.version("iperf3")},
                 "cells": [ratios.document(cell) for cell in ratios.worst_first(cells)]}
    save(options.json, document)
    text = report(document, cells, options.svg.name if options.svg else "compare.svg")
    print(text, end="")
    write(options.markdown, text)
    write(options.svg, ratios_svg.draw(cells))
    return 1 if any(cell.errors.get(ratios.OURS) for cell in cells) else 0


if __name__ == "__main__":
    sys.exit(main())
