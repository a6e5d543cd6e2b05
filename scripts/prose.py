#!/usr/bin/env python3
"""Finds sentences that are hard to read. `prose.py PATH...` reads Markdown files and the comments of
C++ and Python files, and all such files of a folder. It prints each sentence with a headless
clause, "file:line: sentence", then the share of such sentences in each file and over all of them.

A headless clause is a noun that has no noun in it: "what is late", "who asks first", "those that
are left", "nobody". Its reader must guess the subject. An ordinary relative clause has a head ("the
rank that asks", "a host which answers") and is not listed, nor is an indirect question with which,
where, when, why or how. scripts/tidy.py holds the documents to these rules.
"""

import ast
import dataclasses
import io
import pathlib
import re
import sys
import tokenize

WORDS_MIN = 3  # a shorter fragment (a table's cell, a label) is no sentence

# "Those" is a noun before these words, and an article before others ("those ranks").
AFTER_NOUN = (r"(?:that|who|which|whose|whom|in|on|at|with|without|from|to|for|under|below|above|"
              r"behind|beside|between|left|not|are|were|have|had|do|did|can|may|must|will)\b")
FORBIDDEN_START = re.compile(
    r"(?:What|Whatever|Who|Whom|Whoever|Of|Nobody)\b|Those\s+(?:of\b|" + AFTER_NOUN + ")")
# "Who" has no head after these: a verb of asking, a preposition, a conjunction, an opening mark.
BEFORE_FREE_WHO = (
    r"(?:^|[:;(]\s*|\b(?:to|of|by|for|from|with|on|about|and|or|but|than|that|is|are|was|matter|"
    r"see|sees|seen|say|says|said|tell|tells|told|know|knows|known|name|names|ask|asks|asked|show|"
    r"shows|decide|decides|knowing|saying|asking)\s+)")
HEADLESS = re.compile(
    r"\b(?:what|whatever|whoever|whomever|nobody)\b|" + BEFORE_FREE_WHO + r"(?:who|whom)\b|"
    r"\bthose\s+" + AFTER_NOUN + r"|^(?:of|whose)\b", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Sentence:
    line: int
    text: str

    def has_forbidden_start(self):
        return FORBIDDEN_START.match(self.text) is not None

    def is_headless(self):
        return self.has_forbidden_start() or HEADLESS.search(self.text) is not None


# ---- From text to sentences --------------------------------------------------------------------

CODE_OR_QUOTE = re.compile(r"`[^`]*`|(?<!\w)\"[^\"]*\"(?!\w)")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# A full stop ends a sentence before a capital letter, a code span or the end, and not after "e.g.".
SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)[.!?][)\"]*\s+(?=[\"(A-Z0-9])")


def without_markup(text):
    """Returns the same text with code and quotations replaced, line breaks kept."""
    def blank(match):
        return "X" + "\n" * match.group(0).count("\n")
    return LINK.sub(r"\1", CODE_OR_QUOTE.sub(blank, text)).replace("*", "")


def split(block, line):
    """Yields the sentences of a block of text that begins at `line`."""
    text = without_markup(block)
    start = 0
    for end in [match.end() for match in SENTENCE_END.finditer(text)] + [len(text)]:
        raw = text[start:end]
        lead = len(raw) - len(raw.lstrip())
        words = " ".join(raw.split())
        if len(re.findall(r"[A-Za-z]{2,}", words)) >= WORDS_MIN:
            yield Sentence(line + text.count("\n", 0, start + lead), words)
        start = end


# ---- Blocks of text by kind of file ------------------------------------------------------------

BLOCK_START = re.compile(r"\s*(?:#{1,6}\s+|[-*+]\s+|\d+\.\s+)")
GENERATED = re.compile(r"<!-- (\w+): written by .*?<!-- end of \1 -->", re.DOTALL)
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)


def markdown_blocks(text):
    """Yields (line, text) of each paragraph, list item, heading and table cell."""
    for pattern in (FENCE, GENERATED):
        text = pattern.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    block, first = [], 1
    for number, line in enumerate(text.split("\n") + [""], 1):
        is_row = line.lstrip().startswith("|")
        start = BLOCK_START.match(line)
        if block and (is_row or start or not line.strip()):
            yield first, "\n".join(block)
            block = []
        if is_row:
            yield from ((number, cell) for cell in line.strip().strip("|").split("|"))
        elif line.strip():
            if not block:
                first = number
            block.append(line[start.end():] if start else line)
            if line.lstrip().startswith("#"):
                yield first, block.pop()


def joined(comments):
    """Joins comments of one line each, (line, text, whether code stands before it), that stand on
    consecutive lines. A comment behind code begins anew."""
    block, first = [], 0
    for line, text, is_behind_code in [*comments, (-1, "", False)]:
        if block and (line != first + len(block) or is_behind_code or not text.strip()):
            yield first, "\n".join(block)
            block = []
        if text.strip():
            first = first if block else line
            block.append(text)


CPP_TOKEN = re.compile(
    r"//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/|R\"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)\"|"
    r"\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def cpp_blocks(text):
    lines = []
    for match in CPP_TOKEN.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        before = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        if match.group("line") is not None:
            content = match.group("line").lstrip("/!<")
            if "----" not in content and not content.strip().startswith("NOLINT"):
                lines.append((number, content, before.strip() != ""))
        elif match.group("block") is not None:
            for offset, content in enumerate(match.group("block").split("\n")):
                lines.append((number + offset, content.strip().lstrip("*"), False))
    yield from joined(lines)


def python_blocks(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if docstring := ast.get_docstring(node, clean=False):
                for offset, part in enumerate(docstring.split("\n\n")):
                    above = docstring.split("\n\n")[:offset]
                    yield node.body[0].lineno + sum(p.count("\n") + 2 for p in above), part
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield from joined([(token.start[0], token.string.lstrip("#"),
                        token.line[:token.start[1]].strip() != "") for token in tokens
                       if token.type == tokenize.COMMENT and not token.string.startswith("#!")
                       and "----" not in token.string])


BLOCKS = {".md": markdown_blocks, ".h": cpp_blocks, ".cc": cpp_blocks, ".c": cpp_blocks,
          ".py": python_blocks}


def sentences(path, text):
    """Returns the sentences of a file's prose, in order."""
    blocks = BLOCKS[pathlib.PurePath(path).suffix](text)
    return [sentence for line, block in sorted(blocks) for sentence in split(block, line)]


# ---- The command -------------------------------------------------------------------------------

def files_of(paths):
    for path in map(pathlib.Path, paths):
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            below = file.relative_to(path).parts
            if file.suffix in BLOCKS and not any(re.match(r"\.|build\b|__pycache__", part)
                                                 for part in below):
                yield file


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    shares = []
    for path in files_of(sys.argv[1:]):
        found = sentences(path, path.read_text(encoding="utf-8"))
        headless = [sentence for sentence in found if sentence.is_headless()]
        for sentence in headless:
            print(f"{path}:{sentence.line}: {sentence.text}")
        shares.append((str(path), len(headless), len(found)))
    shares.append(("all", sum(share[1] for share in shares), sum(share[2] for share in shares)))
    for name, headless, total in shares:
        if total:
            print(f"{100 * headless / total:5.1f} %  {headless:4} of {total:5}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
