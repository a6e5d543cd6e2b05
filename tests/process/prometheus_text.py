"""A strict reader of Prometheus's text exposition format, version 0.0.4, for tests."""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
TYPES = ("counter", "gauge")


def unescaped(text):
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), text)


def read(text):
    """Returns {name: {labels as a frozenset of pairs: value}}; raises ValueError at the first thing
    that a scraper refuses, or that its rules of style forbid."""
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    metrics, kinds, helps, current = {}, {}, set(), None
    for line in text[:-1].split("\n"):
        if comment := re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line):
            kind, current, rest = comment.groups()
            known = helps if kind == "HELP" else kinds
            if current in known or current in metrics:
                raise ValueError(f"a second {kind} or one behind samples: {line}")
            if kind == "HELP":
                helps.add(current)
            elif rest not in TYPES or current not in helps:
                raise ValueError(f"an unknown type, or no HELP before: {line}")
            else:
                kinds[current] = rest
            continue
        sample = SAMPLE.fullmatch(line)
        if not sample:
            raise ValueError(f"no sample: {line}")
        name, value = sample[1], float(sample[sample.re.groups])
        if name != current or name not in kinds:
            raise ValueError(f"a sample apart from its family: {line}")
        if not math.isfinite(value) or (kinds[name] == "counter" and value < 0):
            raise ValueError(f"a value that no such metric has: {line}")
        if (kinds[name] == "counter") != name.endswith("_total"):
            raise ValueError(f"counters, and they alone, end with _total: {line}")
        pairs = [(key, unescaped(text)) for key, text in re.findall(LABEL, sample[2] or "")]
        labels = frozenset(pairs)
        if len({key for key, _ in pairs}) != len(pairs) or labels in metrics.setdefault(name, {}):
            raise ValueError(f"a label or a series that is there twice: {line}")
        metrics[name][labels] = value
    return metrics
