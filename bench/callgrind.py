"""Reads the output of valgrind's callgrind, as far as the scripts beside this file need it."""
import collections
import re

NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


class Profile:
    """Instructions of one thread, function by function, and the number of calls of each."""

    def __init__(self, path=None):
        self.own = collections.Counter()
        self.inclusive = collections.Counter()
        self.calls = collections.Counter()
        self.arcs = collections.Counter()  # calls by (caller, callee)
        if path is not None:
            with open(path) as lines:
                self._read(lines)

    def _read(self, lines):
        names = {}
        current = callee = None

        def name_of(text):
            number, name = NAME.match(text).groups()
            if name is not None:
                names[number] = name
            return names[number]

        for line in lines:
            key, equals, value = line.rstrip("\n").partition("=")
            if key == "fn" and equals:
                current = name_of(value)
            elif key == "cfn" and equals:
                callee = name_of(value)
            elif key == "calls" and equals:
                times = int(value.split()[0])
                self.calls[callee] += times
                self.arcs[current, callee] += times
                cost = int(next(lines).split()[1])  # the cost of this call with its callees
                if callee != current:
                    self.inclusive[current] += cost
            elif line[:1].isdigit() or line[:1] in "+-*":
                words = line.split()
                if len(words) > 1:
                    self.own[current] += int(words[1])
                    self.inclusive[current] += int(words[1])

    def total(self):
        return sum(self.own.values())

    def plus(self, other):
        """Returns the sum of this profile and the other."""
        result = Profile()
        for name in ("own", "inclusive", "calls", "arcs"):
            getattr(result, name).update(getattr(self, name))
            getattr(result, name).update(getattr(other, name))
        return result

    def less(self, other):
        """Returns the difference between this profile and the other: may be negative."""
        result = Profile()
        for name in ("own", "inclusive", "calls", "arcs"):
            counter = getattr(result, name)
            counter.update(getattr(self, name))
            counter.subtract(getattr(other, name))
        return result
