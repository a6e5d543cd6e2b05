"""The hook that `import torch` calls (entry point torch.backends).

It stands outside the package r2ccl, whose import takes longer and can fail: every program that
imports torch runs this hook, and an error here would make its `import torch` fail.
"""

import logging


def register():
    """Lets init_process_group("r2ccl") work without `import r2ccl`. Raises nothing."""
    try:
        import torch.distributed as dist
        if dist.is_available() and not hasattr(dist.Backend, "R2CCL"):
            dist.Backend.register_backend("r2ccl", _create, extended_api=True,
                                          devices=["cpu", "cuda"])
    except Exception as error:  # pylint: disable=broad-exception-caught
        logging.getLogger("torch.distributed.r2ccl").warning(
            "r2ccl cannot register its backend: %s. `import r2ccl` tells more", error)


def _create(options, backend_options=None):
    from r2ccl.process_group import create
    return create(options, backend_options)
