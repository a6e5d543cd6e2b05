#!/usr/bin/env python3
"""Writes cmake/debian/symbols, the list of the symbols of libr2ccl.so with the version in which each
appeared, in the form of dpkg-gensymbols. A call of include/r2ccl/r2ccl.h that the list lacks gets the
header's version. tests/symbols_test.py compares header, list and library.

A call that the list has and the header lacks is an error: programs may be linked to it. Removing it
takes a new soname, or before 1.0 a line less in the list by hand.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import api_header  # noqa: E402 (it lies beside this file)

LIST = pathlib.Path(__file__).resolve().parent.parent / "cmake" / "debian" / "symbols"
SONAME_LINE = re.compile(r"(\S+\.so\.(\d+)) (\S+) #MINVER#")


def read(path=LIST):
    """Returns (soname, {"symbol@node": version}) of the list."""
    soname, symbols = "", {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := SONAME_LINE.fullmatch(line):
            soname = match.group(1)
        elif line.startswith(" "):
            symbol, version = line.split()
            symbols[symbol] = version
    return soname, symbols


def node_of(soname):
    """Returns the name of the version node, as in src/api/r2ccl.map."""
    return "R2CCL_" + soname.rpartition(".")[2]


def main():
    header = api_header.read()
    soname, symbols = read()
    node = node_of(soname)
    wanted = {f"{function.name}@{node}" for function in header.of("function")}
    wanted.add(f"{node}@{node}")
    if gone := symbols.keys() - wanted:
        print(f"{LIST.name}: not in the header any more: {', '.join(sorted(gone))}", file=sys.stderr)
        return 1
    number = soname.rpartition(".")[2]
    lines = [f"{soname} libr2ccl{number} #MINVER#", "* Build-Depends-Package: libr2ccl-dev"]
    lines += [f" {symbol} {symbols.get(symbol, header.version())}" for symbol in sorted(wanted)]
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
