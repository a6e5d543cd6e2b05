"""CUDA tensors by way of pinned host memory. NOT TESTED: no GPU was at hand.

r2ccl sends from the memory of the host. An input is copied there after the work of the current
stream, on which the call waits. An output is copied back on a stream of this module; the current
stream of the thread that waits for the operation then waits for that copy.
"""

import torch

_streams = {}  # device index: the stream of copies back


def _stream(device):
    if device.index not in _streams:
        _streams[device.index] = torch.cuda.Stream(device)
    return _streams[device.index]


def host_buffer(tensor):
    """Returns pinned memory of the tensor's shape and type."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)


def to_host(tensor):
    """Returns a copy in pinned memory, complete on return."""
    host = host_buffer(tensor)
    host.copy_(tensor.detach(), non_blocking=True)
    torch.cuda.current_stream(tensor.device).synchronize()
    return host


def from_host(tensor, host):
    """Starts the copy of pinned memory into the tensor, after all that the tensor's current stream
    has been given so far."""
    stream = _stream(tensor.device)
    stream.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(stream), torch.no_grad():
        tensor.copy_(host, non_blocking=True)
    tensor.record_stream(stream)
    host.record_stream(stream) if host.is_cuda else None


def join(tensors):
    """Makes the current streams wait for the copies into these tensors."""
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).wait_stream(_stream(device))
