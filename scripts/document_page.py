#!/usr/bin/env python3
"""Makes a man page of a document: paragraphs, lists, tables and code of Markdown.

  document_page.py DOCUMENT --name NAME --summary TEXT --man DIRECTORY [--share PATH]
      writes DIRECTORY/NAME.7; the documents that it names lie in PATH/docs

A table becomes a list: the first column is the tag, and the other cells follow with the heads of
their columns. The title of the document becomes the heading of its first section.
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import api_header  # noqa: E402 (it lies beside this file)
import roff  # noqa: E402

ITEM = re.compile(r"(?:[-*]|\d+\.)\s+")


def inline(text):
    """Returns text of Markdown as roff text: code in bold, links as their words. A link whose
    words are the name of a document names its place."""
    text = re.sub(r"\[(\w+\.md)\]\(\1[^)]*\)", r"docs/\1", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    out = ""
    for number, part in enumerate(re.split(r"`([^`]*)`", text)):
        out += roff.bold(part) if number % 2 else roff.escaped(part.replace("**", ""))
    return out


def blocks(text):
    """Yields (kind, content): "heading", "code", "table" with its rows, or "paragraph",
    which may be an item of a list."""
    lines, block = iter([*text.split("\n"), ""]), []
    for line in lines:
        starts = line.startswith(("#", "```", "|")) or ITEM.match(line) or not line.strip()
        if starts and block:
            words = " ".join(part.strip() for part in block)
            yield "paragraph", words
            block = []
        if line.startswith("```"):
            yield "code", "\n".join(iter(lines.__next__, "```"))
        elif line.startswith("#"):
            yield "heading", line.lstrip("#").strip()
        elif line.startswith("|"):
            rows = [line]
            for following in lines:
                if not following.startswith("|"):
                    break
                rows.append(following)
            yield "table", [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
        elif line.strip():
            block.append(line)


def add_table(page, rows):
    heads, _, *entries = rows
    for tag, *cells in entries:
        parts = [f"{inline(head[0].upper() + head[1:])}: {inline(cell)}"
                 if head and len(cells) > 1 else inline(cell)
                 for head, cell in zip(heads[1:], cells) if cell]
        page.item(inline(tag), ". ".join(parts) + ("" if parts and parts[-1].endswith(".") else "."))


def page_of(text, name, summary, source):
    page = roff.Page(name, 7, source, "r2ccl manual")
    page.heading("NAME")
    page.paragraph(f"{roff.escaped(name)} \\- {roff.escaped(summary)}")
    for kind, content in blocks(text):
        if kind == "heading":
            page.heading(roff.escaped(content.upper()))
        elif kind == "table":
            add_table(page, content)
        elif kind == "code":
            page.code(content)
        else:
            page.paragraph(inline(content))
    page.heading("SEE ALSO")
    page.paragraph(f"{roff.reference('r2ccl', 1)}, {roff.reference('r2ccl', 3)}")
    return page.text()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("document", type=pathlib.Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--summary", required=True)
    parser.add_argument("--man", type=pathlib.Path, required=True)
    parser.add_argument("--share", default="")
    args = parser.parse_args()
    source = f"r2ccl {api_header.read().version()}"
    page = page_of(args.document.read_text(encoding="utf-8"), args.name, args.summary, source)
    args.man.mkdir(parents=True, exist_ok=True)
    (args.man / f"{args.name}.7").write_text(roff.below(args.share, page),
                                                encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
