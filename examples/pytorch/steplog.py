"""The record of a run: a line of JSON for each step, and a hash of the weights at its end."""
import hashlib
import json
import os
import time

import torch


class StepLog:
    """Writes {"step", "loss", "seconds", "end"} per step to a file; `%r` in its name is the rank.
    `loss` is exact: the same text means the same bits. A run replaces the file of an earlier one;
    `resumes`: it goes on with it, as after a restart by torchrun."""

    def __init__(self, path, rank, resumes=False):
        self.rank = rank
        resumes = resumes or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
        mode = "a" if resumes else "w"
        self.file = open(path.replace("%r", str(rank)), mode, buffering=1) if path else None
        self.start = time.monotonic()

    def write(self, **fields):
        if self.file:
            print(json.dumps(fields), file=self.file)

    def step(self, step, loss):
        end = time.monotonic()
        seconds, self.start = end - self.start, end
        self.write(step=step, loss=loss, seconds=seconds, end=end)
        if self.rank == 0 and step % 20 == 0:
            print(f"step {step:4}  loss {loss:.4f}  {1000 * seconds:6.1f} ms", flush=True)

    def weights(self, model):
        digest = weight_hash(model)
        self.write(weights=digest)
        print(f"rank {self.rank}: weights {digest}", flush=True)


def weight_hash(model):
    """Returns a hash of all bits of the weights. Sharded weights are gathered first."""
    digest = hashlib.sha256()
    for _, tensor in sorted(model.state_dict().items()):
        if hasattr(tensor, "full_tensor"):
            tensor = tensor.full_tensor()
        # Not by numpy, which torch does not bring.
        digest.update(bytes(tensor.detach().reshape(-1).view(torch.uint8).tolist()))
    return digest.hexdigest()[:16]
