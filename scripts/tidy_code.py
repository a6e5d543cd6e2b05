"""Rules of scripts/tidy.py about classes, comments, strings and the folders of CMake."""

import ast
import os
import re

from cpp_classes import cpp_classes
from cpp_source import CPP_TOKEN
from tidy_tree import TEST_FOLDERS, Finding, dependencies, includes

CLASS_FUNCTIONS_MAX = 40
CLASS_FIELDS_MAX = 20
# The classes that are larger today. The list may only shrink.
LARGE_CLASSES = {
    "src/protocol/diagnosis/fault_localiser.h": {"FaultLocaliser"},
    "src/testing/link_world.h": {"World"},
    "src/protocol/path/path_model.h": {"PathModel"},
    "src/protocol/view/view_agreement.h": {"ViewAgreement"},
    "src/runtime/collective/executor.h": {"Executor"},
    "src/runtime/config/config.h": {"Config"},
    "src/runtime/engine/progress_engine.h": {"ProgressEngine"},
    "src/runtime/link/link.h": {"Link"},
    "src/runtime/link/link_paths.h": {"LinkPaths"},
    "src/runtime/link/path.h": {"Path"},
    "src/runtime/point_to_point/tagged_messages.h": {"TaggedMessages"},
    "src/runtime/rank_runtime.h": {"RankRuntime"},
    "src/schema/path.h": {"PathInfo"},
    "src/sim/cluster/conditions.h": {"Outcome"},
    "src/sim/cluster/scenario.h": {"Scenario"},
    "src/sim/fabric/flow.h": {"Flow"},
    "src/sim/fabric/stream.h": {"Stream"},
    "src/sim/fluid/fluid_run.h": {"FluidRun"},
    "src/testing/scripted_link.h": {"ScriptedLink"},
    "tools/bench/bench_options.h": {"BenchOptions"},
    "tools/simulate/sim_plan_options.h": {"SimPlanOptions"},
}


def class_size(file):
    """A class is one thing: it has few enough functions and fields."""
    if not file.is_cpp or file.is_test or not file.path.startswith(("src/", "tools/", "include/")):
        return
    exempt = set(LARGE_CLASSES.get(file.path, ()))
    for offset, name, functions, fields in cpp_classes(file.code):
        if functions <= CLASS_FUNCTIONS_MAX and fields <= CLASS_FIELDS_MAX:
            continue
        if name in exempt:
            exempt.discard(name)
            continue
        yield Finding(file.path, file.line_of(offset), "class-size",
                      f"{name} has {functions} functions (at most {CLASS_FUNCTIONS_MAX}) and {fields} "
                      f"fields (at most {CLASS_FIELDS_MAX})")
    for name in sorted(exempt):
        yield Finding(file.path, 1, "class-size",
                      f"{name} is small now; take it out of LARGE_CLASSES in scripts/tidy_code.py")


FILE_NAME = re.compile(r"(?<![\w/.<$*-])((?:[\w.-]+/)*[\w-]*[A-Za-z0-9]\.(?:h|cc|py|sh|md))\b(?![\w/*(>])")
# Files of other projects that comments name.
OTHER_FILES = {"foreach_target.h", "nccl-tests/doc/PERFORMANCE.md"}


def comments(file):
    """Yields (offset, text) of each comment."""
    if file.is_cpp:
        for match in CPP_TOKEN.finditer(file.text):
            if match.group(0).startswith("/"):
                yield match.start(), match.group(0)
    elif file.path.endswith((".py", ".sh", ".cmake", "CMakeLists.txt")):
        for match in re.finditer(r"^\s*#[^\n]*|^\s*\"\"\".*?\"\"\"", file.text,
                                 re.MULTILINE | re.DOTALL):
            yield match.start(), match.group(0)


def names_in_comments(files):
    """A file that a comment names exists. A name of capitals (NAME.md) stands for any."""
    known = {file.path for file in files}
    endings = {path[at:] for path in known
               for at in [0, *(match.end() for match in re.finditer("/", path))]}
    for file in files:
        for offset, text in comments(file):
            for match in FILE_NAME.finditer(text):
                name = match.group(1)
                if name in endings | OTHER_FILES or re.search(r"\b[A-Z]+\.\w+$", name):
                    continue
                yield Finding(file.path, file.line_of(offset + match.start()), "comment-file",
                              f"{name} does not exist")


# Words that docs/glossary.md has replaced, and today's words. Identifiers and the
# names of fields (lane_rtt_ms) keep theirs.
OLD_WORDS = {"lane": "control stream", "card": "rank info", "permission": "credit"}
OLD_WORD = re.compile(r"(?<![\w.-])(lane|card|permission)s?(?![\w.])", re.IGNORECASE)


def strings(file):
    """Yields (line, text) of each string that a user may read."""
    if file.is_test or not file.path.startswith(("src/", "tools/", "include/", "python/")):
        return
    if file.is_cpp:
        for match in CPP_TOKEN.finditer(file.text):
            if match.group(0)[0] in '"R':
                yield file.line_of(match.start()), match.group(0)
    elif file.path.endswith(".py"):
        for node in ast.walk(ast.parse(file.text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value


def old_words(file):
    """The texts that users read have the words of the glossary."""
    for line, text in strings(file):
        for match in OLD_WORD.finditer(text):
            yield Finding(file.path, line, "old-word",
                          f"`{match.group(0)}`: say {OLD_WORDS[match.group(1).lower()]}")


def unused_dependencies(files):
    """A folder includes headers of each folder that CMake lets it use. The folder of main.cc links
    the parts of its commands."""
    headers = {file.path for file in files if file.path.endswith(".h")}
    used = {}
    for file in files:
        if not file.is_cpp or (file.is_test and file.folder not in TEST_FOLDERS):
            continue
        for _, _, name in includes(file):
            target = next((path for path in (f"src/{name}", name) if path in headers), None)
            used.setdefault(file.folder, set()).add(os.path.dirname(target or ""))
    with_main = {file.folder for file in files if file.path.endswith("/main.cc")}
    for folder, depends in dependencies(files).items():
        for other in depends:
            if folder not in with_main and folder in used and other not in used[folder]:
                yield Finding("CMakeLists.txt", 1, "dependency",
                              f"{folder} depends on {other} and includes nothing of it")


def check(files):
    for file in files:
        yield from class_size(file)
        yield from old_words(file)
    yield from names_in_comments(files)
    yield from unused_dependencies(files)
