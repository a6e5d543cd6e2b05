"""Sums of sparse tensors (torch.sparse_coo), for all_reduce.

The ranks gather all indices and values, and each adds them up: what torch's gloo backend does. The
ranks add in the same order, so they get the same bits.
"""

import zlib

import torch

from r2ccl import reduce_ops
from r2ccl.work import Work


def all_reduce(group, tensor, opts):
    """Replaces the tensor by the sum over all ranks. Waits for it. Returns a Work that is complete.

    Raises TypeError for another reduction, ValueError on every rank when the ranks' tensors differ
    in shape, type or number of sparse dimensions."""
    op = reduce_ops.NAMES[reduce_ops.kind_of(opts)]
    if op not in ("SUM", "AVG"):
        raise TypeError(f"r2ccl has no {op} of sparse tensors. Use SUM or AVG, or tensor.to_dense()")
    mine = tensor.coalesce()
    counts = _counts(group, mine)
    indices = [mine.indices().new_empty(mine.sparse_dim(), count) for count in counts]
    values = [mine.values().new_empty(count, *mine.values().shape[1:]) for count in counts]
    for parts, own in ((indices, mine.indices()), (values, mine.values())):
        group.allgather([parts], [own.contiguous()]).wait()
    total = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), tensor.shape).coalesce()
    if op == "AVG":
        total /= group.size()
    tensor.copy_(total)
    entry = group._entry("all_reduce", [tensor], op=op)
    group._record.add(entry)
    entry.end(None)
    return Work(group, None, [tensor], None, None, entry)


def _counts(group, tensor):
    """Returns how many values each rank has."""
    shape = (tuple(tensor.shape), str(tensor.dtype), tensor.sparse_dim())
    own = torch.tensor([tensor.values().shape[0], zlib.crc32(repr(shape).encode())],
                       device="cpu")
    every = [torch.empty_like(own) for _ in range(group.size())]
    group.allgather([every], [own]).wait()
    for rank, (_, shape_of_rank) in enumerate(every):
        if shape_of_rank != every[0][1]:
            raise ValueError(f"all_reduce of a sparse tensor: rank {rank}'s differs from rank 0's in "
                             f"shape, type or number of sparse dimensions; rank {group.rank()} has "
                             f"{shape}")
    return [int(count) for count, _ in every]
