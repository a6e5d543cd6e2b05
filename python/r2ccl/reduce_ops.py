"""The reductions of torch as those of r2ccl.h."""

import ctypes

import torch
import torch.distributed as dist

from r2ccl import c_api, dtypes, errors

_KINDS = dist.ReduceOp.RedOpType
SUM = int(_KINDS.SUM)
AVG = int(_KINDS.AVG)
PREMUL_SUM = int(_KINDS.PREMUL_SUM)
ANY_TYPE = {
    SUM: c_api.r2cclSum,
    AVG: c_api.r2cclAvg,
    int(_KINDS.PRODUCT): c_api.r2cclProd,
    int(_KINDS.MIN): c_api.r2cclMin,
    int(_KINDS.MAX): c_api.r2cclMax,
    int(_KINDS.BAND): c_api.r2cclBand,
    int(_KINDS.BOR): c_api.r2cclBor,
    int(_KINDS.BXOR): c_api.r2cclBxor,
}
# On the values 0 and 1 a logical sum is the maximum, and a logical product the minimum.
OF_BOOL = ANY_TYPE | {SUM: c_api.r2cclMax, int(_KINDS.PRODUCT): c_api.r2cclMin}
del OF_BOOL[AVG]
OF_COMPLEX = {SUM: c_api.r2cclSum, AVG: c_api.r2cclAvg}
BITWISE = {int(_KINDS.BAND), int(_KINDS.BOR), int(_KINDS.BXOR)}


def name(op):
    """Returns the name of a torch reduction such as "SUM"."""
    return _KINDS(int(getattr(op, "op", op))).name


def of(op, tensor):
    """Returns r2ccl's number of a torch reduction for the tensor's type, or None for PREMUL_SUM,
    which needs a communicator: premul_sum(). Raises TypeError or ValueError."""
    kind = int(getattr(op, "op", op))
    dtype = tensor.dtype
    if kind == PREMUL_SUM and dtype is not torch.bool:
        return None
    table = ANY_TYPE
    if dtype is torch.bool:
        table = OF_BOOL
    elif dtype in dtypes.COMPLEX:
        table = OF_COMPLEX
    known = table.get(kind)
    if known is None or (kind in BITWISE and dtype.is_floating_point):
        raise TypeError(f"r2ccl has no {name(op)} of tensors of {dtype}. Use another reduction or "
                        "convert the tensor")
    return known


def premul_sum(library, comm, op, tensor):
    """Returns the number of a new reduction, which r2cclRedOpDestroy must end. `op` has the factor:
    a number, or a tensor of one element."""
    factor = op.__getstate__()[1]
    if isinstance(factor, torch.Tensor):
        if factor.numel() != 1:
            raise ValueError("the factor of PREMUL_SUM must have one element, it has "
                             f"{factor.numel()}")
        factor = factor.detach().reshape(()).cpu()
    real = tensor.dtype.to_real() if tensor.dtype in dtypes.COMPLEX else tensor.dtype
    scalar = torch.as_tensor(factor).to(real)
    made = ctypes.c_int()
    errors.check(library, library.starts.r2cclRedOpCreatePreMulSum(
        ctypes.byref(made), scalar.data_ptr(), dtypes.REDUCIBLE[real][0],
        c_api.r2cclScalarHostImmediate, comm))
    return made.value
