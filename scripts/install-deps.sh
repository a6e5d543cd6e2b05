#!/usr/bin/env bash
# Installs the missing ones of the Debian packages that r2ccl is built and tested with.
#   install-deps.sh           install the missing packages
#   install-deps.sh --check   install nothing; exit 1 and name the missing packages
#   install-deps.sh --lint    also the packages that `make lint` and `make check` need
#   install-deps.sh --simgrid also the one that tests/simgrid needs
set -euo pipefail

packages=(g++ cmake make pkg-config libsodium-dev libhwy-dev libgtest-dev libcli11-dev nlohmann-json3-dev
          libtomlplusplus-dev iproute2 nftables ethtool python3)
check_only=
for argument in "$@"; do
  case $argument in
    --check) check_only=1 ;;
    --lint) packages+=(ccache clang clang-format clang-tidy libclang-rt-dev gdb valgrind dpkg-dev file
                       man-db zsh python3-venv) ;;
    --simgrid) packages+=(libsimgrid-dev) ;;
    *) echo "usage: $0 [--check] [--lint] [--simgrid]" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "install-deps: this is not Debian; make sure that you have: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null || true)
  grep -qx installed <<<"$state" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ -n "$check_only" ]; then
  echo "install-deps: missing Debian packages: ${missing[*]} (\`make deps\` installs them)" >&2
  exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
    echo "install-deps: missing Debian packages, and no right to install them. As root, run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install-deps: installing ${missing[*]}"
install_missing() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}
# The package lists may be absent or old, so that a download fails: then fetch them and try again.
install_missing || { "${as_root[@]}" apt-get update -q && install_missing; }
