#!/usr/bin/env bash
# Runs the distributed tests of torch's wheel on r2ccl in an environment that scripts/torch-venv.sh
# makes. The arguments go to tests/torch/outside_suite.py. Exits with 77 when the environment is
# skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=$(scripts/torch-venv.sh)
exec "$venv/bin/python" -B tests/torch/outside_suite.py "$@"
