#!/usr/bin/env python3
"""Makes the reference of the C API from its header, whose form scripts/api_header.py describes.

  api_reference.py --markdown FILE   writes docs/api.md
  api_reference.py --check FILE      exits 1 unless FILE is what --markdown would write
  api_reference.py --man DIRECTORY [--share PATH]
                                     writes a man page for each function and type, and r2ccl.3.
                                     The folder docs of the header's texts is PATH/docs
"""

import argparse
import itertools
import pathlib
import re
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import api_header  # noqa: E402 (it lies beside this file)
import roff  # noqa: E402

COLUMNS = 100
LIBRARY = "r2ccl"
INCLUDE = "#include <r2ccl/r2ccl.h>"
SUMMARY_MAX = 100
PROTOTYPE_COLUMNS = 80


def summary(group):
    """Returns the first sentence of the comment, in lower case, for the line NAME."""
    sentence = re.split(r"(?<=\.)\s+(?=[A-Z(]|r2ccl)|[:;]\s(?![^()]*\))", group.comment[0])[0]
    sentence = sentence.rstrip(".:;")
    if len(sentence) > SUMMARY_MAX:
        sentence = sentence[:SUMMARY_MAX].rpartition(", ")[0] or sentence
    return sentence if sentence[1:2].isupper() else sentence[0].lower() + sentence[1:]


def prototype(declaration):
    """Returns a function's declaration in lines of at most 80 columns, cut between parameters."""
    if declaration.kind != "function" or len(declaration.code) <= PROTOTYPE_COLUMNS:
        return declaration.code
    head, _, rest = declaration.code.partition("(")
    lines = [head + "("]
    for number, parameter in enumerate(rest.split(", ")):
        part = parameter if parameter.endswith(");") else parameter + ", "
        if number > 0 and len(lines[-1] + part.rstrip()) > PROTOTYPE_COLUMNS:
            lines.append(" " * (len(head) + 1))
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def documented(header):
    """Returns the groups that have a description; the others are bare constants."""
    return [group for group in header.groups if group.comment]


def by_title(groups):
    """Returns (title, groups) for each section."""
    return [(title, list(part)) for title, part in
            itertools.groupby(groups, key=lambda group: group.title)]


# ---- Man pages ---------------------------------------------------------------------------------

def roff_text(paragraph, header):
    """Returns a paragraph with the names of the header in bold."""
    names = {each.name for each in header.of("function", "enum", "struct", "type", "macro")}
    functions = {each.name for each in header.of("function")}
    constants = {name for enum in header.of("enum") for name in enum.constants()}

    def mark(match):
        word = match.group(0)
        if word in functions:
            return roff.reference(word, 3)
        # A call with its arguments is no name of a page.
        is_call = word.partition("(")[0] in functions
        known = is_call or word in names or word in constants
        return roff.bold(word) if known else roff.escaped(word)
    return re.sub(r"r2ccl\w+\([^)]*\)|\w+|[^\w]+", mark, paragraph)


def man_page(group, header):
    page = roff.Page(group.names()[0], 3, f"{LIBRARY} {header.version()}", "r2ccl manual")
    page.heading("NAME")
    page.paragraph(", ".join(map(roff.escaped, group.names())) + " \\- " +
                   roff.escaped(summary(group)))
    page.heading("SYNOPSIS")
    page.code(INCLUDE)
    page.code("\n".join(prototype(each) for each in group.declarations))
    page.heading("DESCRIPTION")
    for paragraph in group.comment:
        page.paragraph(roff_text(paragraph, header))
    if any(each.kind == "function" and each.result().endswith("Result_t")
           for each in group.declarations):
        page.heading("RETURN VALUE")
        page.paragraph(roff_text(
            "r2cclSuccess, or the code of an error (r2cclResult_t). r2cclGetLastError then has "
            "its cause in words.", header))
    if group.note and group.is_of("function"):
        page.heading("NOTES")
        for paragraph in group.note:
            page.paragraph(roff_text(paragraph, header))
    page.heading("SEE ALSO")
    page.paragraph(", ".join([roff.reference("r2ccl", 3), *(
        roff.reference(other, 3) for other in related(group, header))]))
    return page.text()


def related(group, header):
    """Returns the names of the header in the texts and the declarations of a group, without its
    own."""
    pages = {name for other in documented(header) if not other.is_of("macro")
             for name in other.names()}
    note = group.note if group.is_of("function") else []
    text = " ".join([*group.comment, *(note or []), *(each.code for each in group.declarations)])
    return sorted(set(re.findall(r"\w+", text)) & pages - set(group.names()))


# "Errors: a network fault is ..." begins a section of the overview.
OVERVIEW_PART = re.compile(r"(?:([A-Z][a-z]+): )?(.*)")


def add_groups(page, groups):
    for group in groups:
        page.item(", ".join(roff.reference(name, 3) for name in group.names()),
                  roff.escaped(summary(group)))


def overview_page(header):
    page = roff.Page(LIBRARY, 3, f"{LIBRARY} {header.version()}", "r2ccl manual")
    page.heading("NAME")
    page.paragraph(roff.escaped(LIBRARY) + " \\- " +
                   roff.escaped(header.overview[0].partition(": ")[2].rstrip(".")))
    page.heading("SYNOPSIS")
    page.code(INCLUDE)
    page.code("cc program.c $(pkg-config --cflags --libs r2ccl)")
    page.heading("DESCRIPTION")
    for paragraph in header.overview[1:]:
        title, text = OVERVIEW_PART.fullmatch(paragraph).groups()
        if title:
            page.heading(title.upper())
            text = text[0].upper() + text[1:] if text[1:2] != "2" else text
        page.paragraph(roff_text(text, header))
    page.heading("CALLS")
    for title, groups in by_title([each for each in documented(header) if each.is_of("function")]):
        if title:
            page.subheading(roff.escaped(title))
        add_groups(page, groups)
    page.heading("TYPES")
    add_groups(page, [each for each in documented(header) if each.is_of("enum", "struct", "type")])
    page.heading("CONSTANTS")
    page.code("\n".join(each.code for each in header.of("macro")))
    page.heading("SEE ALSO")
    page.paragraph(f"{roff.reference('r2ccl', 1)}, {roff.reference('r2ccl', 7)}, "
                   f"{roff.reference('r2ccl-operations', 7)}")
    return page.text()


def write_man_pages(header, directory, share=""):
    """Writes all pages. They name documents below `share`."""
    def write(name, text):
        (directory / f"{name}.3").write_text(roff.below(share, text), encoding="utf-8")

    directory.mkdir(parents=True, exist_ok=True)
    write(LIBRARY, overview_page(header))
    for group in documented(header):
        if group.is_of("macro"):
            continue
        first, *others = group.names()
        write(first, man_page(group, header))
        for other in others:
            write(other, f".so man3/{first}.3\n")


# ---- Markdown ----------------------------------------------------------------------------------

CODE_WORD = re.compile(r"`[^`]*`|\*?\b\w+\[\w+\]|\*\w+|\b(?:r2ccl\w+|sizeof)\(\w+\)|"
                       r"\b(?:r2ccl|R2CCL_|NULL\b)\w*")


def markdown_text(paragraph):
    """Returns a wrapped paragraph, with code marked as such and nothing that Markdown would read
    as markup."""
    out, at = "", 0
    for match in CODE_WORD.finditer(paragraph):
        out += escape_markdown(paragraph[at:match.start()]) + f"`{match.group(0).strip('`')}`"
        at = match.end()
    out += escape_markdown(paragraph[at:])
    return textwrap.fill(out, COLUMNS, break_long_words=False, break_on_hyphens=False,
                         subsequent_indent="  " if out.startswith("- ") else "")


def escape_markdown(text):
    return re.sub(r"([*_<|])", r"\\\1", text)


def heading_of(group):
    return ", ".join(group.names())


def anchor(group):
    return re.sub(r"[^\w\- ]", "", heading_of(group).lower()).replace(" ", "-")


def index(header):
    calls = [each for each in documented(header) if each.is_of("function")]
    types = [each for each in documented(header) if each.is_of("enum", "struct", "type")]
    for title, groups in [*by_title(calls), ("Types", types)]:
        yield f"| {title.lower()} | |\n|---|---|"
        for group in groups:
            links = f"[{heading_of(group)}](#{anchor(group)})"
            yield f"| {links} | {escape_markdown(summary(group))} |"
        yield ""


def sections(header):
    note = []
    for group in documented(header):
        if group.note is not note:
            note = group.note
            block = [name for other in documented(header) if other.note is note
                     for name in other.names()]
            if note:
                yield f"## From {block[0]} to {block[-1]}\n"
                yield "\n\n".join(map(markdown_text, note)) + "\n"
        yield f"## {heading_of(group)}\n"
        yield "```c\n" + "\n".join(prototype(each) for each in group.declarations) + "\n```\n"
        yield "\n\n".join(map(markdown_text, group.comment)) + "\n"


def markdown(header):
    bare = [each.code for group in header.groups if not group.comment
            for each in group.declarations]
    return "\n".join([
        "# The C API\n",
        "`scripts/api_reference.py` writes this page from the header `r2ccl/r2ccl.h`. The man pages",
        "have the same text: `man 3 r2ccl`, `man r2cclAllReduce`. [examples/](../examples/README.md)",
        "has whole programs.\n",
        "<!-- api: written by scripts/api_reference.py -->",
        "\n\n".join(map(markdown_text, header.overview)) + "\n",
        *index(header),
        *sections(header),
        "## Constants\n",
        "```c\n" + "\n".join(bare) + "\n```",
        "<!-- end of api -->\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", type=pathlib.Path, default=api_header.DEFAULT)
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--man", type=pathlib.Path, metavar="DIRECTORY")
    parser.add_argument("--share", default="", metavar="PATH")
    args = parser.parse_args()
    try:
        header = api_header.read(args.header)
    except api_header.FormError as error:
        print(f"{args.header}: {error}", file=sys.stderr)
        return 1
    if args.man:
        write_man_pages(header, args.man, args.share)
    if args.markdown:
        args.markdown.write_text(markdown(header), encoding="utf-8")
    if args.check and args.check.read_text(encoding="utf-8") != markdown(header):
        print(f"{args.check} is stale: python3 scripts/api_reference.py --markdown {args.check}",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
