"""CUDA tensors by way of pinned host memory. NOT TESTED: no GPU was at hand.

r2ccl sends from the memory of the host. A call first waits for the work that the current stream has
been given: the input is complete then, and no kernel uses the output any more. The output is copied
back on a stream of this module. The current stream of the thread that waits for the operation, or
that completes its future, then waits for that copy.
"""

import torch

_streams = {}  # device index: the stream of copies back


def _stream(device):
    if device.index not in _streams:
        _streams.setdefault(device.index, torch.cuda.Stream(device))  # several threads come here
    return _streams[device.index]


def to_host(tensor):
    """Returns a copy in pinned memory, complete on return."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    host.copy_(tensor.detach(), non_blocking=True)
    torch.cuda.current_stream(tensor.device).synchronize()
    return host


def room_for(tensors):
    """Returns flat pinned memory for an output to these tensors."""
    torch.cuda.current_stream(tensors[0].device).synchronize()
    return torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype,
                       device="cpu", pin_memory=True)


def from_host(tensor, host):
    """Starts the copy of pinned memory into the tensor."""
    stream = _stream(tensor.device)
    with torch.cuda.stream(stream), torch.inference_mode():  # as buffers.copy_back
        tensor.copy_(host, non_blocking=True)
    tensor.record_stream(stream)


def join(tensors):
    """Makes the current streams wait for the copies into these tensors."""
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).wait_stream(_stream(device))
