"""CUDA tensors by way of pinned host memory.

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


def _finish_work_before(tensors):
    """Blocks until the current streams of the tensors' devices have done their work."""
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("r2ccl: a CUDA graph cannot contain an operation of r2ccl, which runs in "
                           "the host. Call it between two graphs")
    for device in {tensor.device for tensor in tensors}:
        torch.cuda.current_stream(device).synchronize()


def to_host(tensor):
    """Returns a copy in pinned memory, complete on return."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    # torch conjugates or negates a copy in the host at once: before the elements are there.
    host.copy_(tensor.detach().resolve_conj().resolve_neg(), non_blocking=True)
    _finish_work_before([tensor])
    return host


def room_for(tensors):
    """Returns flat pinned memory for an output to these tensors."""
    _finish_work_before(tensors)
    return torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype,
                       device="cpu", pin_memory=True)


def require_writable(tensors):
    """Raises RuntimeError for a view whose elements differ from its memory."""
    if any(tensor.is_cuda and (tensor.is_conj() or tensor.is_neg()) for tensor in tensors):
        # With torch 2.11 such an output had wrong elements after some copies.
        raise RuntimeError("r2ccl has no support for conjugate and negative views on a GPU as "
                           "outputs: pass tensor.resolve_conj() or tensor.resolve_neg()")


def from_host(tensor, host):
    """Starts the copy of pinned memory into the tensor."""
    stream = _stream(tensor.device)
    with torch.cuda.stream(stream), torch.inference_mode():  # as buffers.copy_back
        tensor.copy_(host, non_blocking=True)
    tensor.record_stream(stream)


def copies_into(tensors):
    """Returns an event for each device of the tensors: the copies into them that have started."""
    return [_stream(device).record_event()
            for device in {tensor.device for tensor in tensors if tensor.is_cuda}]


def are_done(copies):
    """Returns whether the copies have ended. Never blocks."""
    return all(copy.query() for copy in copies)


def finish(copies):
    """Blocks until the copies have ended."""
    for copy in copies:
        copy.synchronize()


def join(copies):
    """Makes the current streams wait for the copies."""
    for copy in copies:
        torch.cuda.current_stream(copy.device).wait_event(copy)
