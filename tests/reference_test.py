#!/usr/bin/env python3
"""The reference of the C API and of the command: complete, not stale, clean for man; and the
completion offers the words of the command's help.

usage: reference_test.py PATH_OF_R2CCL [unittest arguments]
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import api_header  # noqa: E402 (the path must be set first)
import api_reference  # noqa: E402
import command_reference  # noqa: E402
import document_page  # noqa: E402

R2CCL = ""


def warnings(page):
    """Returns the complaints of man about a page."""
    return subprocess.run(["man", "--warnings", "-l", page], text=True, env={
        "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False).stderr


class PagesCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_clean(self):
        if not shutil.which("man"):
            self.skipTest("there is no man")
        # A page that only names another one is found from the folder above.
        pages = [page for page in sorted(self.folder.iterdir())
                 if not page.read_text(encoding="utf-8").startswith(".so ")]
        self.assertGreater(len(pages), 10)
        for page in pages:
            self.assertEqual(warnings(page), "", page.name)


class ApiReferenceTest(PagesCase):
    def test_the_document_is_that_of_the_header(self):
        stored = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
        self.assertEqual(stored, api_reference.markdown(api_header.read()),
                         "run python3 scripts/api_reference.py --markdown docs/api.md")

    def test_every_call_and_type_has_a_page_and_a_link(self):
        header = api_header.read()
        api_reference.write_man_pages(header, self.folder)
        document = api_reference.markdown(header)
        overview = (self.folder / "r2ccl.3").read_text(encoding="utf-8")
        names = [each.name for each in header.of("function", "enum", "struct", "type")]
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertTrue((self.folder / f"{name}.3").exists(), name)
            self.assertIn(name, overview)
            self.assertRegex(document, rf"(?m)^## (.*, )?{name}(,|$)")

    def test_the_header_declares_every_call_that_it_names(self):
        text = api_header.strip_comments(api_header.DEFAULT.read_text(encoding="utf-8"))
        found = set(re.findall(r"\b(r2ccl\w+)\s*\(", text))
        self.assertEqual(found, {each.name for each in api_header.read().of("function")})

    def test_the_documents_name_calls_and_types_of_the_header_only(self):
        header = api_header.DEFAULT.read_text(encoding="utf-8")
        for document in (*(ROOT / "docs").glob("porting_*.md"), ROOT / "README.md"):
            for name in re.findall(r"\br2ccl[A-Z]\w*", document.read_text(encoding="utf-8")):
                self.assertRegex(header, rf"\b{name}\b", document.name)

    def test_a_page_shows_prototype_comment_and_note(self):
        header = api_header.parse("/* t: about. */\n\n/* A note. */\n\n/* Does it.\n *\n * Well.\n *"
                                  " - so\n * - or. */\nX int f(int a,\n      int b);\nX int g(void);\n", "X")
        api_reference.write_man_pages(header, self.folder)
        page = (self.folder / "f.3").read_text(encoding="utf-8")
        for part in ("f, g \\- does it", "int f(int a, int b);", "int g(void);", "Well.",
                     ".IP \\(bu 2\nso\n.IP \\(bu 2\nor.\n", ".SH NOTES\nA note."):
            self.assertIn(part, page)
        self.assertEqual((self.folder / "g.3").read_text(encoding="utf-8"), ".so man3/f.3\n")

    def test_a_note_belongs_to_its_block(self):
        header = api_header.parse("/* t: about. */\n\n/* N. */\n\n/* F. */\nX int f(void);\n"
                                  "/* G. */\nX int g(void);\n\n/* H. */\nX int h(void);\n", "X")
        self.assertEqual([group.note for group in header.groups], [["N."], ["N."], []])

    def test_a_title_is_that_of_the_calls_that_follow(self):
        header = api_header.parse("/* t: about.\n *\n * Errors: none. */\n\n/* === Ends === */\n\n"
                                  "/* F. */\nX int f(void);\n\n/* === More === */\n\n/* N. */\n\n"
                                  "/* G. */\nX int g(void);\n", "X")
        self.assertEqual([(group.title, group.note) for group in header.groups],
                         [("Ends", []), ("More", ["N."])])
        page = api_reference.overview_page(header)
        for part in (".SH ERRORS\nNone.\n", ".SS Ends\n.TP\n\\fBf\\fP(3)\n", ".SS More\n"):
            self.assertIn(part, page)
        self.assertIn("| ends | |\n", api_reference.markdown(header))

    def test_a_call_with_arguments_is_no_name_of_a_page(self):
        header = api_header.parse("/* t: about. */\n\n/* See r2cclF(NULL), r2cclF. */\n"
                                  "X int r2cclF(int* a);\n", "X")
        self.assertIn("See \\fBr2cclF(NULL)\\fP, \\fBr2cclF\\fP(3).",
                      api_reference.man_page(header.groups[0], header))

    def test_documents_lie_below_the_given_folder(self):
        header = api_header.parse("/* t: about. */\n\n/* See docs/a.md. */\nX int f(void);\n", "X")
        api_reference.write_man_pages(header, self.folder, "/usr/share/doc/r2ccl")
        self.assertIn("See /usr/share/doc/r2ccl/docs/a.md.",
                      (self.folder / "f.3").read_text(encoding="utf-8"))

    def test_a_declaration_without_a_comment_is_refused(self):
        with self.assertRaisesRegex(api_header.FormError, "line 3: f has no comment"):
            api_header.parse("/* t: about. */\n\nX int f(void);\n", "X")

    def test_a_call_that_is_not_exported_is_refused(self):
        with self.assertRaisesRegex(api_header.FormError, "f is not marked X"):
            api_header.parse("/* t: about. */\n\n/* Does it. */\nint f(void);\n", "X")

    def test_man_has_no_complaint(self):
        api_reference.write_man_pages(api_header.read(), self.folder)
        self.assert_clean()

    def test_a_complaint_of_man_is_seen(self):
        if not shutil.which("man"):
            self.skipTest("there is no man")
        page = self.folder / "bad.3"
        page.write_text(".TH bad 3\n.SH NAME\nbad \\- x\n.nosuchmacro\n", encoding="utf-8")
        self.assertNotEqual(warnings(page), "")


class DocumentPageTest(PagesCase):
    def test_a_page_has_the_words_of_its_document(self):
        page = document_page.page_of(
            "# Title\n\nText with `code` and [a link](x.md). [y.md](y.md#z)\n\n- one\n  more\n7. two\n\n"
            "| name | kind | meaning |\n|---|---|---|\n| `A` | b | c |\n\n```sh\nrun -x\n```\n",
            "p", "about", "s")
        for part in (".SH TITLE", "Text with \\fBcode\\fP and a link. docs/y.md\n", ".IP \\(bu 2\none more\n",
                     ".IP 7. 4\ntwo\n", ".TP\n\\fBA\\fP\nKind: b. Meaning: c.", ".nf\nrun \\-x\n.fi"):
            self.assertIn(part, page)

    def test_man_has_no_complaint_and_every_setting_is_there(self):
        for name in ("configuration", "operations"):
            text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
            page = self.folder / f"{name}.7"
            page.write_text(document_page.page_of(text, name, "about", "s"), encoding="utf-8")
            self.assertEqual(warnings(page) if shutil.which("man") else "", "")
            for setting in re.findall(r"(?m)^\| `(\w+)` \|", text):
                self.assertIn(f".TP\n\\fB{setting}\\fP\n", page.read_text(encoding="utf-8"))


class CommandReferenceTest(PagesCase):
    @classmethod
    def setUpClass(cls):
        cls.root = command_reference.read(R2CCL)

    def test_every_command_has_a_page_with_its_options(self):
        command_reference.write_man_pages(self.root, self.folder, "r2ccl")
        names = {each.page_name() for each in self.root.all()}
        self.assertGreater(len(names), 20)
        self.assertEqual({page.stem for page in self.folder.iterdir()}, names)
        for each in self.root.all():
            page = (self.folder / f"{each.page_name()}.1").read_text(encoding="utf-8")
            for options, *_ in each.options():
                self.assertIn(options[-1].replace("-", "\\-"), page)

    def test_man_has_no_complaint(self):
        command_reference.write_man_pages(self.root, self.folder, "r2ccl")
        self.assert_clean()


class Completion:
    """Asks a shell for the words that it would offer. A subclass says how to run the shell."""
    completion = None  # of command_reference
    program = ()

    @classmethod
    def setUpClass(cls):
        if not shutil.which(cls.program[0]):
            raise unittest.SkipTest(f"there is no {cls.program[0]}")
        cls.root = command_reference.read(R2CCL)
        cls.script = cls.completion(cls.root)

    def offered(self, *cases):
        """Returns the words offered at the end of each list of words."""
        quoted = [" ".join(f"'{word}'" for word in words) for words in cases]
        lines = self.lines(list(zip(quoted, map(len, cases))))
        done = subprocess.run(self.program, input="\n".join(lines), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        # An empty list of matches makes compgen fail, which is no error.
        self.assertEqual(done.returncode, 0, done.stdout)
        return [line.split() for line in done.stdout.splitlines()]

    def test_every_command_offers_its_commands_and_options(self):
        commands = self.root.all()
        offered = self.offered(*([*each.words, ""] for each in commands),
                               *([*each.words, "-"] for each in commands))
        for number, each in enumerate(commands):
            # `help` offers the commands whose help it prints.
            children = self.root.children if each.words[1:] == ["help"] else each.children
            self.assertEqual(offered[number], [child.words[-1] for child in children], each.name())
            if each.words[1:] == ["help"]:
                continue
            self.assertEqual(offered[len(commands) + number],
                             [name for names, *_ in each.options() for name in names], each.name())

    def test_the_begun_word_and_the_words_before_it_count(self):
        self.assertEqual(self.offered(
            ("r2ccl", "st"), ("r2ccl", "lab", "d"), ("r2ccl", "lab", "--name", "up", "d"),
            ("r2ccl", "bench", "--in"), ("r2ccl", "help", "lab", "u"), ("r2ccl", "lab", "--name", "d"),
            ("r2ccl", "status", "--watch", "--pa"), ("r2ccl", "drain", "h0", "--un")),
            [["status"], ["down"], ["down"], ["--in-place"], ["up"], [], ["--paths"], ["--undo"]])


class BashCompletionTest(Completion, unittest.TestCase):
    completion = staticmethod(command_reference.bash_completion)
    program = ("bash", "-eu", "-o", "pipefail")

    def lines(self, cases):
        return [self.script, *(f"COMP_WORDS=({words}); COMP_CWORD={count - 1}; _r2ccl; "
                               "echo \"${COMPREPLY[*]}\"" for words, count in cases)]


# The two functions of zsh's completion system that the script calls. _describe offers the words
# before the colons; zsh itself keeps those that begin as the word at the cursor.
ZSH_SYSTEM = """
_files() { }
_describe() {
  local entry
  for entry in "${(@P)2}"; do
    [[ ${entry%%:*} != ${words[CURRENT]}* ]] || matches+=(${entry%%:*})
  done
}
"""


class ZshCompletionTest(Completion, unittest.TestCase):
    completion = staticmethod(command_reference.zsh_completion)
    program = ("zsh", "-fe", "-o", "no_unset", "-o", "warn_create_global")

    def lines(self, cases):
        return [ZSH_SYSTEM, "typeset -a words matches; typeset -i CURRENT",
                "_r2ccl() {", self.script, "}",
                *(f"words=({words}); CURRENT={count}; matches=(); _r2ccl; print -r -- $matches"
                  for words, count in cases)]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    R2CCL = sys.argv.pop(1)
    unittest.main()
