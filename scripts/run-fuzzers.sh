#!/usr/bin/env bash
# Builds the libFuzzer program and runs each fuzzer on a copy of its stored corpus, two at a time, so
# that a run leaves the tree as it is. A crash ends with 1, and the output names the fuzzer, the
# input and the command that repeats the crash.
#   run-fuzzers.sh              run all fuzzers
#   run-fuzzers.sh NAME...      run these, of the folders in tests/fuzz/corpus
#   R2CCL_FUZZ_SECONDS=N        the time of each fuzzer (20)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${R2CCL_FUZZ_SECONDS:-20}
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "run-fuzzers: R2CCL_FUZZ_SECONDS=$seconds: allowed is a whole number of seconds" >&2
  exit 2
fi
build=build-fuzz
runs=$build/fuzz-runs

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for corpus in tests/fuzz/corpus/*/; do names+=("$(basename "$corpus")"); done
fi
for name in "${names[@]}"; do
  [ -d "tests/fuzz/corpus/$name" ] && continue
  echo "run-fuzzers: no corpus tests/fuzz/corpus/$name" >&2
  exit 2
done

configure=(cmake --preset fuzz)
if command -v ccache >/dev/null; then
  configure+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
"${configure[@]}" >/dev/null
cmake --build --preset fuzz -j"${JOBS:-$(nproc)}"

# Prints one line about the run of a fuzzer, and on a crash how to repeat it.
report() {
  local name=$1 code=$2 log=$3 input units
  if [ "$code" -eq 0 ]; then
    units=$(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$log" | tail -n 1)
    echo "fuzz: $name: ${units:-0} inputs, no crash"
    return 0
  fi
  echo "fuzz: $name: CRASHED (exit code $code)"
  tail -n 60 "$log"
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  echo "fuzz: $name: the input is ${input:-not known; the log is $log}"
  echo "fuzz: $name: repeat it with: R2CCL_FUZZ_NAME=$name $build/fuzzer ${input:-}"
  return 1
}

# Runs one fuzzer on a copy of its corpus.
fuzz() {
  local name=$1 code=0
  rm -rf "${runs:?}/$name"
  mkdir -p "$runs/$name"
  cp -r "tests/fuzz/corpus/$name" "$runs/$name/corpus"
  R2CCL_FUZZ_NAME=$name "$build/fuzzer" -max_total_time="$seconds" -max_len=4096 -timeout=10 \
    -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$runs/$name/" "$runs/$name/corpus" \
    >"$runs/$name/log" 2>&1 || code=$?
  report "$name" "$code" "$runs/$name/log"
}

failed=0
running=0
for name in "${names[@]}"; do
  if [ "$running" -eq 2 ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  fuzz "$name" &
  running=$((running + 1))
done
for ((; running > 0; running--)); do wait -n || failed=1; done
[ "$failed" -eq 0 ] && echo "fuzz: ${#names[@]} fuzzers, $seconds s each, no crash"
exit "$failed"
