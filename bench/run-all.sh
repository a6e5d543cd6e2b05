#!/bin/bash
# Measures every figure of bench/results, and writes its pages and RESULTS.md. Needs root and a quiet
# machine.
#
# usage: bench/run-all.sh [--quick] [MINUTES [DIRECTORY]]
#   MINUTES     time for all of it, at least 20; the default of 260 gives as many trials as the
#               targets ask for, and less time gives fewer in proportion
#   DIRECTORY   where RESULTS.md and results/ are written (bench)
# env: R2CCL    the command to measure (build/r2ccl)
#      R2CCL_LAB  name of the lab (r2bench)
#      JSON_DIR   directory of the raw results (build/bench)
# The comparison with Open MPI, Gloo and iperf3, cell by cell, is a command of its own (5 minutes):
#   bench/compare.py --markdown bench/results/compare.md --svg bench/results/compare.svg
#   bench/compare.py --collectives --markdown bench/results/compare_collectives.md --svg bench/results/compare_collectives.svg
#   bench/profile_collectives.py --json build/bench/profile_collectives.json  # then bench/results_md.py build/bench
# PyTorch jobs need a Python with torch, transformers and DeepSpeed (25 minutes):
#   bench/torch_faults.py --python build/torch-venv/bin/python --json build/bench/pytorch.json  # then bench/results_md.py build/bench
set -eu -o pipefail
cd "$(dirname "$0")/.."
quick=()
[ "${1:-}" != --quick ] || { quick=(--quick); shift; }
full=260
minutes=${1:-$full}
output=${2:-bench}
json=${JSON_DIR:-build/bench}
common=(--r2ccl "${R2CCL:-build/r2ccl}" --name "${R2CCL_LAB:-r2bench}" "${quick[@]}")
[[ $minutes =~ ^[0-9]+$ ]] && [ "$minutes" -ge 20 ] || { sed -n 2,13p bench/run-all.sh; exit 2; }

# Returns the part of COUNT that the time allows, one at least.
part() {
  local count=$(($1 * (minutes < full ? minutes : full) / full))
  echo $((count > 1 ? count : 1))
}

load=$(cut -d ' ' -f 1 /proc/loadavg)
[ "${load%.*}" = 0 ] || echo "The load of this machine is $load: the figures will be worse." >&2

mkdir -p "$json"
status=0
# measure NAME SCRIPT [OPTION]...: writes NAME.json
measure() {
  rm -f "$json/$1.json"
  python3 -B "bench/$2.py" "${common[@]}" "${@:3}" --json "$json/$1.json" || status=1
}

# The minutes of each script, of the 260.
measure line_rate line_rate --repetitions "$(part 5)"                                 # 8
measure fan_in fan_in --repetitions "$(part 5)"                                       # 1
measure fault_trials fault_trials --trials "$(part 200)" --checked-trials 10          # 23
measure fault_trials_64K fault_trials --bytes 64K --trials "$(part 60)"               # 7
measure fault_trials_16M fault_trials --bytes 16M --trials "$(part 30)" --checked-trials 1  # 19
measure collective_stalls collective_stalls --trials "$(part 20)"                     # 10
measure aftermath aftermath --trials "$(part 4)"                                      # 14
measure flap flap                                                                     # 1
measure flap_damped flap --damping 1 --times "$(part 100)"                            # 6
measure first_return first_return --trials "$(part 10)"                               # 5
measure false_alarms false_alarms --minutes "$(part 60)"                              # 61
measure sim_stalls sim_stalls --trials "$(part 30)"                                   # 8
measure sim_grey sim_grey                                                             # 4
measure grey grey --repetitions "$(part 3)"                                           # 10
measure soak soak --minutes "$(part 30)"                                              # 31
measure lossy_nics lossy_nics --runs "$(part 60)"                                     # 7
measure verdicts verdicts --trials "$(part 20)"                                       # 8
measure conditions conditions                                                         # 8
measure two_communicators two_communicators --rate 0                                  # 1
measure idle idle                                                                     # 3
measure readiness readiness                                                           # 5
measure instructions instructions                                                     # 2
cmake --build build --target simulated_scale > /dev/null
measure sim_scale sim_scale                                                           # 12
measure schedules schedules                                                           # 5
python3 -B bench/results_md.py "$json" "$output"
echo "wrote $output/RESULTS.md in $((SECONDS / 60)) min $((SECONDS % 60)) s"
exit $status
