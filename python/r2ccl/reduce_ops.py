"""The reductions of torch as those of r2ccl.h."""

import ctypes

import torch
import torch.distributed as dist

from r2ccl import c_api, dtypes, errors

KINDS = dist.ReduceOp.RedOpType
# The table for each type of element: torch's number: r2ccl's number.
NUMBERS = {
    int(KINDS.SUM): c_api.r2cclSum,
    int(KINDS.AVG): c_api.r2cclAvg,
    int(KINDS.PRODUCT): c_api.r2cclProd,
    int(KINDS.MIN): c_api.r2cclMin,
    int(KINDS.MAX): c_api.r2cclMax,
}
INTEGERS = {
    **NUMBERS,
    int(KINDS.BAND): c_api.r2cclBand,
    int(KINDS.BOR): c_api.r2cclBor,
    int(KINDS.BXOR): c_api.r2cclBxor,
}
COMPLEX = {int(KINDS.SUM): c_api.r2cclSum, int(KINDS.AVG): c_api.r2cclAvg}
# On the values 0 and 1 a logical sum is the maximum, and a logical product the minimum.
BOOL = {
    **INTEGERS,
    int(KINDS.SUM): c_api.r2cclMax,
    int(KINDS.PRODUCT): c_api.r2cclMin,
}
del BOOL[int(KINDS.AVG)]
PREMUL_SUM = int(KINDS.PREMUL_SUM)
NAMES = {int(kind): kind.name for kind in KINDS.__members__.values()}


def _table(dtype):
    if dtype is torch.bool:
        return BOOL
    if dtype.is_complex:
        return COMPLEX
    return NUMBERS if dtype.is_floating_point else INTEGERS


TABLES = {dtype: _table(dtype) for dtype in dtypes.REDUCIBLE}


def kind_of(opts):
    """Returns torch's number of the reduction that a call's options name; without options SUM."""
    return int(opts.reduceOp.op) if opts is not None else int(KINDS.SUM)


def number_of(kind, dtype):
    """Returns r2ccl's number of a torch reduction, or None for PREMUL_SUM, which needs a
    communicator: premul_sum(). Raises TypeError."""
    number = TABLES[dtype].get(kind)
    if number is None and (kind != PREMUL_SUM or dtype is torch.bool):
        raise TypeError(f"r2ccl has no {NAMES[kind]} of tensors of {dtype}. Use another reduction "
                        "or convert the tensor")
    return number


def premul_sum(library, comm, op, dtype):
    """Returns the number of a new reduction, which r2cclRedOpDestroy must end. `op` has the factor:
    a number, or a tensor of one element."""
    factor = op.__getstate__()[1]
    if isinstance(factor, torch.Tensor):
        given = factor.detach().reshape(()).cpu()
    else:
        given = torch.tensor(factor, dtype=torch.float64, device="cpu")
    real = dtype.to_real() if dtype.is_complex else dtype
    if given.is_complex() or (not real.is_floating_point and given != given.trunc()):
        raise ValueError(f"PREMUL_SUM of tensors of {dtype}: the factor {given.item()} is not a "
                         f"value of {real}. Multiply the tensor before the call")
    scalar = given.to(real)
    made = ctypes.c_int()
    errors.check(library, library.starts.r2cclRedOpCreatePreMulSum(
        ctypes.byref(made), scalar.data_ptr(), dtypes.REDUCIBLE[real][0],
        c_api.r2cclScalarHostImmediate, comm))
    return made.value
