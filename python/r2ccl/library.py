"""Finds libr2ccl.so, loads it once per process and checks that it fits this package.

The order: the file that R2CCL_LIBRARY names; the wheel's copy beside this package; the build folder
of a source tree; the system's loader. Needs no torch.
"""

import ctypes
import functools
import os
import pathlib

from r2ccl import c_api

FILE_NAME = "libr2ccl.so"
SONAME = f"{FILE_NAME}.{c_api.R2CCL_MAJOR}"
PACKAGE = pathlib.Path(__file__).resolve().parent


class LibraryError(ImportError):
    """libr2ccl.so is missing, cannot be loaded, or has another version than this package."""


def version_text(code):
    """Returns "1.2.3" for the R2CCL_VERSION_CODE 10203."""
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def candidates():
    """Returns the places that may have the library, the preferred one first."""
    given = os.environ.get("R2CCL_LIBRARY")
    if given:
        return [given]
    files = [PACKAGE / SONAME, PACKAGE / FILE_NAME, PACKAGE / "lib" / SONAME,
             PACKAGE / "lib" / FILE_NAME, PACKAGE.parents[1] / "build" / FILE_NAME]
    return [str(path) for path in files if path.exists()] + [SONAME]


class Library:
    """The functions of libr2ccl.so.

    `calls` has them with the GIL released: for waiting, for init and for the end of a communicator.
    `starts` has them with the GIL held: for calls that return at once. The GIL then also keeps the
    calls of several threads on one communicator in order, as r2ccl.h asks for.
    """

    def __init__(self, path):
        self.path = path
        self.calls = c_api.declare(ctypes.CDLL(path))
        self.starts = c_api.declare(ctypes.PyDLL(path))
        self.version = self._version()

    def _version(self):
        code = ctypes.c_int()
        self.calls.r2cclGetVersion(ctypes.byref(code))
        return code.value


def _load(path):
    try:
        library = Library(path)
    except OSError as error:
        raise LibraryError(
            f"cannot load r2ccl's library: {error}. Install the r2ccl wheel, build the library "
            f"(`make` in a source tree), or set R2CCL_LIBRARY to the path of {FILE_NAME}") from error
    except AttributeError as error:
        raise LibraryError(f"{path} is older than this package: {error}. Install the r2ccl library "
                           f"{version_text(c_api.R2CCL_VERSION_CODE)}, or set R2CCL_LIBRARY to "
                           "its path") from error
    # Before 1.0 a minor version may change the calls.
    if library.version // 100 != c_api.R2CCL_VERSION_CODE // 100:
        raise LibraryError(
            f"{path} has version {version_text(library.version)}, but this package needs "
            f"{version_text(c_api.R2CCL_VERSION_CODE)}. Install the library and the package of the "
            "same version, or set R2CCL_LIBRARY to the path of the right library")
    return library


@functools.lru_cache(maxsize=None)
def load():
    """Returns the process's Library. Raises LibraryError, which names the remedy."""
    return _load(candidates()[0])
