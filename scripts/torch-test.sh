#!/usr/bin/env bash
# Runs the tests of the torch backend in an environment that scripts/torch-venv.sh makes. The
# arguments go to tests/torch/run.py. Exits with 77 when the environment is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=$(scripts/torch-venv.sh)
exec "$venv/bin/python" -B tests/torch/run.py "$@"
