#!/usr/bin/env python3
"""The time of torch.distributed.new_group with r2ccl and with Gloo, all ranks on this host, or with
--lab one on each host of a lab. A job has the median over its groups, on rank 0. Jobs of the two
backends take turns, and a line has the medians over them."""
import argparse
import contextlib
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

import lab

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parsed():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=ROOT / "build/torch-venv/bin/python",
                        help="with torch; scripts/torch-venv.sh makes the default")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--groups", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=3, help="of each backend and number of ranks")
    parser.add_argument("--r2ccl", default=ROOT / "build/r2ccl")
    parser.add_argument("--lab", action="store_true", help="each rank on a host of its own")
    parser.add_argument("--nics", type=int, default=4, help="of each host in the lab")
    parser.add_argument("--mbit", type=int, default=250, help="of each NIC in the lab")
    parser.add_argument("--rank", help=argparse.SUPPRESS)  # BACKEND RANK RANKS HOST:PORT
    return parser.parse_args()


def run_rank(backend, rank, ranks, place, groups):
    """One rank of a job. Rank 0 prints the median time of new_group in ms."""
    import torch
    import torch.distributed as dist
    if backend == "r2ccl":
        sys.path.insert(0, str(ROOT / "python"))
        import r2ccl  # noqa: F401
    dist.init_process_group(backend, init_method=f"tcp://{place}", rank=rank,
                            world_size=ranks)
    times, made, value = [], [], torch.ones(4, dtype=torch.float64)
    for _ in range(groups):
        dist.barrier()
        begin = time.perf_counter()
        made.append(dist.new_group(list(range(ranks))))
        times.append((time.perf_counter() - begin) * 1e3)
    for group in made:
        dist.all_reduce(value, group=group)
    assert value.eq(float(ranks) ** groups).all(), value
    if rank == 0:
        print(statistics.median(times))
    dist.destroy_process_group()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def job(args, backend, ranks, hosts):
    place = "h0:29500" if hosts else f"127.0.0.1:{free_port()}"
    environment = dict(hosts.environment if hosts else os.environ, GLOO_SOCKET_IFNAME="nic0",
                       R2CCL_LIBRARY=str(ROOT / "build/libr2ccl.so"))
    if not hosts:
        environment.pop("GLOO_SOCKET_IFNAME")
    processes = []
    for rank in range(ranks):
        into = [hosts.r2ccl, "lab", "run", f"h{rank}"] if hosts else []
        processes.append(subprocess.Popen(
            [*into, args.python, "-B", os.path.abspath(__file__), "--groups", str(args.groups),
             "--rank", f"{backend} {rank} {ranks} {place}"], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    ended = [process.communicate(timeout=300) for process in processes]
    for process, (_, error) in zip(processes, ended):
        if process.returncode != 0:
            sys.exit(f"{backend}, {ranks} ranks: {error}")
    return float(ended[0][0])


def compare(args, ranks, hosts):
    times = {"gloo": [], "r2ccl": []}
    for _ in range(args.jobs):
        for backend, found in times.items():
            found.append(job(args, backend, ranks, hosts))
    gloo, r2ccl = (statistics.median(found) for found in times.values())
    print(f"{ranks} ranks: new_group takes {r2ccl:.2f} ms, Gloo's {gloo:.2f} ms, "
          f"{r2ccl / gloo:.2f} of it", flush=True)


def main():
    args = parsed()
    if args.rank:
        backend, rank, ranks, place = args.rank.split()
        return run_rank(backend, int(rank), int(ranks), place, args.groups)
    for ranks in args.ranks:
        with contextlib.ExitStack() as stack:
            hosts = stack.enter_context(lab.Lab(args.r2ccl, "groups", ranks, args.nics,
                                                args.mbit)) if args.lab else None
            compare(args, ranks, hosts)
    return None


if __name__ == "__main__":
    main()
