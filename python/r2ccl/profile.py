"""The ranges of operations in torch's profiler: "r2ccl:all_reduce", from the call to its end."""

import torch

is_on = torch.autograd._profiler_enabled


def record(work):
    """Adds the range of an operation that has just started. It ends with the work's future, in
    whatever thread completes that; so the profiler marks the range as asynchronous."""
    span = torch.profiler.record_function(f"r2ccl:{work.entry.name}")
    span.__enter__()
    span._call_end_callbacks_on_future(work.get_future())
