#!/usr/bin/env bash
# Runs the tests of groups whose members change where make check's torch has not what they need:
# with torch 2.14, whose calls they then use (some 5 GB), and with torchft. Each has an environment
# of its own below build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
R2CCL_TORCH_VENV=build/torch-2.14-venv R2CCL_TORCH_VERSION=2.14.1 \
  scripts/torch-test.sh reconfigure_process shrink_process
R2CCL_TORCH_VENV=build/torchft-venv R2CCL_TORCH_PACKAGES=torchft==0.2.0 \
  scripts/torch-test.sh torchft_process
