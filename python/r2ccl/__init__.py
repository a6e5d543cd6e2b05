"""r2ccl for PyTorch: training scripts that outlive their NICs.

`import r2ccl` registers the backend: torch.distributed.init_process_group("r2ccl") then works.
Without torch the package offers r2ccl.c_api and r2ccl.library alone.
"""

from r2ccl.c_api import R2CCL_MAJOR, R2CCL_MINOR, R2CCL_PATCH

__version__ = f"{R2CCL_MAJOR}.{R2CCL_MINOR}.{R2CCL_PATCH}"

try:
    import torch.distributed as _dist
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    _dist = None

if _dist is not None and _dist.is_available():
    from r2ccl.communicator import Config
    from r2ccl.errors import AbortedError, R2cclError, RemoteRankError, WaitTimeoutError
    from r2ccl.group_health import (Health, Path, Verdict, health, last_error, on_verdict,
                                    report)
    from r2ccl.membership import SHRINK_ABORT, SHRINK_DEFAULT, shrink_group
    from r2ccl.process_group import ProcessGroupR2ccl, register
    from r2ccl.new_members import get_reconfigure_handle, reconfigure

    register()
    __all__ = ["AbortedError", "Config", "Health", "Path", "ProcessGroupR2ccl", "R2cclError",
               "RemoteRankError", "SHRINK_ABORT", "SHRINK_DEFAULT", "Verdict", "WaitTimeoutError",
               "__version__", "get_reconfigure_handle", "health", "last_error", "on_verdict",
               "reconfigure", "report", "shrink_group"]
else:
    __all__ = ["__version__"]
