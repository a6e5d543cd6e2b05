"""The files of the tree, and findings about them, for the rules of scripts/tidy.py."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

from cpp_source import strip_cpp

# Folders of tests alone: they may include every folder, and no other folder may include them.
TEST_FOLDERS = {"src/testing", "src/sim/tests"}


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


@dataclasses.dataclass
class File:
    path: str  # relative to the root, with slashes
    text: str

    def __post_init__(self):
        self.is_cpp = self.path.endswith((".cc", ".h", ".c"))
        self.code = strip_cpp(self.text) if self.is_cpp else self.text
        self.folder = os.path.dirname(self.path)
        parts = self.path.split("/")
        self.layer = parts[1] if parts[0] == "src" and len(parts) > 2 else None
        self.is_test = self.path.endswith(("_test.cc", "_test.h", "_test.py"))

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def matches(self, pattern, rule, text, source=None):
        for match in pattern.finditer(self.code if source is None else source):
            yield Finding(self.path, self.line_of(match.start()), rule, text.format(match.group(0)))


def includes(file):
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', file.code,
                             re.MULTILINE):
        yield file.line_of(match.start()), match.group(1), match.group(2)


FOLDER_CALL = re.compile(
    r"^r2ccl_folder\(\s*(\S+?)(?:\s+WITH\s+\S+?)?(?:\s+DEPS\s+([^)]*))?\)", re.MULTILINE)


def dependencies(files):
    """Returns {folder: the folders it depends on}, from the r2ccl_folder() calls of CMake."""
    calls = [call for file in files if file.path in ("CMakeLists.txt", "tools/CMakeLists.txt")
             for call in FOLDER_CALL.findall(re.sub(r"^\s+(?=r2ccl_folder)", "", file.text,
                                                    flags=re.MULTILINE))]
    return {folder: deps.split() for folder, deps in calls}


def folders(files):
    """Returns {folder: the folders it may include}."""
    direct = dependencies(files)

    def below(folder):
        return {folder}.union(*(below(dep) for dep in direct.get(folder, ())))
    return {folder: below(folder) for folder in direct}


TEXT_SUFFIXES = {".cc", ".h", ".c", ".py", ".sh", ".md", ".txt", ".cmake", ".in", ".json", ".supp",
                 ".map", ".yml", ".toml"}
TEXT_NAMES = {"Makefile", "run", ".clang-tidy", ".clang-format", ".gitignore"}


def tree(root):
    """Returns the files that git would commit; without git (a tarball), the files outside build
    directories."""
    git = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z", "--cached",
                          "--others", "--exclude-standard"], cwd=root, capture_output=True,
                         check=False) if shutil.which("git") else None
    if git and git.returncode == 0:
        return sorted(set(filter(None, git.stdout.decode().split("\0"))))
    found = []
    for directory, names, files in os.walk(root):
        names[:] = [n for n in names if n not in {".git", ".cache", "__pycache__"} and
                    not re.fullmatch(r"build(-.*)?", n)]
        found += [str((pathlib.Path(directory) / name).relative_to(root)) for name in files]
    return sorted(found)


def read_tree(root):
    files = []
    for path in tree(root):
        where = root / path
        if (where.suffix in TEXT_SUFFIXES or where.name in TEXT_NAMES) and where.is_file():
            files.append(File(path, where.read_text(encoding="utf-8")))
    return files
