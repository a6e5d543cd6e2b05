#!/usr/bin/env bash
# Makes a virtual environment with PyTorch, or does nothing when it is there. Prints its directory.
#
#   R2CCL_TORCH_VENV      the directory; default: build/torch-venv
#   R2CCL_TORCH_VERSION   the version of torch; default: the newest that the tests know
#   R2CCL_TORCH_PACKAGES  further packages
#   R2CCL_ALLOW_SKIP=1    exit with 77 (skipped), not with 1, when torch cannot be installed
#
# pip takes its own settings, such as PIP_INDEX_URL, from the environment. A build of torch without
# CUDA is enough, and is a tenth of the size.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=${R2CCL_TORCH_VENV:-build/torch-venv}
version=${R2CCL_TORCH_VERSION:-2.13.0}
read -ra more <<<"${R2CCL_TORCH_PACKAGES:-}"
packages=("torch==$version" numpy expecttest scikit-learn "${more[@]}")

fail() {
  echo "torch-venv: $1" >&2
  if [ "${R2CCL_ALLOW_SKIP:-}" = 1 ]; then
    echo "torch-venv: the tests that need torch are skipped, because R2CCL_ALLOW_SKIP=1" >&2
    exit 77
  fi
  echo "torch-venv: R2CCL_ALLOW_SKIP=1 skips the tests that need torch" >&2
  exit 1
}

# torch's version has a suffix such as +cpu.
is_ready() {
  [ -x "$venv/bin/python" ] && "$venv/bin/python" -B - "$version" <<'PYTHON' 2>/dev/null
import sys

import expecttest, numpy, sklearn, torch  # noqa: E401, F401
sys.exit(torch.__version__.partition("+")[0] != sys.argv[1])
PYTHON
}

if ! is_ready; then
  echo "torch-venv: making $venv with ${packages[*]}" >&2
  python3 -m venv "$venv" ||
    fail "python3 cannot make $venv; on Debian install python3-venv"
  "$venv/bin/pip" install --progress-bar on "${packages[@]}" >&2 ||
    fail "pip cannot install ${packages[*]}: see its message above. Without a network give pip a \
folder with the packages, by PIP_FIND_LINKS and PIP_NO_INDEX=1, or R2CCL_TORCH_VENV the directory of \
an environment that has them"
  is_ready || fail "$venv has no working torch $version: remove the directory and try again"
fi
echo "$venv"
