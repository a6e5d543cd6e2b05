"""`python -m r2ccl.info`: versions, library and NICs, for a look at an installation."""

import argparse
import importlib
import json
import os
import platform
import sys
import uuid

import r2ccl
from r2ccl import library


def _version_of(module):
    try:
        return importlib.import_module(module).__version__
    except ModuleNotFoundError:
        return None


def nics(loaded):
    """Returns the NICs that a group of this process would use."""
    from r2ccl.communicator import Communicator, Config
    config = Config(name=f"r2ccl.info {uuid.uuid4().hex[:8]}")
    identity = Communicator.public_id(loaded, config, 20_000)
    communicator = Communicator.create(loaded, identity, 1, 0, config, 20_000)
    try:
        return json.loads(communicator.report()).get("nics", [])
    finally:
        communicator.destroy()


def facts():
    """Returns everything that is known, by name. Raises LibraryError."""
    loaded = library.load()
    torch = _version_of("torch")
    found = {
        "package": r2ccl.__version__,
        "library": library.version_text(loaded.version),
        "library path": os.path.realpath(loaded.path) if os.path.exists(loaded.path)
        else loaded.path,
        "python": platform.python_version(),
        "torch": torch or "not installed: only r2ccl.c_api works",
        "settings": {name: value for name, value in sorted(os.environ.items())
                     if name.startswith("R2CCL_") and "SECRET" not in name} or "none",
    }
    if torch:
        import torch.distributed as dist
        found["backend"] = "registered" if "r2ccl" in dist.Backend.backend_list else "missing"
        found["cuda tensors"] = "through pinned host memory"
        found["nics"] = nics(loaded)
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m r2ccl.info",
                                     description="Shows r2ccl's versions, library and NICs.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    args = parser.parse_args(arguments)
    try:
        found = facts()
    except library.LibraryError as error:
        print(f"r2ccl.info: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    for name, value in found.items():
        if isinstance(value, list):
            value = ", ".join(each.get("name", str(each)) if isinstance(each, dict) else str(each)
                              for each in value) or "none"
        print(f"{name:14} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
