#!/usr/bin/env python3
"""Trains the transformer with DeepSpeed's ZeRO, which shards the optimizer's state (stage 1) and the
gradients too (stage 2).

    pip install deepspeed
    torchrun --nproc-per-node=2 deepspeed_example.py --stage 2
"""
import argparse
import os

# DeepSpeed looks for an accelerator when it is imported.
os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
import torch.distributed as dist
from torch.nn import functional as F

from steplog import StepLog
from transformer import Transformer, batch_of, load_text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="r2ccl", help="r2ccl or gloo")
    parser.add_argument("--stage", type=int, default=1, choices=(1, 2))
    parser.add_argument("--text", default="/usr/share/common-licenses", help="a file or a folder")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8, help="rows on each rank")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", help="a file for a line of JSON per step; %%r: the rank")
    return parser.parse_args()


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    text = load_text(args.text)
    log = StepLog(args.record, rank)
    model = Transformer()
    engine, *_ = deepspeed.initialize(model=model, config={
        "train_micro_batch_size_per_gpu": args.batch,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "torch_adam": True}},
        "zero_optimization": {"stage": args.stage},
    })
    for step in range(args.steps):
        inputs, targets = batch_of(text, step, rank, args.batch, args.seed)
        loss = F.cross_entropy(engine(inputs).flatten(0, 1), targets.flatten())
        engine.backward(loss)
        engine.step()
        log.step(step, loss.item())
    log.weights(model)


def main():
    args = arguments()
    torch.set_num_threads(1)  # the order of sums inside a rank depends on the number of threads
    if args.backend == "r2ccl":
        import r2ccl  # noqa: F401 (the import makes the backend known to torch)
    # Else DeepSpeed compiles, for minutes, an operator that serves the ranks of one host.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(args.backend)
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
