#!/usr/bin/env python3
"""Trains the small transformer under torchft. Each process is a replica: it may die and come back.

    torchft_lighthouse --min_replicas 2 --join_timeout_ms 5000
    torchft_ddp.py --replica 0      # and 1, 2, ..., each in a terminal of its own
"""
import argparse
import datetime
import os
import socket

import torch
import torch.distributed as dist
import torchft
from torch.nn import functional as F

from r2ccl.torchft import ReplicaGroup
from steplog import StepLog
from transformer import Transformer, batch_of, load_text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replica", type=int, required=True, help="this replica's number, from 0")
    parser.add_argument("--lighthouse", help="its address", default=os.environ.get(
        "TORCHFT_LIGHTHOUSE", f"http://{socket.gethostname()}:29510"))
    parser.add_argument("--min-replicas", type=int, default=2, help="fewer do not take a step")
    parser.add_argument("--text", default="/usr/share/common-licenses", help="a file or a folder")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8, help="rows on each replica")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--bucket-mb", type=float, default=25, help="DDP's bucket_cap_mb")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60, help="of a wait, in s")
    parser.add_argument("--record", help="a file for a line of JSON per step; %%r: the replica")
    return parser.parse_args()


def train(args, manager, model, optimizer):
    text = load_text(args.text)
    log = StepLog(args.record, args.replica)
    while manager.current_step() < args.steps:
        before = manager.current_step()
        inputs, targets = batch_of(text, before, args.replica, args.batch, args.seed)
        optimizer.zero_grad()  # asks for a quorum, and gets the state if others are ahead
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()  # not on the weights, if an allreduce has failed here
        if manager.current_step() > before:
            log.step(manager.current_step() - 1, loss.item())
    log.weights(model.module)


def main():
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    bare = Transformer(args.width, args.layers)
    inner = torch.optim.AdamW(bare.parameters(), lr=3e-3)

    def state():
        return {"model": bare.state_dict(), "optimizer": inner.state_dict()}

    def load(given):
        bare.load_state_dict(given["model"])
        inner.load_state_dict(given["optimizer"])

    # The replica's own store, in which the replicas of a quorum find each other.
    store = dist.TCPStore(socket.gethostname(), 0, is_master=True, wait_for_workers=False)
    timeout = datetime.timedelta(seconds=args.timeout)
    group = ReplicaGroup(timeout)
    manager = torchft.Manager(
        pg=group, load_state_dict=load, state_dict=state, min_replica_size=args.min_replicas,
        replica_id=f"replica_{args.replica}", lighthouse_addr=args.lighthouse, timeout=timeout,
        store_addr=socket.gethostname(), store_port=store.port, rank=0, world_size=1)
    train(args, manager,
          torchft.DistributedDataParallel(manager, bare, bucket_cap_mb=args.bucket_mb),
          torchft.Optimizer(manager, inner))
    group.shutdown()
    manager.shutdown()


if __name__ == "__main__":
    main()
