"""Lets tests that ask for CUDA devices run on the CPU: each tensor for a device stays in the host.

Half of torch's distributed tests, nearly all of those of DDP, need a device for each rank, but test
nothing of the devices themselves. A test that does fails in the same way on each backend.
"""

import functools
import os

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
# The functions that take a device without its name.
MOVES = (torch.Tensor.to, torch._C._nn._parse_to)


def host(device):
    """Returns the CPU for a CUDA device, however it is named, else the argument."""
    is_cuda = type(device) is int or (
        isinstance(device, (str, torch.device)) and str(device).startswith("cuda"))
    return CPU if is_cuda else device


class OnCpu(TorchFunctionMode):
    """Replaces CUDA devices in the arguments of torch's functions."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = host(kwargs["device"])
        if func is torch.Tensor.cuda:
            return args[0].clone()
        if func in MOVES:
            args = map(host, args)
        return func(*args, **kwargs)


def _keep(test):
    return test


def open_gates(common_distributed):
    """Lets the tests start. Call before the module of the tests is imported."""
    common_distributed.skip_if_no_gpu = _keep
    common_distributed.skip_if_lt_x_gpu = lambda count, **_: _keep
    common_distributed.init_multigpu_helper = lambda size, backend: {
        rank: [rank] for rank in range(size)}


def replace_cuda():
    """Makes the functions of torch.cuda that tests call do nothing, and DDP take host tensors."""
    for name in ("set_device", "synchronize", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, lambda *args, **kwargs: None)
    torch.cuda.current_device = lambda: 0
    ddp = torch.nn.parallel.DistributedDataParallel
    init = ddp.__init__

    @functools.wraps(init)
    def without_devices(self, *args, **kwargs):
        kwargs.update(device_ids=None, output_device=None)
        init(self, *args, **kwargs)
    ddp.__init__ = without_devices


def environment():
    """Returns the settings that keep the ranks' forks free of threads and devices."""
    return dict(os.environ, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                MKL_NUM_THREADS="1")
