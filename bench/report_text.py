"""Shared by the writers of bench/results: numbers, tables, the wrapping of prose, the line of a
target, and the origin of a figure.
"""
import re
import textwrap

MIB = 1 << 20
COLUMNS = 100


def num(value, digits=1):
    return "-" if value is None else f"{value:,.{digits}f}"


def size_text(size):
    return f"{size // MIB} MB" if size >= MIB else f"{size >> 10} KB"


def spread_text(values, digits=1):
    if values["median"] is None:
        return "failed"
    return f"{num(values['median'], digits)} ({num(values['min'], digits)} to " \
           f"{num(values['max'], digits)})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


def wrapped(lines):
    """Returns the lines with prose wrapped at COLUMNS; leaves code blocks, tables, headings and
    pictures as they are."""
    out, in_code = [], False
    for line in lines:
        in_code ^= line.startswith("```")
        if in_code or not line or re.match(r"```|\||#|!\[", line):
            out.append(line)
            continue
        bound = re.sub(r"`[^`]{1,70}`", lambda span: span[0].replace(" ", "\0"), line)
        # No line may begin with a mark that would start a list, a heading or a quotation.
        bound = re.sub(r" (?=(?:\d+[.)]|[-+*#>=]+)(?: |$))", "\0", bound)
        out += [part.replace("\0", " ") for part in textwrap.wrap(
            bound, COLUMNS, break_long_words=False, break_on_hyphens=False)]
    return out


def find(document, *keys):
    """Returns the value under the keys, one inside the other; None if one of them is missing."""
    for key in keys:
        if not isinstance(document, dict) or document.get(key) is None:
            return None
        document = document[key]
    return document


class Target:
    """One line of the targets' table. A value of None means no result. `reached` and `shown` are
    functions of the value."""

    def __init__(self, what, wanted, value, reached, shown, enough=True):
        if value is None:
            self.row = [what, wanted, "no result", "-"]
            return
        verdict = "reached" if reached(value) else "**not reached**"
        if reached(value) and not enough:
            verdict = "too few to say"
        self.row = [what, wanted, shown(value), verdict]


def wrong_target(what, document):
    """Returns the target that no element is wrong. `document` has the counts."""
    return Target(what, "0", find(document, "wrong_elements"), lambda wrong: wrong == 0,
                  lambda wrong: f"{wrong} of {num(find(document, 'checked_elements'), 0)}")


def place(m):
    """Returns a sentence on the machine `m` of a document."""
    return (f"{m['cores']} cores of {m['cpu']}, {m['memory_gib']} GiB, Linux {m['kernel']}. All hosts "
            "are network namespaces of this machine and share its cores.")


def origin(m):
    """Returns the lines on the command, commit and time of a document with the machine `m`."""
    lines = ["```sh", m["command"], "```", "",
             f"{m['date']}, commit {m['commit']}, load before {m['load_before']}, "
             f"{m['stolen_percent']} % of the CPU time taken away by the machine's own host.", ""]
    if "--quick" in m["command"]:
        lines += ["**A quick run: it shows that the script works, and measures nothing.**", ""]
    return lines
