"""Reads C++ as far as scripts/tidy.py needs it: without comments and literals, and by function."""

import re

CPP_TOKEN = re.compile(
    r'//(?:\\\n|[^\n])*'                                   # line comment
    r'|/\*.*?\*/'                                          # block comment
    r'|R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'                                # string
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",               # character, not a digit separator
    re.DOTALL)
INCLUDE_LINE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"', re.MULTILINE)


def strip_cpp(text):
    """Returns the same text, place for place, with comments and literals blanked; includes stay
    readable."""
    def blank(match):
        token = match.group(0)
        line_start = text.rfind("\n", 0, match.start()) + 1
        if token[0] == '"' and INCLUDE_LINE.match(text, line_start):
            return token
        hole = re.sub(r"[^\n]", " ", token)
        return f'"{hole[1:-1]}"' if token[0] in '"R' else hole
    return CPP_TOKEN.sub(blank, text)


DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
SCOPE_HEAD = re.compile(r"(?:\b(?:namespace|class|struct|union|enum)\b|\bextern\s*\"[^\"]*\")[^()=]*$")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)", re.DOTALL)
BODY_QUALIFIERS = {"const", "noexcept", "override", "final", "try", "mutable"}


def brace_kind(head):
    """Returns the block that an open brace after `head` begins, outside any function: scope,
    function or other."""
    head = re.sub(r"\boperator\s*(?:\(\s*\)|[^\w\s(]+)", "operator_", ATTRIBUTE.sub(" ", head))
    while "<" in head and head != (shorter := re.sub(r"<[^<>]*>", "", head)):
        head = shorter
    head = head.strip()
    if not head or SCOPE_HEAD.search(head):
        return "scope"
    if "(" not in head or head.count("(") != head.count(")"):
        return "other"
    if re.search(r"\)\s*(?:noexcept\s*)?:(?!:)", head):
        # A constructor's initialiser list: `member{`, not the body, follows a plain name.
        last = re.search(r"(\w+)$", head)
        if last and last.group(1) not in BODY_QUALIFIERS:
            return "other"
    if re.search(r"(?<![=!<>])=(?!=)\s*\w*\s*$", head):
        return "other"
    return "function"


def cpp_functions(code):
    """Yields (first line, last line, head) of each function defined outside another function."""
    code = DIRECTIVE.sub(lambda match: "\n" * match.group(0).count("\n"), code)
    stack = []  # entries (kind, first line, head); in a function only depth matters
    head, line, head_line = "", 1, None
    for char in code:
        if char == "\n":
            line += 1
        inside = any(kind != "scope" for kind, _, _ in stack)
        if char == "{":
            kind = "nested" if inside else brace_kind(head)
            stack.append((kind, head_line or line, head))
            if kind != "other":
                head, head_line = "", None
        elif char == "}" and stack:
            kind, first, opened_by = stack.pop()
            if kind == "function":
                yield first, line, " ".join(opened_by.split())
            if kind == "other":
                head, head_line = opened_by + "{}", first
            else:
                head, head_line = "", None
        elif char == ";" and not inside and head.count("(") == head.count(")"):
            head, head_line = "", None
        elif not inside:
            if head_line is None and not char.isspace():
                head_line = line
            if head or not char.isspace():
                head += char
            if char == ":" and re.search(r"\b(?:public|private|protected)\s*:$", head):
                head, head_line = "", None
