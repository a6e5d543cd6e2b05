#!/usr/bin/env python3
"""The rules of this tree that a compiler does not check. `tidy.py [DIRECTORY]` prints one line per
finding, "file:line: rule: message", and exits 1 if there is any.

Each rule is a function from a File (or the list of all files) to findings; RULES lists them.
tidy_code.py has those about classes, comments, strings and the folders of CMake.
tests/tidy_test.py shows that each one fires.
"""

import ast
import collections
import fnmatch
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import prose  # noqa: E402 (it lies beside this file)
import tidy_code  # noqa: E402
from cpp_source import cpp_functions, strip_cpp  # noqa: E402, F401
from tidy_tree import TEST_FOLDERS, Finding, folders, includes, read_tree  # noqa: E402

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
# A public header is also the reference of its calls, and grows with their number.
PUBLIC_HEADER_LINES_MAX = 1000
DOCUMENT_COLUMNS_MAX = 100
HEADLESS_PERCENT_MAX = 2
# The layers check conditions that only a bug of ours can break: so often per 1,000 lines, the pure
# state machines twice as often as the others.
CHECKS_PER_1000_LINES_MIN = {"src/protocol/": 10, "src/plan/": 5, "src/transport/": 5,
                             "src/runtime/": 5}
CHECK_SITE = re.compile(r"\bR2CCL_CHECK\s*\(")

# The public headers, "r2ccl/r2ccl.h": the folders that use the library as its users do.
PUBLIC_HEADER_USERS = ("src/api", "src/nccl/plugin", "tools", "tests")
# The shared libraries, which put everything together.
LIBRARIES = ("src/api", "src/nccl/plugin")
FOLDER_FILES_MAX = 40

# The pure layers: no sockets, threads or clock, so that a test can drive every state by hand.
PURE = {"protocol", "plan"}
IMPURE_HEADERS = re.compile(
    r"sys/(socket|epoll|eventfd|timerfd|uio|un|ioctl|time)\.h|netinet/.*|arpa/inet\.h|net/if\.h|"
    r"netdb\.h|linux/.*|poll\.h|unistd\.h|fcntl\.h|pthread\.h|time\.h|ctime|chrono|thread|mutex|"
    r"shared_mutex|condition_variable|future|semaphore|atomic")

CLOCK_FILE = "src/base/clock.cc"
CLOCK_READ = re.compile(
    r"\bclock_gettime\s*\(|\bgettimeofday\s*\(|\btimespec_get\s*\(|_clock\s*::\s*now\b|"
    r"(?<![\w.>])(?:std::|::)?time\s*\(\s*(?:NULL|nullptr|0|&\w+)\s*\)|\b__?rdtscp?\s*\(")
SLEEP = re.compile(r"\bsleep_(?:for|until)\s*\(|\b(?:u|nano|clock_nano)?sleep\s*\(")

# These files contain the texts that the text rules forbid.
TEXT_RULE_EXEMPT = {"scripts/tidy.py", "tests/tidy_test.py"}
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
MACHINE = re.compile(r"\.\./shared\b|(?<![\w.])/(?:work|home|root|Users)/\w")


# ---- Rules -------------------------------------------------------------------------------------

def layering(files):
    """A folder includes only its own files and those of the folders that CMake lets it use."""
    allowed = folders(files)
    headers = {file.path for file in files if file.path.endswith(".h")}
    for file in files:
        if not file.is_cpp or not file.path.startswith(("src/", "tools/", "include/")):
            continue
        for line, kind, name in includes(file):
            target = next((path for path in (f"src/{name}", name) if path in headers), None)
            if file.path.startswith("include/"):
                if kind == '"' or target:
                    yield Finding(file.path, line, "layer", f"a public header includes {name}")
            elif file.layer in PURE and not file.is_test and IMPURE_HEADERS.fullmatch(name):
                yield Finding(file.path, line, "layer", f"{file.layer} is pure but includes <{name}>")
            elif name.startswith("r2ccl/"):
                if not file.path.startswith(PUBLIC_HEADER_USERS):
                    yield Finding(file.path, line, "layer", f"{file.folder} includes {name}")
            elif kind == '"' and target is None:
                yield Finding(file.path, line, "layer", f"{name} is no header of this tree")
            elif target and not may_include(file, os.path.dirname(target), allowed):
                yield Finding(file.path, line, "layer", f"{file.folder} includes {name}")


def may_include(file, target, allowed):
    if target == file.folder or file.folder in TEST_FOLDERS or file.is_test:
        return True
    if target in TEST_FOLDERS:
        return False
    if file.folder in LIBRARIES:
        return not target.startswith(("src/sim", "tools"))
    return target in allowed.get(file.folder, ())


def folder_size(files):
    """A folder has few enough files for a reader."""
    count = collections.Counter(file.folder for file in files if file.is_cpp)
    for folder, number in sorted(count.items()):
        if number > FOLDER_FILES_MAX:
            yield Finding(folder, 1, "folder-size", f"{number} files (at most {FOLDER_FILES_MAX})")


def clock(file):
    """Time comes from the clock object alone, and nothing in the library sleeps."""
    if not file.is_cpp or not file.path.startswith(("src/", "tools/", "include/")):
        return
    if file.path != CLOCK_FILE:
        yield from file.matches(CLOCK_READ, "clock", "`{}` outside " + CLOCK_FILE)
    # The conformance suite runs on real sockets, and must now and then let the kernel run.
    if file.path.startswith("src/") and not (file.is_test and file.layer == "transport"):
        yield from file.matches(SLEEP, "sleep", "`{}` in the library")


def function_size(file):
    if file.is_cpp:
        found = cpp_functions(file.code)
    elif file.path.endswith(".py"):
        found = ((node.lineno, node.end_lineno, node.name) for node in ast.walk(ast.parse(file.text))
                 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    else:
        return
    for first, last, head in found:
        if last - first + 1 > FUNCTION_LINES_MAX:
            yield Finding(file.path, first, "function-size",
                          f"{last - first + 1} lines (at most {FUNCTION_LINES_MAX}): {head[:60]}")


def file_size(file):
    lines = file.text.count("\n")
    most = PUBLIC_HEADER_LINES_MAX if file.path.startswith("include/") else FILE_LINES_MAX
    if file.path.endswith((".cc", ".h", ".c", ".py", ".sh")) and lines > most:
        yield Finding(file.path, 1, "file-size", f"{lines} lines (at most {most})")


def check_density(files):
    """A layer checks its invariants: R2CCL_CHECK sites per non-blank line outside tests."""
    for folder, least in CHECKS_PER_1000_LINES_MIN.items():
        checked = [file for file in files
                   if file.is_cpp and file.path.startswith(folder) and not file.is_test]
        lines = sum(bool(line.strip()) for file in checked for line in file.text.splitlines())
        sites = sum(len(CHECK_SITE.findall(file.code)) for file in checked)
        wanted = least * lines // 1000
        if sites < wanted:
            yield Finding(folder, 1, "check-density",
                          f"{sites} R2CCL_CHECK in {lines} lines (at least {wanted})")


def header_guard(file):
    """A header has #pragma once. A public header may also have the guard that every C compiler
    knows, and a file with code for each instruction set has Highway's."""
    if not file.path.endswith(".h"):
        return
    guarded = re.search(r"^#pragma once$", file.code, re.MULTILINE) or (
        file.path.startswith("include/") and
        re.search(r"^#ifndef (\w+)\n#define \1$", file.code, re.MULTILINE)) or re.search(
            r"^#if defined\((\w+)\) == defined\(HWY_TARGET_TOGGLE\)\n#ifdef \1\n#undef \1$",
            file.code, re.MULTILINE)
    if not guarded:
        yield Finding(file.path, 1, "header-guard", "no #pragma once")


def using_namespace(file):
    if file.path.endswith(".h"):
        yield from file.matches(re.compile(r"\busing\s+namespace\b"), "using-namespace",
                                "`{}` in a header")


def unfinished(file):
    if file.path not in TEXT_RULE_EXEMPT:
        yield from file.matches(UNFINISHED, "unfinished", "the word {}", file.text)


def machine(file):
    """No text refers to files or machines that a user of a clone does not have."""
    if file.path not in TEXT_RULE_EXEMPT:
        yield from file.matches(MACHINE, "machine", "`{}` is not in a user's clone", file.text)


def suppressions(file):
    if file.path.endswith(".supp") and file.text:
        yield Finding(file.path, 1, "suppression", "must stay empty: mend what it hides")


FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)


def without_code(text):
    text = FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)
    return re.sub(r"`[^`\n]*`", lambda match: "`" * len(match.group(0)), text)


def anchors(text):
    """Returns the anchors that GitHub makes from headings."""
    fenced = FENCE.sub("", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in HEADING.findall(fenced)}


def links(file, files, root):
    """Relative links in the documents lead somewhere."""
    if not file.path.endswith(".md"):
        return
    texts = {other.path: other.text for other in files}
    for match in LINK.finditer(without_code(file.text)):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        base = os.path.dirname(file.path)
        path = os.path.normpath(os.path.join(base, target)) if target else file.path
        line = without_code(file.text).count("\n", 0, match.start()) + 1
        if path.startswith("..") or not (path in texts or (root / path).exists()):
            yield Finding(file.path, line, "link", f"{match.group(1)} does not exist")
        elif anchor and path.endswith(".md") and anchor not in anchors(texts.get(path, "")):
            yield Finding(file.path, line, "link", f"{match.group(1)}: no such heading")


GOOGLE_TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")


def named_tests(file, files):
    """The tests that a table names in its column "shown by" exist."""
    if not file.path.endswith(".md") or "| shown by |" not in file.text:
        return
    sources = [other for other in files if other.path.endswith((".cc", ".h"))]
    known = {".".join(name) for other in sources for name in GOOGLE_TEST.findall(other.text)}
    scripts = {os.path.basename(other.path): other.text for other in files
               if other.path.endswith(("_test.py", "_process.py"))}
    known |= set(scripts)
    classes = set(re.findall(r"^class (\w+)", "\n".join(scripts.values()), re.MULTILINE))
    in_table = False
    for number, line in enumerate(file.text.splitlines(), 1):
        in_table = line.startswith("|") and (in_table or line.endswith("| shown by |"))
        cell = line.rstrip("|").rpartition("|")[2] if in_table else ""
        for name in re.findall(r"`(\w+\.[\w.*]+)`", cell):
            if not any(fnmatch.fnmatchcase(test, name.replace("...", "*")) for test in known):
                yield Finding(file.path, number, "test", f"{name} does not exist")
        for name in re.findall(r"\b[A-Z]\w*Test\b", re.sub(r"`[^`]*`", "", cell)):
            if name not in classes:
                yield Finding(file.path, number, "test", f"{name} does not exist")


LINK_TARGET = re.compile(r"(?<=\])\([^)\s]*\)|https?://\S+")


def document_width(file):
    """Documents wrap; code blocks, tables and the targets of links may be longer."""
    if not file.path.endswith(".md"):
        return
    text = FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), file.text)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("|"):
            columns = len(LINK_TARGET.sub("", line))
            if columns > DOCUMENT_COLUMNS_MAX:
                yield Finding(file.path, number, "document-width",
                              f"{columns} columns (at most {DOCUMENT_COLUMNS_MAX})")


def conflict(file):
    """A merge that was not finished leaves its marks."""
    for match in re.finditer(r"^(<{7}|>{7}) ", file.text, re.MULTILINE):
        yield Finding(file.path, file.line_of(match.start()), "conflict", "a mark of a merge")


DECISION_PATH = re.compile(r"docs/decisions/(\d{4})-[^/]*\.md")


def decision(file):
    """A decision's record begins with its number, its status and its date."""
    match = DECISION_PATH.fullmatch(file.path)
    if not match:
        return
    if not file.text.startswith(f"# {int(match.group(1))}. "):
        yield Finding(file.path, 1, "decision", f"the title must begin with {int(match.group(1))}.")
    head = file.text.partition("\n## ")[0]
    if not re.search(r"^- Status: (?:proposed|accepted|superseded by \S.*)$", head, re.MULTILINE):
        yield Finding(file.path, 1, "decision",
                      "no line `- Status: ` with proposed, accepted or superseded by")
    if not re.search(r"^- Date: \d{4}-\d{2}-\d{2}$", head, re.MULTILINE):
        yield Finding(file.path, 1, "decision", "no line `- Date: YYYY-MM-DD`")


PROSE_SUFFIXES = (".md", ".cc", ".h", ".c", ".py")


def plain_english(files):
    """Documents and comments are in plain English: scripts/prose.py lists other sentences."""
    found = [(file.path, sentence) for file in files if file.path.endswith(PROSE_SUFFIXES)
             for sentence in prose.sentences(file.path, file.text)]
    headless = [(path, sentence) for path, sentence in found if sentence.is_headless()]
    over = 100 * len(headless) > HEADLESS_PERCENT_MAX * len(found)
    for path, sentence in headless:
        if sentence.has_forbidden_start():
            yield Finding(path, sentence.line, "prose", f"begins with a pronoun: {sentence.text}")
        elif over:
            yield Finding(path, sentence.line, "prose",
                          f"one of {len(headless)} headless clauses in {len(found)} sentences "
                          f"(at most {HEADLESS_PERCENT_MAX} %): {sentence.text}")


READING_ITEM = re.compile(r"^(\d+)\. `((?:src|tools|include)/[^`]+)`", re.MULTILINE)
READING_FILES_MAX = 12


def reading_order(file, files):
    """The reading lists of ARCHITECTURE name files of the tree, and are short."""
    if file.path != "ARCHITECTURE.md":
        return
    paths = {other.path for other in files}
    for match in READING_ITEM.finditer(file.text):
        line = file.line_of(match.start())
        if match.group(2) not in paths:
            yield Finding(file.path, line, "reading-order", f"{match.group(2)} does not exist")
        if int(match.group(1)) > READING_FILES_MAX:
            yield Finding(file.path, line, "reading-order",
                          f"more than {READING_FILES_MAX} files in one list")


RULES = (clock, function_size, file_size, header_guard, using_namespace, unfinished,
         machine, suppressions, document_width, conflict, decision)


def check(root):
    files = read_tree(root)
    findings = [finding for file in files for rule in RULES for finding in rule(file)]
    findings += [*layering(files), *folder_size(files), *check_density(files)]
    findings += [finding for file in files for finding in links(file, files, root)]
    findings += [finding for file in files for finding in named_tests(file, files)]
    findings += [finding for file in files for finding in reading_order(file, files)]
    findings += plain_english(files)
    findings += tidy_code.check(files)
    return findings


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).parent.parent).resolve()
    findings = check(root)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
