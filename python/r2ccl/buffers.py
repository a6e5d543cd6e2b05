"""The memory of tensors for calls of r2ccl.h: contiguous, and in the host.

A tensor that is not has a contiguous copy for the call, and an output's copy goes back into the
tensor when the operation is complete.
"""

import torch

from r2ccl import cuda


# Their elements lie at data_ptr(). A subclass may keep them in other tensors, and has none there.
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def check(tensor):
    """Raises TypeError or RuntimeError unless r2ccl can take the tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise ValueError(f"r2ccl takes dense tensors, not {tensor.layout}. Use tensor.to_dense()")
    if not (tensor.is_cpu or tensor.is_cuda):
        raise RuntimeError(f"r2ccl has no support for the device type {tensor.device.type}. It "
                           "takes tensors on cpu and cuda: move the tensor first")
    if not _has_memory(tensor):
        raise TypeError(f"a {type(tensor).__name__} has no memory of its own: pass the tensor in "
                        "it, such as to_local() of a DTensor or wait() of an AsyncCollectiveTensor")


def _has_memory(tensor):
    return type(tensor) in _PLAIN or tensor.numel() == 0 or tensor.data_ptr() != 0


def is_direct(tensor):
    """Returns whether a call of r2ccl.h can use the tensor's own memory."""
    return (isinstance(tensor, torch.Tensor) and tensor.is_cpu and
            tensor.layout is torch.strided and tensor.is_contiguous() and
            not tensor.is_conj() and not tensor.is_neg() and  # those differ from their memory
            _has_memory(tensor))


def readable(tensor):
    """Returns the tensor, or a copy with the same elements that a call can read."""
    if is_direct(tensor):
        return tensor
    check(tensor)
    if tensor.is_cuda:
        return cuda.to_host(tensor)
    return tensor.resolve_conj().resolve_neg().contiguous()


def writable(tensor):
    """Returns the tensor, or memory of its size that a call can write: copy it back then."""
    if is_direct(tensor):
        return tensor
    check(tensor)
    if tensor.is_cuda:
        return cuda.room_for([tensor]).view(tensor.shape)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def require_contiguous(tensor):
    """Raises ValueError for a tensor that is not contiguous."""
    check(tensor)
    if not tensor.is_contiguous():
        raise ValueError("Tensors must be contiguous: pass tensor.contiguous()")


def copy_back(tensor, memory):
    """Copies the elements of `memory` into the tensor."""
    if tensor.is_cuda:
        cuda.from_host(tensor, memory)
    else:
        # The mode is the thread's, and this one may not be the caller's. Without it a tensor that the
        # caller made in it could not be written; with it any tensor can, without a gradient.
        with torch.inference_mode():
            tensor.copy_(memory)


def are_adjacent(tensors):
    """Returns whether a call can use the tensors as one buffer, which the first of them keeps: they
    lie one after another in one storage."""
    first = tensors[0]
    if not is_direct(first):
        return False
    storage, at = first.untyped_storage().data_ptr(), first.data_ptr()
    for tensor in tensors:
        if not is_direct(tensor) or tensor.dtype != first.dtype or tensor.data_ptr() != at:
            return False
        if tensor.untyped_storage().data_ptr() != storage:
            return False
        at += tensor.numel() * tensor.element_size()
    return at > first.data_ptr()
