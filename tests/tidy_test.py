#!/usr/bin/env python3
"""Each rule of scripts/tidy.py fires on a bad sample and accepts the good one beside it."""

import importlib.util
import pathlib
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "tidy.py"
spec = importlib.util.spec_from_file_location("tidy", SCRIPT)
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)


def rules_hit(samples):
    """Returns the set of rules that a tree of {path: text} breaks."""
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for path, text in samples.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return {finding.rule for finding in tidy.check(root)}


def functions(code):
    return [(first, last) for first, last, _ in tidy.cpp_functions(tidy.strip_cpp(code))]


class Rules(unittest.TestCase):
    def assert_hit(self, rule, path, text):
        self.assertEqual(rules_hit({path: text}), {rule}, (path, text))

    def assert_clean(self, path, text):
        self.assertEqual(rules_hit({path: text}), set(), (path, text))

    # Returns a tree with a header in each of these folders.
    TREE = {
        "CMakeLists.txt": "r2ccl_folder(src/base)\nr2ccl_folder(src/protocol/wire DEPS src/base)\n"
                          "r2ccl_folder(src/runtime/link\n             DEPS src/protocol/wire)\n"
                          "r2ccl_folder(src/sim/fabric WITH src/base DEPS src/runtime/link)\n"
                          "if(R2CCL_TESTS)\n  r2ccl_folder(src/testing DEPS src/sim/fabric)\nendif()\n",
        **{f"{folder}/a.h": "#pragma once\n" for folder in (
            "src/base", "src/protocol/wire", "src/runtime/link", "src/sim/fabric", "src/testing",
            "src/novel", "src/api", "tools/common")}}

    def rules_of(self, path, include):
        return rules_hit({**self.TREE, path: f"#include {include}\n"})

    def test_a_folder_includes_only_what_cmake_lets_it_use(self):
        for path, include in (("src/protocol/wire/b.cc", '"runtime/link/a.h"'),
                              ("src/base/b.cc", '"protocol/wire/a.h"'),
                              ("src/runtime/link/b.cc", "<sim/fabric/a.h>"),
                              ("src/runtime/link/b.cc", '"testing/a.h"'),
                              ("src/runtime/link/b.cc", '"r2ccl/r2ccl.h"'),
                              ("src/sim/fabric/b.cc", '"api/a.h"'),
                              ("src/novel/b.cc", '"base/a.h"'),
                              ("src/api/b.cc", '"sim/fabric/a.h"'),
                              ("tools/common/b.cc", '"protocol/wire/a.h"'),
                              ("src/runtime/link/b.cc", '"neighbour.h"')):
            self.assertEqual(self.rules_of(path, include) - {"dependency"}, {"layer"},
                             (path, include))
        for path, include in (("src/runtime/link/b.cc", '"protocol/wire/a.h"'),
                              ("src/runtime/link/b.cc", '"base/a.h"'),
                              ("src/runtime/link/b.cc", '"runtime/link/a.h"'),
                              ("src/api/b.cc", '"r2ccl/r2ccl.h"'),
                              ("src/api/b.cc", '"runtime/link/a.h"')):
            self.assertEqual(self.rules_of(path, include) - {"dependency"}, set(), (path, include))
        self.assertNotIn("layer", self.rules_of("src/protocol/wire/b.cc",
                                                '"base/a.h"\n// #include "runtime/link/a.h"'))

    def test_tests_may_use_the_test_support_and_the_simulator(self):
        self.assertEqual(self.rules_of("src/runtime/link/b_test.cc", '"sim/fabric/a.h"'), set())
        self.assertEqual(self.rules_of("src/runtime/link/b_test.cc", '"testing/a.h"'), set())
        self.assertEqual(self.rules_of("src/testing/b.h", '"sim/fabric/a.h"') & {"layer"}, set())

    def test_the_reading_lists_name_files_and_are_short(self):
        item = "{}. `src/base/a.h`: a file\n"
        tree = {"src/base/a.h": "#pragma once\n"}
        short = "".join(item.format(i) for i in range(1, 13))
        self.assertEqual(rules_hit({**tree, "ARCHITECTURE.md": short}), set())
        self.assertEqual(rules_hit({**tree, "ARCHITECTURE.md": short + item.format(13)}),
                         {"reading-order"})
        self.assertEqual(rules_hit({"ARCHITECTURE.md": short}), {"reading-order"})

    def test_a_folder_holds_at_most_forty_files(self):
        crowd = {f"src/base/f{i}.cc": "\n" for i in range(41)}
        self.assertEqual(rules_hit(crowd), {"folder-size"})
        crowd.popitem()
        self.assertEqual(rules_hit(crowd), set())

    def test_protocol_and_plan_are_pure(self):
        self.assert_hit("layer", "src/protocol/a.cc", "#include <sys/socket.h>\n")
        self.assert_hit("layer", "src/plan/a.h", "#pragma once\n#include <pthread.h>\n")
        self.assert_hit("layer", "src/plan/a.cc", "#include <thread>\n")
        self.assert_clean("src/transport/a.cc", "#include <sys/socket.h>\n")
        self.assert_clean("src/plan/a.cc", "#include <vector>\n")

    def test_the_public_headers_stand_alone(self):
        guard = "#ifndef A_H_\n#define A_H_\n"
        self.assert_hit("layer", "include/r2ccl/a.h", guard + '#include "base/ids.h"\n#endif\n')
        self.assert_clean("include/r2ccl/a.h", guard + "#include <stdint.h>\n#endif\n")

    def test_only_the_clock_reads_the_clock(self):
        for read in ("clock_gettime(CLOCK_MONOTONIC, &t)", "gettimeofday(&t, nullptr)",
                     "std::chrono::steady_clock::now()", "time(nullptr)", "::time(&t)",
                     "std::time(0)"):
            self.assert_hit("clock", "src/runtime/a.cc", f"int f() {{ return {read}; }}\n")
            self.assert_clean("src/base/clock.cc", f"int f() {{ return {read}; }}\n")
        self.assert_hit("clock", "tools/a.cc", "auto t = std::chrono::system_clock::now();\n")
        self.assert_clean("src/runtime/a.cc", "int f() { return next_time(0) + clock.now(); }\n")
        self.assert_clean("src/runtime/a.cc", 'const char* text = "time(0)";  // time(0)\n')

    def test_the_library_does_not_sleep(self):
        self.assert_hit("sleep", "src/sim/a.cc", "void f() { std::this_thread::sleep_for(d); }\n")
        self.assert_hit("sleep", "src/base/a.cc", "void f() { ::usleep(5); }\n")
        self.assert_clean("tools/a.cc", "void f() { ::usleep(5); }\n")
        self.assert_hit("sleep", "src/runtime/a_test.cc", "void f() { ::usleep(5); }\n")
        self.assert_clean("src/transport/a_test.cc", "void f() { ::usleep(5); }\n")

    def test_functions_stay_on_a_screen(self):
        def body(lines):
            return "int f() {\n" + "  g();\n" * (lines - 2) + "}\n"
        self.assert_hit("function-size", "src/base/a.cc", body(71))
        self.assert_clean("src/base/a.cc", body(70))
        self.assert_hit("function-size", "scripts/a.py", "def f():\n" + "    g()\n" * 70)
        self.assert_clean("scripts/a.py", "def f():\n" + "    g()\n" * 69)

    def test_files_stay_under_500_lines(self):
        self.assert_hit("file-size", "src/base/a.cc", "int a;\n" * 501)

    def test_public_headers_stay_under_1000_lines(self):
        guard = "#ifndef A_H_\n#define A_H_\n"
        self.assert_clean("include/r2ccl/a.h", guard + "int a;\n" * 600 + "#endif\n")
        self.assert_hit("file-size", "include/r2ccl/a.h", guard + "int a;\n" * 1000 + "#endif\n")
        self.assert_clean("src/base/a.cc", "int a;\n" * 500)

    def test_layers_check_their_invariants(self):
        path, line, check = "src/protocol/wire/a.cc", "int a;\n", "R2CCL_CHECK(a);\n"
        self.assert_hit("check-density", path, line * 399 + check * 3)
        self.assert_clean(path, line * 399 + check * 4)
        self.assert_hit("check-density", path, line * 400 + f"// {check}" * 9)
        self.assert_clean(path, "\n" * 500)
        self.assert_clean("src/protocol/wire/a_test.cc", line * 500)
        for path in ("src/runtime/link/a.cc", "src/plan/a.cc", "src/transport/tcp/a.cc"):
            self.assert_hit("check-density", path, line * 399 + check)
            self.assert_clean(path, line * 398 + check * 2)
        self.assert_clean("src/sim/fabric/a.cc", line * 500)

    def test_a_class_has_few_functions_and_fields(self):
        def header(functions, fields):
            return ("#pragma once\nclass A final : public B<C> {\n public:\n  A(int a) : a_(a), b_{} {}\n"
                    "  bool operator==(const A&) const = default;\n  using D = int;\n"
                    "  static constexpr int kMost = 3;\n  enum class E { a, b };\n"
                    "  struct F {\n    int g() const;\n    int h = 0;\n  };\n" +
                    "  std::map<int, int (*)(int)> f() const { return {}; }\n" * (functions - 2) +
                    "  std::function<void(int)> a_{1};\n" * (fields - 1) + "  int b_ = f();\n};\n")
        self.assert_clean("src/base/a.h", header(40, 20))
        self.assert_hit("class-size", "src/base/a.h", header(41, 20))
        self.assert_hit("class-size", "src/base/a.h", header(40, 21))
        self.assert_clean("src/base/a_test.cc", header(41, 21))

    def test_a_class_that_has_become_small_leaves_the_list(self):
        large = "class Flow {\n" + "  int a;\n" * 21 + "};\n"
        self.assert_clean("src/sim/fabric/flow.h", "#pragma once\n" + large)
        self.assert_hit("class-size", "src/sim/fabric/flow.h", "#pragma once\n" + large[:50] + "};\n")

    def test_the_files_that_comments_name_exist(self):
        tree = {"src/base/door.h": "#pragma once\n"}
        for text in ("// as door.h says\n", "// as base/door.h says\n", "// docs/NAME.md, <net/if.h>\n",
                     'const char* a = "gone.h";\n'):
            self.assertEqual(rules_hit({**tree, "src/base/a.cc": text}), set(), text)
        for text in ("// as gate.h says\n", "// (runtime/door.h)\n", "/* see a/door.cc */\n"):
            self.assertEqual(rules_hit({**tree, "src/base/a.cc": text}), {"comment-file"}, text)
        self.assert_hit("comment-file", "scripts/a.py", '"""As gone.py does."""\n')
        self.assert_hit("comment-file", "scripts/a.sh", "# as gone.sh does\n")
        self.assert_clean("scripts/a.py", "a = 'gone.py'\n")

    def test_users_read_the_words_of_the_glossary(self):
        for text in ("the lane is down", "malformed rank card", "no permission", "Lanes"):
            self.assert_hit("old-word", "tools/common/a.cc", f'const char* a = "{text}";\n')
            self.assert_hit("old-word", "python/r2ccl/a.py", f'a = "{text}"\n')
            self.assert_clean("src/base/a_test.cc", f'const char* a = "{text}";\n')
        for text in ("lane_rtt_ms", "discard", "planes", "a control stream"):
            self.assert_clean("tools/common/a.cc", f'const char* a = "{text}";  // lane\n')

    def test_a_folder_uses_those_it_depends_on(self):
        tree = {"CMakeLists.txt": "r2ccl_folder(src/base)\nr2ccl_folder(src/plan DEPS src/base)\n",
                "src/base/a.h": "#pragma once\n"}
        self.assertEqual(rules_hit({**tree, "src/plan/b.cc": '#include "base/a.h"\n'}), set())
        self.assertEqual(rules_hit({**tree, "src/plan/b.cc": '// #include "base/a.h"\n'
                                    '#include "plan/b.h"\n', "src/plan/b.h": "#pragma once\n"}),
                         {"dependency"})

    def test_headers_have_pragma_once(self):
        self.assert_hit("header-guard", "src/base/a.h", "int a;\n")
        self.assert_hit("header-guard", "src/base/a.h", "// #pragma once\n")
        self.assert_hit("header-guard", "src/base/a.h", "#ifndef A_H_\n#define A_H_\n#endif\n")
        self.assert_hit("header-guard", "src/base/a.h",
                        "#if defined(A_H_) == defined(HWY_TARGET_TOGGLE)\n#ifdef B_H_\n#endif\n")

    def test_headers_do_not_use_a_namespace(self):
        self.assert_hit("using-namespace", "src/base/a.h",
                        "#pragma once\nusing namespace std;\n")
        self.assert_clean("src/base/a.cc", "using namespace std;\n")

    def test_unfinished_work_is_not_committed(self):
        for word in ("TODO", "FIXME", "XXX"):
            self.assert_hit("unfinished", "src/base/a.cc", f"// {word}: later\n")
            self.assert_hit("unfinished", "docs/a.md", f"{word}\n")
        self.assert_clean("scripts/a.sh", "mktemp -t aXXXXXX\n")

    def test_nothing_refers_to_one_machine(self):
        for text in ("../shared/design.md", "/work/main", "/home/me/x"):
            self.assert_hit("machine", "docs/a.md", f"see {text}\n")
        self.assert_clean("docs/a.md", "share/home/work, src/work/x\n")

    def test_suppression_files_stay_empty(self):
        self.assert_hit("suppression", "tests/suppressions/tsan.supp", "race:foo\n")
        self.assert_clean("tests/suppressions/tsan.supp", "")

    def test_links_lead_somewhere(self):
        self.assert_hit("link", "docs/a.md", "[b](b.md)\n")
        self.assert_hit("link", "docs/a.md", "[b](../../b.md)\n")
        self.assert_hit("link", "docs/a.md", "# Here\n[b](#there)\n")
        self.assert_clean("docs/a.md", "# Here, too\n[b](#here-too) [c](https://example.org)\n")
        self.assert_clean("docs/a.md", "`[b](b.md)`\n\n```\n[b](b.md)\n```\n")
        self.assertEqual(rules_hit({"a.md": "[b](docs/b.md#one)\n", "docs/b.md": "# One\n"}), set())
        self.assertEqual(rules_hit({"a.md": "[b](docs/b.md#two)\n", "docs/b.md": "# One\n"}),
                         {"link"})

    def test_marks_of_a_merge(self):
        for mark in ("<" * 7 + " HEAD", ">" * 7 + " branch"):
            self.assert_hit("conflict", "docs/a.md", f"a\n{mark}\nb\n")
        self.assert_clean("docs/a.md", "a\n" + "=" * 7 + "\nb <<<<<<< c\n")

    def test_documents_wrap_at_100_columns(self):
        wide, link = "word " * 20 + "words", "[b](" + "b" * 100 + ".md)"
        self.assert_hit("document-width", "docs/a.md", f"{wide}\n")
        self.assert_hit("document-width", "a.md", f"- {wide}\n")
        for text in ("word " * 20, f"| {wide} |", f"```\n{wide}\n```",
                     "https://a.org/" + "b" * 100):
            self.assert_clean("docs/a.md", f"{text}\n")
        self.assertEqual(rules_hit({"a.md": f"{link}\n"}), {"link"})

    def test_a_decision_has_number_status_and_date(self):
        path = "docs/decisions/0012-a.md"
        head = "# 12. A\n\n- Status: accepted\n- Date: 2026-11-23\n"
        self.assert_clean(path, head)
        self.assert_clean(path, head.replace("accepted", "superseded by 13"))
        for good, bad in (("12.", "13."), ("# 12. A", "# A"), ("accepted", "fine"),
                          ("- Date", "Date"), ("2026-11-23", "today"),
                          ("- Status: accepted\n", "")):
            self.assert_hit("decision", path, head.replace(good, bad))
        self.assert_hit("decision", path, head.replace("- Date", "\n## Context\n- Date"))
        self.assert_clean("docs/decisions/README.md", "# Decisions\n")

    def test_comments_are_in_plain_english(self):
        self.assert_hit("prose", "src/base/a.cc", "// Nobody asks this rank.\nint a;\n")
        self.assert_hit("prose", "tools/a.py", '"""What is late comes last."""\n')
        self.assert_clean("src/base/a.cc", "// No rank asks this one.\nint a;\n")

    def test_documents_are_in_plain_english(self):
        filler = "A rank asks another one.\n\n"
        for text in ("What is late comes last.", "Who asks first is served.",
                     "Whoever asks is served.", "Of these two one is late.",
                     "Nobody asks this rank.", "Those that ask are served.",
                     "# What happens when a NIC dies?", "It ends. Nobody asks this rank."):
            self.assert_hit("prose", "docs/a.md", filler * 99 + f"{text}\n")
        for text in ("The rank sends what is late.", "It is no matter who asks first.",
                     "The rank asks those that are late."):
            self.assert_hit("prose", "docs/a.md", filler * 48 + f"{text}\n")
            self.assert_clean("docs/a.md", filler * 49 + f"{text}\n")
        for text in ("Those ranks ask each other.", "A rank which asks is served.",
                     "`What is it?` it says.", "An operator who asks is served.",
                     "The log shows which NICs it uses, when and why.",
                     "```\nWhat is late comes last.\n```",
                     "It says \"nobody asks this rank\" then."):
            self.assert_clean("docs/a.md", f"{text}\n")

    def test_tests_that_a_table_names_exist(self):
        tree = {"src/a_test.cc": "TEST_F(DoorTest, LetsNobodyIn) {}\n",
                "tests/process/b_test.py": "class FloodTest:\n    pass\n"}
        for names in ("`DoorTest.LetsNobodyIn`", "`DoorTest.Lets...`", "`DoorTest.*`", "`b_test.py`",
                      "`b_test.py` FloodTest; `DoorTest.*`"):
            table = f"| attack | shown by |\n|---|---|\n| a | {names} |\n"
            self.assertEqual(rules_hit({**tree, "docs/a.md": table}), set(), names)
        for names in ("`Door.LetsNobodyIn`", "`DoorTest.Keeps...`", "`c_test.py`", "OtherTest"):
            table = f"| attack | shown by |\n|---|---|\n| a | {names} |\n"
            self.assertEqual(rules_hit({**tree, "docs/a.md": table}), {"test"}, names)


class FunctionFinder(unittest.TestCase):
    def test_it_sees_functions_in_namespaces_classes_and_extern_c(self):
        code = ("namespace a {\nclass B final : public C<int()> {\n public:\n  int f() const {\n"
                "    return 1;\n  }\n};\n}\nextern \"C\" {\nint g(void) {\n  return 1;\n}\n}\n")
        self.assertEqual(functions(code), [(4, 6), (10, 12)])

    def test_it_takes_a_constructor_with_brace_initialisers_as_one(self):
        code = "A::A(int b)\n    : b_{b},\n      c_(1), d_{} {\n  e();\n}\n"
        self.assertEqual(functions(code), [(1, 5)])

    def test_blocks_and_lambdas_belong_to_their_function(self):
        code = "void f() {\n  if (a) {\n    b([] {\n      c();\n    });\n  }\n}\nint x;\n"
        self.assertEqual(functions(code), [(1, 7)])

    def test_tables_and_default_arguments_are_no_functions(self):
        self.assertEqual(functions("const int kTable[] = {\n  1,\n  2};\nenum class E { a, b };\n"), [])
        self.assertEqual(functions("int f(A a = {},\n      B b = {}) {\n  return 1;\n}\n"), [(1, 4)])

    def test_operators_and_templates_are_functions(self):
        self.assertEqual(functions("bool operator==(A a, A b) {\n  return true;\n}\n"), [(1, 3)])
        self.assertEqual(functions("template <class T = A>\nauto f(T t) -> std::map<T, int> {\n}\n"),
                         [(1, 3)])
        self.assertEqual(functions("int F::operator()(int a) const noexcept {\n}\n"), [(1, 2)])

    def test_braces_in_literals_comments_and_macros_do_not_count(self):
        code = ("#define M(x) { \\\n  x\nint f() {\n  // {\n  g(\"{\", '{', R\"(\n{)\", 1'000);\n}\n"
                "int h() {\n}\n")
        self.assertEqual(functions(code), [(3, 7), (8, 9)])


if __name__ == "__main__":
    unittest.main()
