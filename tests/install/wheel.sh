#!/usr/bin/env bash
# Builds the Python wheel as `pip install .` does, installs it into an empty virtual environment
# without torch, and runs the package there. Exits with 77 where pip cannot get scikit-build-core.
#   wheel.sh BUILD_DIR CMAKE PYTHON
set -euo pipefail
build=$1 cmake=$2 python=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1"; exit 1; }
# The environment of a test run may have its own copy of the package or of the library.
unset PYTHONPATH R2CCL_LIBRARY

"$python" -m venv "$work/venv" >"$work/log" 2>&1 ||
  { cat "$work/log"; echo "SKIPPED: no python3-venv"; exit 77; }
pip() { "$work/venv/bin/python" -m pip --disable-pip-version-check "$@"; }
pip download -q --no-deps -d "$work" 'scikit-build-core>=0.11' >"$work/log" 2>&1 ||
  { cat "$work/log"; echo "SKIPPED: pip cannot get scikit-build-core"; exit 77; }

echo "== the wheel"
# The build folder is kept, so that a second run compiles only what has changed.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache
fi
CMAKE_GENERATOR="Unix Makefiles" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
  pip wheel --no-deps -w "$work" --config-settings=build-dir="$build/wheel" "$root" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
wheel=$(echo "$work"/r2ccl-*-py3-none-linux_*.whl)
[ -f "$wheel" ] || fail "no wheel for every Python 3: $(ls "$work")"

echo "== it works in an environment that has nothing else"
pip install -q --no-index --no-deps "$wheel"
cd "$work"
site=$(venv/bin/python -c 'import r2ccl; print(r2ccl.__path__[0])')
venv/bin/python -m r2ccl.info
sums=$(venv/bin/python "$here/wheel_job.py")
[ "$sums" = $'3.0 21.0 201.0\n3.0 21.0 201.0' ] || fail "the sums are: $sums"

echo "== it has the command"
said=$(venv/bin/r2ccl --version)
[[ $said == *" 0."* ]] || fail "r2ccl --version says: $said"
venv/bin/r2ccl info >/dev/null
venv/bin/r2ccl bench -p 2 -b 1K -n 1 >/dev/null
status=0
venv/bin/r2ccl bench --no-such-option >/dev/null 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "the command's exit status is $status"

echo "== it has the net plugin for NCCL, and says how to switch it on"
said=$(venv/bin/python -m r2ccl.nccl)
[ "$said" = "export NCCL_NET_PLUGIN=$(readlink -f "$site")/libnccl-net-r2ccl.so"$'\n'"export NCCL_NET=r2ccl" ] ||
  fail "it says: $said"

echo "== its files"
for file in py.typed c_api.py; do
  [ -f "$site/$file" ] || fail "no $file"
done
# Not one symbol but those of the API: the tests and the tools are not in it, nor is its debug table.
for file in libr2ccl.so.0 libnccl-net-r2ccl.so bin/r2ccl; do
  ! readelf -WS "$site/$file" | grep -q '\.symtab' || fail "$file is not stripped"
done
[[ $(readelf -d "$site/bin/r2ccl") == *'[$ORIGIN/..]'* ]] ||
  fail "the command looks for libraries in: $(readelf -d "$site/bin/r2ccl" | grep -i path)"
foreign=$(nm -D --defined-only "$site/libr2ccl.so.0" | awk '$2 != "A" { print $3 }' |
  grep -v '^r2ccl[A-Z]' || true)
[ -z "$foreign" ] || fail "symbols that are not API: $foreign"
tables=$(nm -D --defined-only "$site/libnccl-net-r2ccl.so" | awk '{ print $3 }' | sort | tr '\n' ' ')
[ "$tables" = "$(printf 'ncclNetPlugin_v%s ' 10 11 12 6 7 8 9)" ] || fail "the plugin has: $tables"
extra=$(find "$site" -type f ! -name '*.py' ! -name '*.pyc' ! -name py.typed ! -name libr2ccl.so.0 \
  ! -name libnccl-net-r2ccl.so ! -path '*/bin/r2ccl')
[ -z "$extra" ] || fail "files that do not belong there: $extra"
info=$(echo "$site"/../r2ccl-*.dist-info)
cmp "$root/LICENSE" "$info/licenses/LICENSE"
[ "$(grep -c '^r2ccl = r2ccl_autoload:register' "$info/entry_points.txt")" = 2 ] ||
  fail "the entry points are: $(cat "$info/entry_points.txt")"

rm "$site/bin/r2ccl"
said=$(! venv/bin/r2ccl info 2>&1) || fail "without its program the command ends well"
[[ $said == *"without the command"*"pip install"* ]] || fail "without its program the command says: $said"

echo "== the hook of import torch raises nothing, even where torch is broken"
mkdir broken
echo 'raise ImportError("a broken torch")' >broken/torch.py
said=$(PYTHONPATH=broken venv/bin/python -c 'import r2ccl_autoload as a; a.register()' 2>&1)
[[ $said == *"a broken torch"* ]] || fail "the hook does not tell why: $said"

echo "== without a build package the error names what to install"
refused() {
  local thing=$1
  shift
  ! "$@" "$cmake" -S "$root" -B "$work/refused" -DR2CCL_TESTS=OFF >"$work/log" 2>&1 ||
    fail "it configures without $thing"
  rm -rf "$work/refused"
  tr -s ' \n' ' ' <"$work/log" >"$work/line"
  grep -q "cannot be built without $thing.*apt-get install .*libsodium-dev" "$work/line" ||
    { cat "$work/log"; fail "the error of a missing $thing"; }
}
refused "libsodium" env PKG_CONFIG_LIBDIR=/nonexistent
refused "a C++ compiler" env -u CXX PATH=/nonexistent
