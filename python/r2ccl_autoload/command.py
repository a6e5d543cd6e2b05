"""`r2ccl` as the wheel installs it: this process becomes the program of C++ that lies in the package.

It stands outside the package r2ccl, whose import loads torch and takes seconds.
"""

import importlib.util
import os
import sys


def program():
    """Returns the path of the program, or None."""
    found = importlib.util.find_spec("r2ccl")  # imports nothing
    folders = list(found.submodule_search_locations or []) if found else []
    paths = [os.path.join(folder, "bin", "r2ccl") for folder in folders]
    return next(filter(os.path.exists, paths), None)


def main():
    path = program()
    if path is None:
        sys.exit("r2ccl: this Python package was installed without the command. `pip install .` in "
                 "the source tree installs both; `make` there builds build/r2ccl")
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"r2ccl: cannot run {path}: {error.strerror}")


if __name__ == "__main__":
    main()
