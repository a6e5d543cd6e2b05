"""Checks of the arguments of collectives, and the memory for lists of tensors."""

import ctypes
import math

import torch

from r2ccl import buffers, cuda
from r2ccl.group import Group


def one(tensors, name):
    """Returns the only tensor of a list. Raises ValueError."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{name}: requires a single-element tensor list, got {len(tensors)}")
    return tensors[0]


def counts(values):
    """Returns a size_t[] for r2ccl.h, which copies it."""
    return (ctypes.c_size_t * len(values))(*values)


def back_to(tensor, memory):
    """Returns the step that copies the result into the tensor, or None when it lies there."""
    if memory is tensor:
        return None
    cuda.require_writable([tensor])
    return lambda: buffers.copy_back(tensor, memory)


def separate(memory, tensors):
    """Copies a flat tensor into the tensors, one after another."""
    at = 0
    for tensor in tensors:
        size = tensor.numel()
        buffers.copy_back(tensor, memory[at:at + size].view(tensor.shape))
        at += size


def joined(tensors):
    """Returns the elements of all tensors in one tensor."""
    if buffers.are_adjacent(tensors):
        return tensors[0]
    return torch.cat([buffers.readable(tensor).reshape(-1) for tensor in tensors])


def gathered(tensors):
    """Returns memory for all tensors, and the step that copies it into them, or None."""
    if buffers.are_adjacent(tensors):
        return tensors[0], None
    if tensors[0].is_cuda:
        cuda.require_writable(tensors)
        memory = cuda.room_for(tensors)
    else:
        memory = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype,
                             device="cpu")
    return memory, lambda: separate(memory, tensors)


class Arguments(Group):
    """Checks that need the group's size. Each raises ValueError."""

    def _check_root(self, root, name):
        if not 0 <= root < self._size:
            raise ValueError(f"{name}: invalid root rank {root} in a group of {self._size} ranks")
        return root

    def _check_list(self, tensors, like, name, what, alike=False):
        """`tensors` has one for each rank, of the type of `like`; alike: also of its size."""
        if len(tensors) != self._size:
            raise ValueError(f"{name}: invalid {what} tensor list of {len(tensors)} tensors: it "
                             f"must have one for each of the {self._size} ranks")
        for index, tensor in enumerate(tensors):
            buffers.check(tensor)
            if tensor.dtype != like.dtype:
                raise TypeError(f"{name}: invalid tensor type at index {index}: {what} {index} is "
                                f"of {tensor.dtype}, the other tensor of {like.dtype}")
            if alike and tensor.numel() != like.numel():
                raise ValueError(f"{name}: invalid tensor size at index {index}: {what} {index} "
                                 f"has {tensor.numel()} elements, the other tensor {like.numel()}")

    def _check_own(self, tensors, other, name):
        mine = tensors[self._rank]
        if mine.numel() != other.numel():
            raise ValueError(f"{name}: invalid tensor size at index {self._rank}, this rank's: "
                             f"{mine.numel()} elements, but the other tensor has {other.numel()}")

    def _check_multiple(self, long, short, name, what):
        """`long` has a block of the size of `short` for each rank."""
        buffers.check(long)
        buffers.check(short)
        if long.dtype != short.dtype:
            raise TypeError(f"{name}: input and output must be of one type, not {short.dtype} and "
                            f"{long.dtype}")
        if long.numel() != short.numel() * self._size:
            raise ValueError(f"{name}: the {what} must have {self._size} times the elements of "
                             f"the other tensor, {short.numel() * self._size}, not {long.numel()}")

    def _check_pairs(self, left, right, name):
        if len(left) != len(right):
            raise ValueError(f"{name}: {len(left)} outputs and {len(right)} inputs: there must be "
                             "as many")

    def _split(self, tensor, sizes, factor):
        """Returns the number of elements of each rank's rows."""
        rows = tensor.size(0) if tensor.dim() else 1
        row = math.prod(tensor.shape[1:]) * factor
        if not sizes:
            if rows % self._size:
                raise ValueError(
                    f"Tensor's dim 0 does not divide equally across group size: {rows} rows for "
                    f"{self._size} ranks. Give split sizes")
            return [rows // self._size * row] * self._size
        if len(sizes) != self._size:
            raise ValueError(f"Number of tensor splits not equal to group size: {len(sizes)} "
                             f"splits for {self._size} ranks")
        if min(sizes) < 0 or sum(sizes) != rows:
            raise ValueError(f"Split sizes doesn't match total dim 0 size: {list(sizes)} for "
                             f"{rows} rows")
        return [size * row for size in sizes]
