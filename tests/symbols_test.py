#!/usr/bin/env python3
"""The library exports the calls that the header declares, no more and no less, each under the
version node of its soname, and cmake/debian/symbols lists them. No program that was built loads a
library from the current directory.

usage: symbols_test.py LIBRARY [unittest arguments]
"""
import pathlib
import os
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import api_header  # noqa: E402 (the path must be set first)
import symbols  # noqa: E402

LIBRARY = ""
HOW = "after a change of the header run python3 scripts/symbols.py"


def output(*command):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout


class SymbolsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.soname, self.listed = symbols.read()
        self.node = symbols.node_of(self.soname)

    def declared(self):
        return {f"{function.name}@{self.node}" for function in api_header.read().of("function")}

    def test_the_library_exports_exactly_the_declared_calls(self):
        lines = output("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY)
        exported = {line.split()[2].replace("@@", "@") for line in lines.splitlines()}
        # The node itself is an absolute symbol, whose name nm repeats or not.
        exported -= {self.node, f"{self.node}@{self.node}"}
        self.assertEqual(sorted(exported), sorted(self.declared()))

    def test_the_list_has_exactly_the_declared_calls(self):
        wanted = self.declared() | {f"{self.node}@{self.node}"}
        self.assertEqual(sorted(self.listed), sorted(wanted), HOW)

    def test_no_symbol_is_newer_than_the_header(self):
        def number(version):
            return [int(part) for part in version.split(".")]
        newest = number(api_header.read().version())
        for symbol, version in self.listed.items():
            self.assertLessEqual(number(version), newest, symbol)

    def test_the_soname_is_that_of_the_list(self):
        found = re.search(r"SONAME.*\[(.*)\]", output("readelf", "-d", LIBRARY))
        self.assertEqual(found.group(1), self.soname)


def programs(folder):
    """Yields the ELF files below the folder, but no objects."""
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("CMakeFiles", "deb")]
        for name in names:
            file = pathlib.Path(path, name)
            if file.is_symlink() or not file.is_file() or name.endswith((".o", ".a", ".gch")):
                continue
            with open(file, "rb") as opened:
                if opened.read(4) == b"\x7fELF":
                    yield file


class RunpathTest(unittest.TestCase):
    def test_no_part_is_empty_or_relative(self):
        """The loader takes an empty part for the current directory, which may be another user's."""
        seen = 0
        for program in programs(pathlib.Path(LIBRARY).parent):
            seen += 1
            for runpath in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", output("readelf", "-d", program)):
                for part in runpath.split(":"):
                    self.assertRegex(part, r"^(/|\$ORIGIN(/|$))", f"{program}: {runpath}")
        self.assertGreater(seen, 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    LIBRARY = sys.argv.pop(1)
    unittest.main()
