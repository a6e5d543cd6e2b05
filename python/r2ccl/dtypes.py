"""The element types of torch as those of r2ccl.h.

A type that r2ccl does not know can be moved as bytes, and cannot be reduced. A bool is reduced as an
uint8 of 0 or 1, a complex number as two real ones.
"""

import torch

from r2ccl import c_api

# dtype: (r2ccl's type, its elements in one element)
REDUCIBLE = {
    torch.int8: (c_api.r2cclInt8, 1),
    torch.uint8: (c_api.r2cclUint8, 1),
    torch.bool: (c_api.r2cclUint8, 1),
    torch.int32: (c_api.r2cclInt32, 1),
    torch.uint32: (c_api.r2cclUint32, 1),
    torch.int64: (c_api.r2cclInt64, 1),
    torch.uint64: (c_api.r2cclUint64, 1),
    torch.float16: (c_api.r2cclFloat16, 1),
    torch.bfloat16: (c_api.r2cclBfloat16, 1),
    torch.float32: (c_api.r2cclFloat32, 1),
    torch.float64: (c_api.r2cclFloat64, 1),
    torch.complex64: (c_api.r2cclFloat32, 2),
    torch.complex128: (c_api.r2cclFloat64, 2),
}


def movable(tensor):
    """Returns (r2ccl's type, its elements in one element) for copies of the tensor's elements.
    Raises TypeError."""
    if tensor.is_quantized:  # its scale is not in its elements, which may have less than a byte
        raise TypeError(f"r2ccl takes no tensors of {tensor.dtype}. Send int_repr() and the scale, "
                        "or dequantize() the tensor")
    known = REDUCIBLE.get(tensor.dtype)
    return known if known else (c_api.r2cclUint8, tensor.element_size())


def reducible(tensor):
    """Returns (r2ccl's type, its elements in one element). Raises TypeError."""
    known = REDUCIBLE.get(tensor.dtype)
    if known is None:
        names = ", ".join(str(dtype).split(".")[1] for dtype in REDUCIBLE)
        raise TypeError(f"r2ccl cannot reduce tensors of {tensor.dtype}. It reduces {names}. "
                        "Convert the tensor first, for example by tensor.float()")
    return known
