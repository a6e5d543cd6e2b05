"""Reads a C header such as include/r2ccl/r2ccl.h: its declarations and their comments.

The form: comments are block comments at the beginning of a line. A comment describes the
declarations that follow it without an empty line between: they form a group. A comment before an
empty line is a note, which belongs to every group of the block that follows; a block ends at an
empty line. A comment of one line "=== Title ===" is the title of the groups up to the next such
comment. The first comment of the file is the overview. Names play no part.
"""

import dataclasses
import pathlib
import re

DEFAULT = pathlib.Path(__file__).resolve().parent.parent / "include" / "r2ccl" / "r2ccl.h"


class FormError(Exception):
    """The header does not have the form above."""


@dataclasses.dataclass
class Declaration:
    kind: str  # function, enum, struct, type or macro
    name: str
    code: str  # as in the header, without the mark of exported functions

    def result(self):
        """Returns the type of a function's result."""
        return self.code.partition(self.name)[0].strip()

    def constants(self):
        """Returns the names of an enum's constants."""
        body = strip_comments(self.code).partition("{")[2].partition("}")[0]
        return [part.split("=")[0].strip() for part in body.split(",") if part.strip()]


@dataclasses.dataclass
class Group:
    comment: list  # paragraphs
    declarations: list
    note: list  # paragraphs of the note above it
    title: str = ""  # of its section

    def names(self):
        return [declaration.name for declaration in self.declarations]

    def is_of(self, *kinds):
        return self.declarations[0].kind in kinds


@dataclasses.dataclass
class Header:
    overview: list  # paragraphs
    groups: list

    def of(self, *kinds):
        """Returns the declarations of these kinds."""
        return [declaration for group in self.groups for declaration in group.declarations
                if declaration.kind in kinds]

    def version(self):
        """Returns the text "major.minor.patch" of the first three macros with a number."""
        numbers = [match.group(1) for match in
                   (re.fullmatch(r"#define \w+ (\d+)", macro.code) for macro in self.of("macro"))
                   if match]
        return ".".join(numbers[:3])


def strip_comments(code):
    return re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)


def paragraphs(comment):
    """Returns the paragraphs of a block comment, each as one line. Items of a list are paragraphs
    that begin with "- "."""
    lines = [line.strip().removeprefix("*").strip() for line in comment[2:-2].split("\n")]
    blocks = re.split(r"\n\n|\n(?=- )", "\n".join(lines).strip())
    return [" ".join(block.split()) for block in blocks if block.strip()]


TOKEN = re.compile(
    r"(?P<blank>^[ \t]*\n)|"
    r"(?P<title>^/\* === [^\n]* === \*/\n)|"
    r"(?P<comment>^/\*.*?\*/[ \t]*\n)|"
    r"(?P<macro>^#[ \t]*define[ \t]+\w+(?:[^\n]*\\\n)*[^\n]*\n)|"
    r"(?P<directive>^#[^\n]*\n)|"
    r"(?P<linkage>^extern \"C\" \{\n|^\}\n)|"
    r"(?P<declaration>^(?:[^;{]|\{[^}]*\})*;[^\n]*\n)", re.MULTILINE | re.DOTALL)


def tokens(text):
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise FormError(f"line {text.count(chr(10), 0, at) + 1}: this is no declaration: "
                            f"{text[at:at + 60]!r}")
        yield match.lastgroup, match.group(0), text.count("\n", 0, at) + 1
        at = match.end()


def macro(text):
    """Returns the declaration of a macro, or None for one without a value, such as a guard, and
    for an attribute."""
    name, rest = re.match(r"#\s*define\s+(\w+)(.*)", text, re.DOTALL).groups()
    if not rest.strip() or "__attribute__" in rest:
        return None
    return Declaration("macro", name, re.sub(r"\s*\\\n\s*", " ", text).strip())


def declaration(text, line, exported):
    code = text.strip().removeprefix(exported).lstrip()
    plain = " ".join(strip_comments(code).split())
    if code.startswith("typedef enum"):
        kind, name = "enum", re.search(r"\}\s*(\w+);$", plain)
    elif code.startswith("typedef struct") and "{" in plain:
        kind, name = "struct", re.search(r"\}\s*(\w+);$", plain)
    elif code.startswith("typedef"):
        kind, name = "type", re.search(r"\(\*\s*(\w+)\)|(\w+);$", plain)
    else:
        kind, name = "function", re.search(r"(\w+)\s*\(", plain)
    if not name:
        raise FormError(f"line {line}: this declaration has no name: {plain[:60]}")
    if kind == "function" and exported and not text.startswith(exported):
        raise FormError(f"line {line}: {name.group(1)} is not marked {exported}")
    # Further lines of a prototype are aligned with its first parameter.
    if kind == "function":
        code = re.sub(r"\s*\n\s*", " ", code)
    return Declaration(kind, next(filter(None, name.groups())), code)


def parse(text, exported="R2CCL_API"):
    """Returns the Header; raises FormError."""
    overview, groups, note, title = None, [], [], ""
    pending, open_group = None, None  # the comment read last; the group that may still grow
    made = None
    for kind, content, line in tokens(text):
        ends_block = kind == "blank" and made is not None
        made = None
        if kind == "title":
            title, note = content.strip("/*= \n"), []
            pending, open_group = None, None
            continue
        if kind == "comment":
            if overview is None:
                overview = paragraphs(content.strip())
            else:
                pending = paragraphs(content.strip())
            open_group = None
            continue
        if kind == "macro":
            made = macro(content)
        elif kind == "declaration":
            made = declaration(content, line, exported)
        if made is None:
            if kind == "blank" and (pending or ends_block):
                note = pending or []
            pending, open_group = None, None
        elif pending is not None or open_group is None:
            if pending is None and made.kind != "macro":
                raise FormError(f"line {line}: {made.name} has no comment")
            open_group = Group(pending or [], [made], note, title)
            groups.append(open_group)
            pending = None
        else:
            open_group.declarations.append(made)
    if not overview or not groups:
        raise FormError("there is no overview, or no declaration")
    return Header(overview, groups)


def read(path=DEFAULT):
    return parse(pathlib.Path(path).read_text(encoding="utf-8"))
