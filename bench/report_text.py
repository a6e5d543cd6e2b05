"""What the writers of RESULTS.md share: numbers, tables, the line of a target, and where a figure is
from.
"""

MIB = 1 << 20


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


def find(document, *keys):
    """What stands under the keys, one inside the other; None where one of them is missing."""
    for key in keys:
        if not isinstance(document, dict) or document.get(key) is None:
            return None
        document = document[key]
    return document


class Target:
    """One line of the targets' table. A value of None: there is no result. `reached` and `shown` are
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
    """No element may be wrong; document: what has the counts."""
    return Target(what, "0", find(document, "wrong_elements"), lambda wrong: wrong == 0,
                  lambda wrong: f"{wrong} of {num(find(document, 'checked_elements'), 0)}")


def origin(document):
    m = document["machine"]
    lines = ["```sh", m["command"], "```", "",
             f"{m['date']}, commit {m['commit']}, load before {m['load_before']}, "
             f"{m['stolen_percent']} % of the CPU time taken away by the machine's own host.", ""]
    if "--quick" in m["command"]:
        lines += ["**A quick run: it shows that the script works, and measures nothing.**", ""]
    return lines
