#!/usr/bin/env python3
"""Stock NCCL without faults: the plugin beside NCCL's own sockets, taking turns in one run.

    requests  the cost of a request between two processes of this host (nccl_requests.cc)
    loopback  AllReduce of two ranks over lo
    lab       AllReduce of --hosts ranks in the lab, each over --nics NICs of --mbit Mbit/s

on the emulated GPUs of tests/nccl, which take a good part of both cores: a ratio near 1 over lo may
be theirs. Every element is checked. A ratio is r2ccl's time over that of the sockets, or its
bandwidth over theirs; the medians of --rounds runs.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from lab import Failed, Lab, PAYLOAD_SHARE, machine, median, parser, progress, save, ROOT
import nccl_faults

sys.path.insert(0, str(ROOT / "tests" / "nccl"))
import job  # noqa: E402

SIZES = (64 << 10, 1 << 20, 16 << 20, 64 << 20)
# The table, and further variables. Between processes of one host r2ccl has shared memory, else.
REQUESTS = {"r2ccl": ("ncclNetPlugin_v12", {}), "r2ccl, TCP": ("ncclNetPlugin_v12", {"R2CCL_SHM": "0"}),
            "sockets": ("ncclNetSocket", {})}
LIMIT_S = 120


def requests_once(setup, network, share):
    """Returns {bytes: {name: us}}."""
    table, more = REQUESTS[network]
    # NCCL's sockets call CUDA, too.
    environment = setup.environment(0, {"R2CCL_SOCKET_IFNAME": "lo", "R2CCL_DEBUG": "WARN",
                                        "LD_PRELOAD": str(setup.programs / "libemulated_cuda.so"),
                                        **more})
    library = setup.plugin or setup.library
    done = subprocess.run([setup.programs.parent.parent / "nccl_requests", library, table, str(share)],
                          env=environment, text=True, capture_output=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise Failed(f"nccl_requests over {network}: {done.stderr[-500:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line.pop("bytes"): line for line in lines}


def requests(setups, options):
    rounds = {network: [] for network in REQUESTS}
    for number in range(options.rounds):
        progress(f"requests, round {number + 1} of {options.rounds}")
        for network in REQUESTS:
            setup = setups[network.partition(",")[0]]
            rounds[network].append(requests_once(setup, network, 0.1 if options.quick else 1))
    table = {network: {size: {name: median([each[size][name] for each in all_of_them])
                              for name in all_of_them[0][size]} for size in all_of_them[0]}
             for network, all_of_them in rounds.items()}
    for network in list(REQUESTS)[:-1]:
        for size, figures in table[network].items():
            print(f"{network}, {size} bytes: " + ", ".join(
                f"{name} {value:.1f} to {table['sockets'][size][name]:.1f} (ratio "
                f"{value / table['sockets'][size][name]:.2f})" for name, value in figures.items()))
    return table


def loop_once(setup, ranks, size, seconds, prefix, environment):
    """Returns the algorithm bandwidth of an AllReduce in MB/s, by rank 0's median."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="nccl-speed-"))
    running = job.Job(setup, folder, "loop", ranks,
                      ["--patience", LIMIT_S, "--bytes", size, "--seconds", seconds], prefix=prefix,
                      environment=environment)
    try:
        codes = running.wait(LIMIT_S)
        outputs = [running.output(rank) for rank in range(ranks)]
    finally:
        running.end()
        shutil.rmtree(folder)
    if codes != [0] * ranks:
        raise Failed(f"{codes}: {outputs}")
    line = next(line for line in outputs[0].splitlines() if line.startswith("{"))
    return size / json.loads(line)["median_us"]


def loops(setups, options, ranks, prefix, network_of):
    table = {}
    for size in options.sizes:
        found = {network: [] for network in setups}
        for number in range(options.rounds):
            progress(f"{size} bytes, round {number + 1} of {options.rounds}")
            for network, setup in setups.items():
                found[network].append(loop_once(setup, ranks, size, options.seconds, prefix,
                                                lambda rank: network_of(setup)))
        row = table[size] = {network: median(values) for network, values in found.items()}
        row["ratio"] = row["r2ccl"] / row["sockets"]
        print(f"{size:9} bytes: r2ccl {row['r2ccl']:.1f} MB/s, sockets {row['sockets']:.1f}, ratio "
              f"{row['ratio']:.2f}; runs " + json.dumps({name: [round(value, 1) for value in values]
                                                         for name, values in found.items()}))
    return table


def lab_environment(setup):
    # NCCL's bootstrap has the management network, the data the NICs.
    return {"NCCL_SOCKET_IFNAME": "mgmt" if setup.plugin else "nic", "R2CCL_SOCKET_IFNAME": "nic",
            "R2CCL_DEBUG": "WARN"}


def in_lab(setups, options):
    with Lab(options.r2ccl, options.name, options.hosts, options.nics, options.mbit) as lab:
        table = loops(setups, options, options.hosts,
                      lambda rank: (lab.r2ccl, "lab", "--name", lab.name, "run", f"h{rank}"),
                      lab_environment)
    factor = 2 * (options.hosts - 1) / options.hosts
    line = options.nics * options.mbit / 8 * PAYLOAD_SHARE / factor
    for row in table.values():
        row["of_line"] = row["r2ccl"] / line
    print("of the line: " + ", ".join(f"{size} bytes {row['of_line']:.2f}"
                                      for size, row in table.items()))
    return table


def read_command_line():
    p = parser(__doc__)
    p.add_argument("--parts", nargs="+", choices=("requests", "loopback", "lab"),
                   default=["requests", "loopback", "lab"])
    p.add_argument("--hosts", type=int, default=4)
    p.add_argument("--nics", type=int, default=4)
    p.add_argument("--mbit", type=int, default=100, help="of each NIC")
    p.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of an operation in bytes")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=3, help="of a run")
    p.add_argument("--version", default=nccl_faults.nccl_run.VERSION, help="of NCCL")
    options = p.parse_args()
    options.networks = ["r2ccl", "sockets"]
    if options.quick:
        options.rounds, options.seconds, options.sizes = 1, 0.5, SIZES[:2]
    return options


def main():
    options = read_command_line()
    document = {"machine": machine(), "parts": {}}
    with tempfile.TemporaryDirectory() as folder:
        setups = nccl_faults.setups(options, pathlib.Path(folder))
        parts = {"requests": lambda: requests(setups, options),
                 "loopback": lambda: loops(setups, options, 2, lambda rank: (),
                                           lambda setup: {"R2CCL_DEBUG": "WARN"}),
                 "lab": lambda: in_lab(setups, options)}
        for part in options.parts:
            print(part)
            document["parts"][part] = parts[part]()
    save(options.json, document)


if __name__ == "__main__":
    main()
