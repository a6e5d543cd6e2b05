#!/usr/bin/env bash
# Runs a program as all ranks of a job on this machine, and prints their output in the order of the
# ranks. Exits with 1 when a rank failed. MASTER_PORT (29500) is where the ranks meet.
#   run.sh RANKS PROGRAM [ARGUMENT...]
set -euo pipefail
ranks=$1
shift
export WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-29500}
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
processes=()
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$rank "$@" >"$outputs/$rank" &
  processes+=($!)
done
failed=0
for ((rank = 0; rank < ranks; ++rank)); do
  wait "${processes[rank]}" || { echo "rank $rank ended with status $?" >&2; failed=1; }
  cat "$outputs/$rank"
done
exit "$failed"
