"""Writes man pages: the macros of man(7) that groff and mandoc both know."""

import re
import textwrap


def escaped(text):
    """Returns text in which roff sees no escape."""
    return text.replace("\\", "\\e").replace("-", "\\-")


def guarded(line):
    """Returns a line that is no request of roff."""
    return "\\&" + line if line[:1] in (".", "'", "") else line


def wrapped(roff):
    return [guarded(line) for line in textwrap.wrap(
        roff, 90, break_long_words=False, break_on_hyphens=False)] or ["\\&"]


def bold(text):
    return f"\\fB{escaped(text)}\\fP"


def reference(name, section):
    return f"{bold(name)}({section})"


def below(share, page):
    """Returns the page with the documents "docs/NAME.md" below the folder `share`."""
    return re.sub(r"(?<![\w/])docs/(?=\w+\.md)", f"{escaped(share)}/docs/", page) if share else page


class Page:
    def __init__(self, name, section, source, manual):
        self.lines = [f'.TH "{escaped(name)}" {section} "" "{escaped(source)}" "{escaped(manual)}"']
        self.begun = False  # whether a paragraph has begun since the last heading

    def heading(self, title):
        self.lines.append(f".SH {title}")
        self.begun = False

    def subheading(self, title):
        self.lines.append(f".SS {title}")
        self.begun = False

    def paragraph(self, roff):
        """Adds a paragraph of roff text, or an item of a list, which begins with "\\- " or "1. "."""
        if match := re.match(r"(\\-|\d+\.) ", roff):
            mark = "\\(bu 2" if match.group(1) == "\\-" else f"{match.group(1)} 4"
            self.lines += [f".IP {mark}", *wrapped(roff[match.end():])]
            self.begun = True
            return
        if self.begun:
            self.lines.append(".PP")
        self.begun = True
        self.lines += wrapped(roff)

    def code(self, text):
        """Adds lines as they are."""
        if self.begun:
            self.lines.append(".PP")
        self.begun = True
        self.lines += [".nf", *(guarded(escaped(line)) for line in text.split("\n")),
                       ".fi"]

    def item(self, tag, roff):
        """Adds an entry of a list: the tag and its description, both roff text."""
        self.lines += [".TP", tag, *wrapped(roff)]
        self.begun = True

    def text(self):
        return "\n".join(self.lines) + "\n"
