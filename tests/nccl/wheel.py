"""Fetches NCCL: a wheel of PyPI holds NVIDIA's library under NVIDIA's licence, so the tests download
it when they run, and this tree holds no part of it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

LIBRARY = "nvidia/nccl/lib/libnccl.so.2"


class Missing(Exception):
    """This machine lacks something that the tests need."""


def library(package, version, cache):
    """Returns the path of the library of this version. Downloads it into the cache if it is not
    there yet; a wheel has some 200 to 350 MB."""
    folder = cache / f"{package}-{version}"
    path = folder / "libnccl.so.2"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            unpacked = unpack(download(package, version, pathlib.Path(temporary)),
                              pathlib.Path(temporary))
            os.replace(unpacked, path)  # at once, for another run may look for it
    return path


def download(package, version, folder):
    print(f"downloading {package} {version}", flush=True)
    command = [*pip(folder), "download", "--no-deps", "--only-binary=:all:", "--quiet",
               "--disable-pip-version-check", "--dest", str(folder), f"{package}=={version}"]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise Missing(f"pip cannot download {package} {version}:\n{done.stdout}")
    return wheels[0]


def pip(folder):
    """Returns the command that runs pip: Debian's Python has it only in virtual environments."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return [sys.executable, "-m", "pip"]
    environment = folder / "venv"
    if subprocess.run([sys.executable, "-m", "venv", str(environment)], check=False).returncode:
        raise Missing("there is neither pip nor venv; on Debian install python3-venv")
    return [str(environment / "bin" / "pip")]


def unpack(wheel, folder):
    path = folder / "libnccl.so.2"
    with zipfile.ZipFile(wheel) as archive, archive.open(LIBRARY) as source, \
            open(path, "wb") as target:
        shutil.copyfileobj(source, target)
    return path


def layout(library_path):
    """Returns the layout of the library's structs, as layout.py prints it."""
    if not shutil.which("gdb"):
        raise Missing("gdb is missing: it reads the layout of NCCL's structs")
    script = pathlib.Path(__file__).resolve().parent / "layout.py"
    done = subprocess.run(["gdb", "-batch", "-nx", "-x", str(script), str(library_path)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0 or "size ncclDevKernelArgs" not in done.stdout:
        raise Missing(f"gdb finds no layout in {library_path}:\n{done.stderr}")
    return done.stdout
