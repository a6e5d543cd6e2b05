#!/usr/bin/env python3
"""Measures all_reduce of CUDA tensors through r2ccl and through Gloo, ranks on this host.

    torch_cuda.py [--ranks 2] [--repetitions 7] [--bytes 65536,1048576,16777216]

Needs torch, a GPU, which the ranks share, and the package on PYTHONPATH. Both groups have the same
processes and tensors, and take turns. A figure is the median of the repetitions, each the mean of
some operations, up to the end of the last copy into the GPU. Every element of one sum is checked.
"""

import argparse
import datetime
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

import r2ccl  # noqa: F401 (it registers the backend)

SECONDS = 0.1  # that the operations of a repetition take, about


def seconds_of(group, tensor, count):
    """Returns the seconds for each of `count` operations."""
    torch.cuda.synchronize()
    dist.barrier(group=group)
    started = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(tensor, group=group)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / count


def checked(group, size, rank, ranks):
    """Raises AssertionError unless every element of a sum is right. Returns zeros of that size."""
    count = size // 4
    base = torch.arange(count, device="cuda", dtype=torch.float32) % 1000
    tensor = base + rank
    dist.all_reduce(tensor, group=group)
    assert torch.equal(tensor, base * ranks + sum(range(ranks)))
    return torch.zeros(count, device="cuda")


def measure(groups, size, args, rank):
    """Returns {name of a group: [seconds for each operation]}."""
    found = {name: [] for name in groups}
    for name, group in groups.items():
        zeros = checked(group, size, rank, args.ranks)
        seconds_of(group, zeros, 3)
    longest = torch.tensor(seconds_of(groups["gloo"], zeros, 3), device="cpu")
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    count = max(3, min(500, int(SECONDS / longest.item())))
    for _ in range(args.repetitions):
        for name, group in groups.items():
            found[name].append(seconds_of(group, zeros, count))
    return found


def run_rank(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(args.ranks))
    torch.set_num_threads(1)
    dist.init_process_group("r2ccl", timeout=datetime.timedelta(seconds=60))
    groups = {"r2ccl": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    for size in map(int, args.bytes.split(",")):
        found = measure(groups, size, args, rank)
        if rank == 0:
            ours, theirs = (statistics.median(found[name]) for name in ("r2ccl", "gloo"))
            print(f"| {size} | {args.ranks} | {ours / theirs:.2f} | {1e3 * ours:.3f} "
                  f"({1e3 * min(found['r2ccl']):.3f} to {1e3 * max(found['r2ccl']):.3f}) | "
                  f"{1e3 * theirs:.3f} ({1e3 * min(found['gloo']):.3f} to "
                  f"{1e3 * max(found['gloo']):.3f}) |", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--bytes", default="65536,1048576,16777216,67108864")
    args = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {os.cpu_count()} cores\n\n"
          "| bytes | ranks | r2ccl / Gloo | r2ccl, ms | Gloo, ms |\n|---|---|---|---|---|",
          flush=True)
    multiprocessing.spawn(run_rank, (args, port), nprocs=args.ranks)


if __name__ == "__main__":
    main()
