#!/usr/bin/env bash
# Format, clang-tidy (the allow list of .clang-tidy) and scripts/tidy.py over the whole tree.
#   lint.sh                check everything
#   lint.sh format         check the format alone
#   lint.sh clang-tidy     run clang-tidy alone
#   lint.sh --fix-format   rewrite the files in the project's format, and nothing else
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Headers and sources, whether git tracks them or not: new files count as well.
mapfile -t sources < <(find include src tools tests examples -name '*.h' -o -name '*.cc' \
                            -o -name '*.c' 2>/dev/null | sort)
if [ "${1:-}" = --fix-format ]; then
  clang-format -i "${sources[@]}"
  exit 0
fi

check_format() {
  echo "== format"
  clang-format --dry-run -Werror "${sources[@]}"
}

check_tree() {
  echo "== tidy"
  python3 -B scripts/tidy.py
}

# The database is g++'s, so clang must accept warning names that only g++ knows. Tests are left out:
# many checks find exactly the odd values and copies that tests use on purpose.
# Files of a folder are checked together, as they are compiled; .clang-tidy's header filter takes the
# included .cc files in.
check_code() {
  echo "== clang-tidy"
  cmake --preset release >/dev/null || return 1
  run-clang-tidy -quiet -p build -j "$(nproc)" -extra-arg=-Wno-unknown-warning-option \
    "/r2ccl(?!_test_main)[^/]*\.dir/Unity/.*\.cxx$|$PWD/(src|tools)/.*(?<!_test)\.cc$" 2>/dev/null |
    sed -u "s|^clang-tidy.* $PWD/\(.*\)|checked \1|"
}

failed=0
case ${1:-all} in
  all)
    check_format || failed=1
    check_tree || failed=1
    check_code || failed=1
    ;;
  format) check_format || failed=1 ;;
  clang-tidy) check_code || failed=1 ;;
  *) echo "usage: $0 [format|clang-tidy|--fix-format]" >&2; exit 2 ;;
esac
[ "$failed" -eq 0 ] && echo "lint: clean"
exit "$failed"
