#!/usr/bin/env python3
"""Trains a small transformer with DistributedDataParallel while processes die and come back.

    python elastic.py --processes 4 --dies-at 50

A supervisor holds torch's store, starts the workers, and replaces each one that dies. The workers
go on without the dead one, and take the new one in with the weights of the step that they are at.
On further hosts: python elastic.py --processes 4 --store HOST:PORT
"""
import argparse
import contextlib
import datetime
import gc
import itertools
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import r2ccl
from steplog import StepLog
from transformer import Transformer, batch_of, load_text

POLL_S = 0.02


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4, help="workers on this host")
    parser.add_argument("--store", help="host:port of the first supervisor's store")
    parser.add_argument("--listen", default="127.0.0.1:29555", help="where this one's store is")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8, help="rows of each worker")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--text", default="/usr/share/common-licenses", help="a file or a folder")
    parser.add_argument("--least", type=int, default=1, help="go on with so many workers")
    parser.add_argument("--restarts", type=int, default=3, help="of workers on this host")
    parser.add_argument("--patience", type=float, default=5, help="for a member to come, in s")
    parser.add_argument("--dies-at", type=int, metavar="STEP", help="the first worker dies here")
    parser.add_argument("--record", help="a file for a line of JSON per step; %%r: the worker")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


class Events:
    """The store carries what all hosts tell the first supervisor, one line after another."""

    def __init__(self, store):
        self.store = store
        self.read = 0

    def tell(self, *words):
        self.store.append("events", " ".join(words) + "\n")  # at once: its teller may be killed

    def new(self):
        """Returns the words of each event since the last call."""
        if not self.store.check(["events"]):
            return []
        lines = self.store.get("events").decode().splitlines()
        first, self.read = self.read, len(lines)
        return [line.split() for line in lines[first:]]


def open_store(place, **more):
    host, port = place.rsplit(":", 1)
    return dist.TCPStore(host, int(port), timeout=datetime.timedelta(days=1), **more)


# --- the supervisor ---

class Members:
    """The first supervisor's list of workers. A new list has the next number."""

    def __init__(self, store, first, least):
        self.store, self.events = store, Events(store)
        self.first, self.least = first, least  # how many the first list has, and each later one
        self.handles, self.number, self.is_new = {}, 0, False
        store.set("members", "0")

    def follow(self):
        """Reads the new events. Publishes the list if it has changed."""
        for kind, worker, *more in self.events.new():
            if kind == "here":
                self.handles[worker] = more[0]
                self.is_new = True
            elif kind == "gone":
                self.is_new |= self.handles.pop(worker, None) is not None
            elif kind == "late":  # a member of this list has not come: another try
                self.is_new |= int(worker) == self.number
        if self.is_new and len(self.handles) >= (self.least if self.number else self.first):
            self.number, self.is_new = self.number + 1, False
            self.store.set(f"members/{self.number}", " ".join(self.handles.values()))
            self.store.set("members", str(self.number))


def start_worker(place, name):
    return subprocess.Popen([sys.executable, "-B", __file__, *sys.argv[1:], "--store", place,
                             "--worker", name])


def supervise(args):
    place = args.store or args.listen
    store = open_store(place, is_master=args.store is None, wait_for_workers=False)
    members = Members(store, args.processes, args.least) if args.store is None else None
    events, numbers = Events(store), itertools.count()
    host = f"{os.uname().nodename}-{os.getpid()}"
    workers = {}
    for _ in range(args.processes):
        name = f"{host}-{next(numbers)}"
        workers[name] = start_worker(place, name)
    ended_well, failed, restarts = False, 0, args.restarts
    while workers or (members and members.handles):
        for name, process in list(workers.items()):
            if process.poll() is None:
                continue
            del workers[name]
            events.tell("gone", name)
            ended_well |= process.returncode == 0
            if ended_well:  # no other worker could join any more
                failed += process.returncode != 0
            else:
                restarts -= 1
                if restarts < 0:
                    for other in workers.values():
                        other.kill()
                    sys.exit(f"{name} ended with {process.returncode}, after "
                             f"{args.restarts} restarts")
                print(f"{name} ended with {process.returncode}: another one starts", flush=True)
                name = f"{host}-{next(numbers)}"
                workers[name] = start_worker(place, name)
        if members:
            members.follow()
        time.sleep(POLL_S)
    if failed:
        sys.exit(f"{failed} workers have not completed the training")


# --- a worker ---

def meet(store, after, training):
    """Becomes a member of a list with a number above `after`. Returns the number; None when the
    others have completed the training without this worker."""
    while True:
        number = int(store.get("members"))
        if training.step == 0 and store.check(["done"]):
            return None
        if number <= after:
            time.sleep(POLL_S)
            continue
        after = number
        handles = store.get(f"members/{number}").decode().split()
        if r2ccl.get_reconfigure_handle() not in handles:
            continue  # the list is older than this worker
        try:
            r2ccl.reconfigure(number, handles,
                              timeout=datetime.timedelta(seconds=training.args.patience))
            return number
        except r2ccl.R2cclError as error:
            print(f"list {number}: {error}", file=sys.stderr, flush=True)
            Events(store).tell("late", str(number))


class Training:
    """The state of a worker: weights, optimizer, and the next step."""

    def __init__(self, args):
        torch.manual_seed(1)
        self.args = args
        self.model = Transformer(args.width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.text = load_text(args.text)
        self.step = 0

    def follow_the_first(self):
        """Takes the state of the member that has completed most steps."""
        steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(steps, torch.tensor([self.step]))
        first = max(range(len(steps)), key=lambda rank: steps[rank].item())
        state = [{"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                  "step": self.step}]
        dist.broadcast_object_list(state, src=first)
        self.model.load_state_dict(state[0]["model"])
        self.optimizer.load_state_dict(state[0]["optimizer"])
        self.step = state[0]["step"]

    def run(self, store, number, log):
        """Trains until the last step, or until the members have a list with another number."""
        self.follow_the_first()
        model = DistributedDataParallel(self.model)
        while self.step < self.args.steps:
            newest = torch.tensor([int(store.get("members"))])
            dist.all_reduce(newest, dist.ReduceOp.MAX)
            if newest.item() > number:
                return
            if self.step == self.args.dies_at and self.args.worker.endswith("-0"):
                os.kill(os.getpid(), signal.SIGKILL)
            inputs, targets = batch_of(self.text, self.step, dist.get_rank(), self.args.batch, 1)
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            log.rank = dist.get_rank()
            log.step(self.step, loss.item())
            self.step += 1


def work(args):
    torch.set_num_threads(1)
    store = open_store(args.store)
    # Without members: r2ccl.reconfigure gives them. Rank and size are not used before.
    dist.init_process_group("r2ccl", store=dist.PrefixStore("r2ccl", store), rank=0, world_size=1,
                            timeout=datetime.timedelta(minutes=5),
                            pg_options=r2ccl.Config(reconfigurable=True))
    training = Training(args)
    log = StepLog(args.record and args.record.replace("%r", args.worker), rank=-1)
    Events(store).tell("here", args.worker, r2ccl.get_reconfigure_handle())
    number = 0
    while training.step < args.steps:
        number = meet(store, number, training)
        if number is None:
            return
        try:
            training.run(store, number, log)
        except RuntimeError as error:  # from DDP it has r2ccl's text, and is of torch's class
            if not isinstance(r2ccl.last_error(), r2ccl.RemoteRankError):
                raise
            print(f"{args.worker}, step {training.step}: {error}", file=sys.stderr, flush=True)
        gc.collect()  # the hooks of the old DistributedDataParallel end with it
    store.set("done", "yes")
    log.weights(training.model)
    with contextlib.suppress(r2ccl.RemoteRankError):  # a worker that dies now has done its part
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    given = arguments()
    work(given) if given.worker else supervise(given)
