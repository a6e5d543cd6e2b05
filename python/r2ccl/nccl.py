"""`python -m r2ccl.nccl`: the lines that switch the net plugin for NCCL on.

    eval "$(python -m r2ccl.nccl)"

docs/nccl.md describes the plugin.
"""

import pathlib
import sys

FILE_NAME = "libnccl-net-r2ccl.so"
PACKAGE = pathlib.Path(__file__).resolve().parent


def find_plugin():
    """Returns the plugin's path: the wheel's, or that of a source tree's build. None: there is none."""
    places = [PACKAGE / FILE_NAME, PACKAGE.parents[1] / "build" / FILE_NAME]
    return next((path for path in places if path.exists()), None)


def main():
    path = find_plugin()
    if path is None:
        sys.exit(f"{FILE_NAME} is not in {PACKAGE}: install the wheel of r2ccl, or build the tree")
    print(f"export NCCL_NET_PLUGIN={path}")
    print("export NCCL_NET=r2ccl")


if __name__ == "__main__":
    main()
