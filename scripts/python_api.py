#!/usr/bin/env python3
"""Writes python/r2ccl/c_api.py, the ctypes form of include/r2ccl/r2ccl.h. `--check` compares.

Every pointer is a c_void_p, which takes numbers, byref() and arrays, except texts, which are
c_char_p. Enums are numbers of type c_int.
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import api_header  # noqa: E402 (it lies beside this file)

OUTPUT = api_header.DEFAULT.parents[2] / "python" / "r2ccl" / "c_api.py"
NUMBERS = {"int": "c_int", "size_t": "c_size_t", "int64_t": "c_int64", "uint64_t": "c_uint64",
           "uint32_t": "c_uint32", "char": "c_char"}
INT_MIN = -2**31

HEAD = '''"""The declarations of r2ccl.h for ctypes: constants, structs and PROTOTYPES. Needs no torch.

scripts/python_api.py writes this file from the header: change that, not this.
"""

from ctypes import (CFUNCTYPE, Structure, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32,
                    c_uint64, c_void_p, sizeof)

'''

TAIL = '''

def config(**fields):
    """Returns a r2cclConfig_t as R2CCL_CONFIG_INITIALIZER makes it, but with these fields."""
    unset = {"size": sizeof(r2cclConfig_t), "magic": R2CCL_CONFIG_MAGIC, "blocking": 1,
             "init_timeout_ms": R2CCL_CONFIG_UNDEF_INT, "cutoff_ms": R2CCL_CONFIG_UNDEF_INT}
    return r2cclConfig_t(**{**unset, **fields})


def declare(library):
    """Sets the types of all functions of a loaded library. Returns the library.

    Raises AttributeError when the library lacks a function."""
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
'''


class Writer:
    def __init__(self, header):
        self.header = header
        self.enums = {declaration.name for declaration in header.of("enum")}
        self.structs = {declaration.name for declaration in header.of("struct")}
        self.handles = {declaration.name for declaration in header.of("type")
                        if "(" not in declaration.code}
        self.callbacks = {declaration.name for declaration in header.of("type")
                          if "(" in declaration.code}

    def type_of(self, text):
        """Returns the ctypes name of a C type without a name behind it."""
        plain = " ".join(text.replace("const", " ").split())
        if "*" in plain or "[" in plain:
            return "c_char_p" if re.fullmatch(r"const char\s*\*", text.strip()) else "c_void_p"
        if plain in self.enums:
            return "c_int"
        if plain in self.handles:
            return "c_void_p"
        if plain in self.structs or plain in self.callbacks:
            return plain
        return NUMBERS[plain]

    def parameters(self, code):
        """Returns the ctypes names of a prototype's parameters."""
        inside = code[code.index("(") + 1:code.rindex(")")]
        types = []
        for parameter in inside.split(","):
            if parameter.strip() in ("", "void"):
                continue
            kind, name, array = re.fullmatch(r"(.*?)(\w+)(\[\])?", parameter.strip()).groups()
            types.append(self.type_of(kind + (array or "")))
        return types

    def macro(self, declaration):
        name, value = re.fullmatch(r"#define (\w+) (.*)", declaration.code).groups()
        value = value.strip().removesuffix("u")
        if value == "INT_MIN":
            return f"{name} = {INT_MIN}"
        if re.fullmatch(r"[\w()+* -]+", value):
            return f"{name} = {value.removeprefix('(').removesuffix(')')}"
        return None  # an initializer of a struct

    def enum(self, declaration):
        body = api_header.strip_comments(declaration.code).partition("{")[2].partition("}")[0]
        for part in filter(str.strip, body.split(",")):
            name, value = (word.strip() for word in part.split("="))
            yield f"{name} = {value}"

    def struct(self, declaration):
        body = api_header.strip_comments(declaration.code).partition("{")[2].rpartition("}")[0]
        yield f"class {declaration.name}(Structure):"
        yield "    _fields_ = ["
        for field in filter(None, (" ".join(part.split()) for part in body.split(";"))):
            kind, name, array = re.fullmatch(r"(.*?)(\w+)(?:\[(\w+)\])?", field).groups()
            length = f" * {array}" if array else ""
            yield f"        (\"{name}\", {self.type_of(kind)}{length}),"
        yield "    ]"

    def callback(self, declaration):
        inside = re.search(r"\)\s*\((.*)\);", " ".join(declaration.code.split())).group(1)
        types = ", ".join(self.parameters(f"({inside})"))
        return f"{declaration.name} = CFUNCTYPE(None, {types})"

    def text(self):
        constants = [line for macro in self.header.of("macro") if (line := self.macro(macro))]
        for declaration in self.header.of("enum"):
            constants += ["", *self.enum(declaration)]
        parts = ["\n".join(constants)]
        for declaration in self.header.of("struct"):
            parts.append("\n".join(self.struct(declaration)))
        parts += [self.callback(declaration) for declaration in self.header.of("type")
                  if declaration.name in self.callbacks]
        rows = ["PROTOTYPES = {"]
        for function in self.header.of("function"):
            result = self.type_of(function.result())
            rows.append(f"    \"{function.name}\": (")
            rows.append(f"        {result}, [{', '.join(self.parameters(function.code))}]),")
        parts.append("\n".join([*rows, "}"]))
        return HEAD + "\n\n\n".join(parts) + "\n" + TAIL


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true",
                        help="change nothing; fail when the file is not current")
    args = parser.parse_args()
    text = Writer(api_header.read()).text()
    if args.check:
        if not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != text:
            print(f"{OUTPUT.name} differs from r2ccl.h: run scripts/python_api.py")
            return 1
        return 0
    OUTPUT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
