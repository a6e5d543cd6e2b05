#!/usr/bin/env python3
"""Makes the man pages of a command and its completion from the help that the command prints, so
that they cannot be older than the command.

  command_reference.py COMMAND --man DIRECTORY   writes a page for it and each of its subcommands
  command_reference.py COMMAND --bash FILE       writes the completion for bash
  command_reference.py COMMAND --zsh FILE        writes the completion for zsh
"""

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import roff  # noqa: E402 (it lies beside this file)

ENTRY = re.compile(r"  (\S.*?)(?:\s{2,}(\S.*))?$")
CONTINUATION = re.compile(r"\s{20,}(\S.*)$")
SECTION = re.compile(r"(Positionals|Options|Subcommands|Examples):$")


@dataclasses.dataclass
class Help:
    words: list  # of the command: ["r2ccl", "lab", "up"]
    description: str = ""
    usage: str = ""
    sections: dict = dataclasses.field(default_factory=dict)  # title: [(entry, description)]
    footer: list = dataclasses.field(default_factory=list)  # paragraphs
    children: list = dataclasses.field(default_factory=list)  # Help

    def name(self):
        return " ".join(self.words)

    def page_name(self):
        return "-".join(self.words)

    def all(self):
        return [self, *(below for child in self.children for below in child.all())]

    def options(self):
        """Yields (names, placeholder of the value or "", description) of each option."""
        for entry, description in self.sections.get("Options", []):
            names, _, value = entry.partition(" ")
            yield names.split(","), value, description


def parse(words, text):
    found = Help(words)
    head, _, rest = text.partition("Usage: ")
    found.description = " ".join(head.split())
    lines = rest.split("\n")
    found.usage = lines[0]
    section, paragraph = None, []
    for line in [*lines[1:], ""]:
        if match := SECTION.match(line):
            section = found.sections.setdefault(match.group(1), [])
        elif section is not None and (match := CONTINUATION.match(line)) and section:
            entry, description = section[-1]
            section[-1] = (entry, f"{description} {match.group(1)}".strip())
        elif section is not None and (match := ENTRY.match(line)):
            section.append((match.group(1), match.group(2) or ""))
        elif line.strip():
            section = None
            paragraph.append(line.strip())
        else:
            section = None
            if paragraph:
                found.footer.append(" ".join(paragraph))
            paragraph = []
    return found


def read(command, words=()):
    """Returns the Help of the command with these words after its name, and of all below it."""
    text = subprocess.run([command, "help", *words], text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    found = parse([os.path.basename(command), *words], text)
    found.children = [read(command, (*words, name))
                      for name, _ in found.sections.get("Subcommands", [])]
    return found


# ---- Man pages ---------------------------------------------------------------------------------

def man_page(command, parent, source):
    page = roff.Page(command.page_name(), 1, source, "r2ccl manual")
    page.heading("NAME")
    description = command.description.removeprefix(f"{command.name()}: ")
    page.paragraph(f"{roff.escaped(command.page_name())} \\- {roff.escaped(description)}")
    page.heading("SYNOPSIS")
    page.paragraph(roff.bold(command.name()) +
                   roff.escaped(command.usage.removeprefix(command.name())))
    page.heading("DESCRIPTION")
    for paragraph in [f"{description[0].upper()}{description[1:]}.", *command.footer]:
        page.paragraph(roff.escaped(paragraph))
    for title, heading in (("Positionals", "ARGUMENTS"), ("Options", "OPTIONS"),
                           ("Subcommands", "COMMANDS")):
        if entries := command.sections.get(title):
            page.heading(heading)
            for entry, text in entries:
                tag = (roff.reference(f"{command.page_name()}-{entry}", 1)
                       if title == "Subcommands" else roff.bold(entry.replace(",", ", ")))
                page.item(tag, roff.escaped(text))
    if examples := command.sections.get("Examples"):
        page.heading("EXAMPLES")
        for entry, text in examples:
            page.item(roff.bold(entry), roff.escaped(text))
    page.heading("SEE ALSO")
    above = ((parent.page_name(), 1),) if parent else (("r2ccl", 3), ("r2ccl", 7))
    page.paragraph(", ".join(roff.reference(*each) for each in above))
    return page.text()


def write_man_pages(command, directory, source, parent=None):
    directory.mkdir(parents=True, exist_ok=True)
    page = man_page(command, parent, source)
    (directory / f"{command.page_name()}.1").write_text(page, encoding="utf-8")
    for child in command.children:
        write_man_pages(child, directory, source, command)


# ---- Completion --------------------------------------------------------------------------------

BASH = """# Completion for bash of the command {name}, made from its help by scripts/command_reference.py.
# The words before the cursor choose the command; then its commands or options are offered, else
# names of files.
_{name}() {{
  local command={name} index words=
  for ((index = 1; index < COMP_CWORD; ++index)); do
    case "$command ${{COMP_WORDS[index]}}" in
      {enter}) command+=" ${{COMP_WORDS[index]}}" ;;
      {skip}) ((++index)) ;;
    esac
  done
  COMPREPLY=()
  # The word after an option that takes a value is a value.
  ((index == COMP_CWORD)) || return 0
  local word=${{COMP_WORDS[COMP_CWORD]}} wanted=command
  [[ $word != -* ]] || wanted=option
  case "$command/$wanted" in
{words}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _{name} {name}
"""


ZSH = """#compdef {name}
# Completion for zsh of the command {name}, made from its help by scripts/command_reference.py.
# The words before the cursor choose the command; then its commands or options are offered, else
# names of files.
local command={name} wanted=command index
local -a offered
for ((index = 2; index < CURRENT; ++index)); do
  case "$command ${{words[index]}}" in
    {enter}) command+=" ${{words[index]}}" ;;
    {skip}) ((++index)) ;;
  esac
done
# The word after an option that takes a value is a value.
((index == CURRENT)) || {{ _files; return }}
[[ ${{words[CURRENT]}} != -* ]] || wanted=option
case "$command/$wanted" in
{words}
  *) _files; return ;;
esac
_describe $wanted offered
"""


def takes_word(placeholder):
    """Returns whether an option always takes the next word: "[SECONDS]" need not."""
    return placeholder != "" and not placeholder.startswith("[")


def alternatives(patterns):
    return "|".join(f"'{pattern}'" for pattern in patterns)


def case_patterns(root):
    """Returns the patterns of a word that enters a command below, and of an option that takes the
    next word, each after the words of its command."""
    # `help` takes the words of a command, so it is left out of the path.
    entered = [each for each in root.all()[1:] if each.name() != f"{root.words[0]} help"]
    skip = [f"{each.name()} {option}" for each in root.all()
            for names, value, _ in each.options() if takes_word(value) for option in names]
    return {"enter": alternatives(each.name() for each in entered), "skip": alternatives(skip)}


def offers(root):
    """Yields (pattern, [(word, description)]) of each command's options, and of its commands."""
    for each in root.all():
        options = [(name, text) for names, _, text in each.options() for name in names]
        commands = [(name, text) for name, text in each.sections.get("Subcommands", [])]
        for wanted, words in (("option", options), ("command", commands)):
            if words:
                yield f"'{each.name()}/{wanted}'", words


def bash_completion(root):
    words = [f"    {pattern}) words='{' '.join(word for word, _ in found)}' ;;"
             for pattern, found in offers(root)]
    return BASH.format(name=root.words[0], words="\n".join(words), **case_patterns(root))


def zsh_completion(root):
    def described(word, text):
        return "'" + f"{word}:{text}".replace("'", "'\\''") + "'"
    words = [f"  {pattern}) offered=({' '.join(described(*each) for each in found)}) ;;"
             for pattern, found in offers(root)]
    return ZSH.format(name=root.words[0], words="\n".join(words), **case_patterns(root))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", metavar="COMMAND")
    parser.add_argument("--man", type=pathlib.Path, metavar="DIRECTORY")
    parser.add_argument("--bash", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--zsh", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    root = read(args.command)
    if args.man:
        version = subprocess.run([args.command, "--version"], text=True, check=True,
                                 stdout=subprocess.PIPE).stdout
        write_man_pages(root, args.man, " ".join(version.split()[:2]))
    for file, completion in ((args.bash, bash_completion), (args.zsh, zsh_completion)):
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(completion(root), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
