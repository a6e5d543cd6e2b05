#!/usr/bin/env python3
"""Trains a small transformer on text with DistributedDataParallel, or with FSDP2 (--fsdp).

    torchrun --nproc-per-node=2 train_text.py
"""
import argparse
import datetime
import os
import pathlib

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from steplog import StepLog
from transformer import Transformer, batch_of, load_text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="r2ccl", help="r2ccl or gloo")
    parser.add_argument("--text", default="/usr/share/common-licenses", help="a file or a folder")
    parser.add_argument("--fsdp", action="store_true", help="shard the weights with fully_shard")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8, help="rows on each rank")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--bucket-mb", type=float, default=25, help="DDP's bucket_cap_mb")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shares", help="which share of a batch each rank takes, as 2,0,1,3")
    parser.add_argument("--timeout", type=float, default=1800, help="of a collective, in s")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="save and resume here; %%r: the rank")
    parser.add_argument("--checkpoint-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--record", help="a file for a line of JSON per step; %%r: the rank")
    return parser.parse_args()


def parallel(model, args):
    """Returns the model that trains on all ranks."""
    if not args.fsdp:
        return DistributedDataParallel(model, bucket_cap_mb=args.bucket_mb)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def resume(path, model, optimizer):
    """Loads the checkpoint, if there is one; returns the number of the next step."""
    if path is None or not path.exists():
        return 0
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]


def save(path, step, model, optimizer):
    """Replaces the checkpoint as a whole, so that a rank that dies leaves the old one."""
    new = path.with_name(path.name + ".new")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, new)
    new.rename(path)


def train(args):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    text = load_text(args.text)
    share = int(args.shares.split(",")[rank]) if args.shares else rank
    model = parallel(Transformer(args.width, args.layers), args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    checkpoint = args.checkpoint and pathlib.Path(str(args.checkpoint).replace("%r", str(rank)))
    first = resume(checkpoint, model, optimizer)
    log = StepLog(args.record, rank, resumes=first > 0)
    for step in range(first, args.steps):
        inputs, targets = batch_of(text, step, share, args.batch, args.seed)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.step(step, loss.item())
        if checkpoint and (step + 1) % args.checkpoint_every == 0:
            save(checkpoint, step + 1, model, optimizer)
    log.weights(model)


def main():
    args = arguments()
    torch.set_num_threads(1)  # the order of sums inside a rank depends on the number of threads
    if args.backend == "r2ccl":
        import r2ccl  # noqa: F401 (the import makes the backend known to torch)
    dist.init_process_group(args.backend, timeout=datetime.timedelta(seconds=args.timeout))
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
