#!/usr/bin/env bash
# Format, clang-tidy (the allow list of .clang-tidy) and scripts/tidy.py over the whole tree.
#   lint.sh                check
#   lint.sh --fix-format   rewrite the files in the project's format, and nothing else
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Header and sources, whatever git thinks of them: new files count as well.
mapfile -t sources < <(find include src tools tests examples -name '*.h' -o -name '*.cc' \
                            -o -name '*.c' 2>/dev/null | sort)
if [ "${1:-}" = --fix-format ]; then
  clang-format -i "${sources[@]}"
  exit 0
fi

failed=0
echo "== format"
clang-format --dry-run -Werror "${sources[@]}" || failed=1

echo "== tidy"
python3 -B scripts/tidy.py || failed=1

echo "== clang-tidy"
# The database is g++'s, so clang must not trip over warning names that only g++ knows. Tests are
# left out: what they do on purpose (odd values, copies) is what many checks are about.
cmake --preset release >/dev/null
report=$(run-clang-tidy -quiet -p build -j "$(nproc)" -extra-arg=-Wno-unknown-warning-option \
  "$PWD/(src|tools)/.*(?<!_test)\.cc" 2>/dev/null) || failed=1
grep -v '^clang-tidy' <<<"$report" || true

[ "$failed" -eq 0 ] && echo "lint: clean"
exit "$failed"
