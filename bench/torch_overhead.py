#!/usr/bin/env python3
"""Measures what the torch backend costs over the C API: an AllReduce of 16 float32 at world size 1.

    torch_overhead.py [--calls 10000] [--json FILE]

Needs torch, and the package on PYTHONPATH. Prints medians in microseconds: the two C calls that a
method makes (r2cclAllReduce with a request, r2cclRequestWait), by ctypes; the backend's method with
the wait; torch.distributed.all_reduce; a work with a future. The three take turns, so that the load
of the machine changes none alone.
"""

import argparse
import ctypes
import datetime
import json
import pathlib
import statistics
import time

import torch
import torch.distributed as dist

import r2ccl  # noqa: F401 (it registers the backend)
from r2ccl import c_api


def timed(call):
    started = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - started


def forms(group, tensor):
    """Returns {name: call}."""
    calls, starts, handle = group.library.calls, group.library.starts, group._handle
    pointer, count = tensor.data_ptr(), tensor.numel()
    options, tensors = dist.AllreduceOptions(), [tensor]

    def c_calls():
        request = ctypes.c_void_p()
        starts.r2cclAllReduce(pointer, pointer, count, c_api.r2cclFloat32, c_api.r2cclSum, handle,
                              ctypes.byref(request))
        calls.r2cclRequestWait(ctypes.byref(request), 1000)

    return {
        "C calls by ctypes": c_calls,
        "method and wait": lambda: group.allreduce(tensors, options).wait(),
        "dist.all_reduce": lambda: dist.all_reduce(tensor),
        "method and future": lambda: group.allreduce(tensors, options).get_future().wait(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--json", type=pathlib.Path, help="write the medians in microseconds here")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("r2ccl", store=dist.HashStore(), rank=0, world_size=1,
                            timeout=datetime.timedelta(seconds=60))
    times = {}
    all_forms = forms(dist.group.WORLD, torch.zeros(16))
    for name, call in list(all_forms.items())[:3] * 10:
        times.setdefault(name, []).extend(timed(call) for _ in range(args.calls // 10))
    # Last: after the first future each completion costs the communicator a system call.
    for name, call in list(all_forms.items())[3:]:
        times[name] = [timed(call) for _ in range(args.calls // 10)]
    for name, each in times.items():
        quantiles = statistics.quantiles(each, n=100)
        print(f"{name:20} median {statistics.median(each) / 1000:6.2f} us, "
              f"90 % {quantiles[89] / 1000:6.2f}, 99 % {quantiles[98] / 1000:7.2f}, "
              f"{len(each)} calls")
    over = statistics.median(times["method and wait"]) - statistics.median(
        times["C calls by ctypes"])
    print(f"the method costs {over / 1000:.2f} us over its C calls")
    if args.json:
        args.json.write_text(json.dumps({name: statistics.median(each) / 1000
                                         for name, each in times.items()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
