#!/usr/bin/env bash
# Builds examples/ against an installed library, runs each program as four ranks (or as one process
# where it makes the ranks itself), and compares its output with examples/expected.
#   examples.sh PREFIX LIBDIR CMAKE CC CXX
set -euo pipefail
prefix=$1 libdir=$2 cmake=$3 cc=$4 cxx=$5
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../examples" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" -S "$examples" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_FLAGS=-Werror -DCMAKE_CXX_FLAGS=-Werror >/dev/null
"$cmake" --build "$work" >/dev/null
export LD_LIBRARY_PATH="$libdir"
failed=0 compared=0
for expected in "$examples"/expected/*.txt; do
  name=$(basename "$expected" .txt)
  # Its own port: other jobs of this machine may use the usual one.
  export MASTER_PORT=$((20000 + ($$ + compared) % 10000))
  ranks=("$examples/run.sh" 4)
  [[ $name != *_threads ]] || ranks=()
  if ! timeout 60 "${ranks[@]}" "$work/$name" >"$work/said.txt" 2>"$work/said.err" ||
    ! diff "$expected" "$work/said.txt"; then
    echo "examples/$name: another output than expected, or it failed"
    cat "$work/said.err"
    failed=1
  fi
  compared=$((compared + 1))
done
# A new example needs its expected output.
programs=$(find "$examples" -name '*.c' -o -name '*.cc' | wc -l)
[ "$compared" -eq "$programs" ] || { echo "$programs examples, $compared expected outputs"; failed=1; }
exit "$failed"
