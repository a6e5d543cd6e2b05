#!/usr/bin/env python3
"""Answers requests with a transformer whose layers are split over all ranks (tensor parallel), and
measures the time of each answer.

    torchrun --nproc-per-node=2 serve.py
"""
import argparse
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)

from steplog import StepLog
from transformer import CONTEXT, Transformer, load_text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="r2ccl", help="r2ccl or gloo")
    parser.add_argument("--text", default="/usr/share/common-licenses", help="prompts come from it")
    parser.add_argument("--steps", type=int, default=300, help="requests")
    parser.add_argument("--tokens", type=int, default=8, help="bytes of an answer")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--pause-ms", type=float, default=0, help="between requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", help="a file for a line of JSON per request; %%r: the rank")
    return parser.parse_args()


def split(model):
    """Gives each rank some heads of each attention, and some columns of each other layer."""
    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = {"query": columns, "key": columns, "value": columns, "out": rows, "up": columns,
            "down": rows}
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model


def prompts(args):
    """Yields the prompts, as a client of rank 0 would send them. Other ranks have none."""
    text = load_text(args.text)
    generator = torch.Generator().manual_seed(args.seed)
    for _ in range(args.steps):
        time.sleep(args.pause_ms / 1000)
        start = torch.randint(len(text) - CONTEXT, (1,), generator=generator).item()
        own = dist.get_rank() == 0
        yield text[start:start + CONTEXT][None] if own else torch.empty(1, CONTEXT, dtype=torch.long)


def answer(model, tokens, count):
    """Returns the most likely next bytes, one after the other."""
    for _ in range(count):
        following = model(tokens[:, -CONTEXT:])[:, -1:].argmax(-1)
        tokens = torch.cat([tokens, following], 1)
    return tokens[0, -count:].tolist()


def serve(args):
    torch.manual_seed(args.seed)
    model = split(Transformer(args.width, args.layers))
    log = StepLog(args.record, dist.get_rank())
    seconds = []
    for number, prompt in enumerate(prompts(args)):
        begin = time.monotonic()
        dist.broadcast(prompt, 0)
        said = answer(model, prompt, args.tokens)
        end = time.monotonic()
        seconds.append(end - begin)
        log.write(step=number, answer=said, seconds=end - begin, end=end)
    if dist.get_rank() == 0:
        report(seconds)


def report(seconds):
    ordered = sorted(1000 * value for value in seconds)
    middle, high = (ordered[int(share * len(ordered))] for share in (0.5, 0.99))
    print(f"{len(ordered)} requests: p50 {middle:.1f} ms, p99 {high:.1f} ms, "
          f"worst {ordered[-1]:.1f} ms", flush=True)


def main():
    args = arguments()
    torch.set_num_threads(1)
    if args.backend == "r2ccl":
        import r2ccl  # noqa: F401 (the import makes the backend known to torch)
    dist.init_process_group(args.backend)
    with torch.no_grad():
        serve(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
