"""Counts the functions and fields of C++ classes, for scripts/tidy.py."""

import re

CLASS_HEAD = re.compile(r"\b(?:class|struct)\s+(?:\[\[[^\]]*\]\]\s*|alignas\([^)]*\)\s*)?(\w+)"
                        r"(?:\s+final)?\s*(?::[^:;{}()][^;{}()]*)?\{")
NOT_A_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert|enum|struct|class|union)\b")
LABEL = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")


def closing(code, opening):
    """Returns the place of the brace that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(code)):
        depth += (code[at] == "{") - (code[at] == "}")
        if depth == 0:
            return at
    return len(code)


# These replace the text in parentheses and in braces.
CALL, BLOCK = "\u00b6", "\u00a7"
# The block of a function ends its declaration, that of an initialiser does not.
FUNCTION_END = re.compile(f"({CALL}[^;=]*?{BLOCK})(?!\\s*[;,{BLOCK}])")


def flatten(body):
    """Returns the body with CALL for parentheses, BLOCK for braces, and without template
    arguments."""
    body = re.sub(r"\boperator\s*(?:\(\s*\)|[^\w\s(]+)", "operator_", LABEL.sub(" ", body))
    for inner, outer in ((r"\([^(){}]*\)", CALL), (r"\{[^(){}]*\}", BLOCK)) * 100:
        body = re.sub(inner, outer, body)
    while (shorter := re.sub(r"<[^<>;=]*>", "", body)) != body:
        body = shorter
    return body


def members(body):
    """Returns the numbers of functions and of fields that the body of a class declares."""
    functions = fields = 0
    for statement in FUNCTION_END.sub(r"\1;", flatten(body)).split(";"):
        statement = re.sub(rf"\[\[.*?\]\]|\balignas{CALL}|^\s*template\b", " ", statement).strip()
        if not statement or NOT_A_MEMBER.match(statement):
            continue
        declared = statement.split("=")[0]
        if CALL in declared:
            functions += 1
        elif not re.match(r"(?:inline\s+)?static\b", statement):
            fields += 1 + declared.count(",")
    return functions, fields


def cpp_classes(code):
    """Yields (offset, name, functions, fields) of each class that the code, without comments and
    literals, defines."""
    for match in CLASS_HEAD.finditer(code):
        if re.search(r"\benum\s*$", code[:match.start()]):
            continue
        opening = match.end() - 1
        yield (match.start(), match.group(1), *members(code[opening + 1:closing(code, opening)]))
