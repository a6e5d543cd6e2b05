#!/bin/bash
# Measures everything that stands in RESULTS.md, and writes it. Needs root and a quiet machine.
#
# usage: bench/run-all.sh [--quick] [MINUTES [RESULTS.md]]
#   MINUTES     time for all of it, 15 unless told, at least 5: the repetitions are chosen to fit
#   RESULTS.md  what to write (bench/RESULTS.md)
# env: R2CCL    the command to measure (build/r2ccl)
#      R2CCL_LAB  name of the lab (r2bench)
#      JSON_DIR   where the raw results go (build/bench)
set -eu -o pipefail
cd "$(dirname "$0")/.."
quick=()
[ "${1:-}" != --quick ] || { quick=(--quick); shift; }
minutes=${1:-15}
results=${2:-bench/RESULTS.md}
json=${JSON_DIR:-build/bench}
common=(--r2ccl "${R2CCL:-build/r2ccl}" --name "${R2CCL_LAB:-r2bench}" "${quick[@]}")
[[ $minutes =~ ^[0-9]+$ ]] && [ "$minutes" -ge 5 ] || { sed -n 2,9p bench/run-all.sh; exit 2; }

# Seconds. A round of trials takes about 6 s, a repetition of the line's rate about 50.
total=$((minutes * 60))
flap=70
faults=$((total * 42 / 100))
[ $faults -le 300 ] || faults=300
checked=$((faults / 10))
repetitions=$(((total - flap - faults - checked - 20) / 50))
[ $repetitions -ge 1 ] || repetitions=1

rate=(--repetitions $repetitions)
trials=(--seconds $faults --checked-seconds $checked)
[ ${#quick[@]} = 0 ] || rate=() trials=()

load=$(cut -d ' ' -f 1 /proc/loadavg)
[ "${load%.*}" = 0 ] || echo "The load of this machine is $load: the figures will be worse." >&2

mkdir -p "$json"
rm -f "$json"/{line_rate,fault_trials,flap}.json
status=0
python3 -B bench/line_rate.py "${common[@]}" "${rate[@]}" \
  --json "$json/line_rate.json" || status=1
python3 -B bench/fault_trials.py "${common[@]}" "${trials[@]}" \
  --json "$json/fault_trials.json" || status=1
python3 -B bench/flap.py "${common[@]}" --json "$json/flap.json" || status=1
python3 -B bench/results_md.py "$json" "$results"
echo "wrote $results in $((SECONDS / 60)) min $((SECONDS % 60)) s"
exit $status
