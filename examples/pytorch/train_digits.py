#!/usr/bin/env python3
"""Trains a classifier on scikit-learn's handwritten digits with DistributedDataParallel.

    torchrun --nproc-per-node=2 train_digits.py
"""
import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from steplog import StepLog


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="r2ccl", help="r2ccl or gloo")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32, help="images on each rank")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", help="a file for a line of JSON per step; %%r: the rank")
    return parser.parse_args()


def images():
    """Returns 1,500 images to learn, and the other 297 as a test."""
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16,
                         torch.tensor(digits.target))
    return [torch.utils.data.Subset(data, rows) for rows in (range(1500), range(1500, len(data)))]


def batches(dataset, args):
    """Yields this rank's batches without end."""
    sampler = DistributedSampler(dataset, seed=args.seed)
    loader = DataLoader(dataset, batch_size=args.batch, sampler=sampler, drop_last=True)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def accuracy(model, dataset):
    """Returns the share of right answers, counted over all ranks."""
    rows = range(dist.get_rank(), len(dataset), dist.get_world_size())
    pixels, labels = next(iter(DataLoader(torch.utils.data.Subset(dataset, rows), len(rows))))
    right = (model(pixels).argmax(1) == labels).sum()
    dist.all_reduce(right)
    return right.item() / len(dataset)


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    learn, test = images()
    log = StepLog(args.record, rank)
    model = DistributedDataParallel(nn.Sequential(
        nn.Linear(64, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(),
        nn.Linear(args.width, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (pixels, labels) in zip(range(args.steps), batches(learn, args)):
        loss = F.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.step(step, loss.item())
    with torch.no_grad():
        share = accuracy(model.module, test)
    if rank == 0:
        print(f"accuracy {100 * share:.1f} %", flush=True)
    log.weights(model)


def main():
    args = arguments()
    torch.set_num_threads(1)  # the order of sums inside a rank depends on the number of threads
    if args.backend == "r2ccl":
        import r2ccl  # noqa: F401 (the import makes the backend known to torch)
    dist.init_process_group(args.backend)
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
