#!/usr/bin/env bash
# Installs into an empty place, moves that, and builds and runs against it as a user would: plain
# C11 and C++17 by pkg-config, and a CMake project by find_package.
#   run.sh BUILD_DIR CMAKE CC CXX
set -euo pipefail
build=$1 cmake=$2 cc=$3 cxx=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict=(-Wall -Wextra -Wpedantic -Werror)

DESTDIR="$work/stage" "$cmake" --install "$build" --strip --prefix /usr/local >/dev/null
mv "$work/stage/usr/local" "$work/moved"
libdir=$(dirname "$(find "$work/moved" -name libr2ccl.so)")
export PKG_CONFIG_PATH="$libdir/pkgconfig"
read -r -a flags <<<"$(pkg-config --cflags --libs r2ccl)"

echo "== C89 and C++98"
"$cc" -std=c89 "${strict[@]}" -c "$here/version.c" "${flags[@]}" -o "$work/c89.o"
"$cxx" -std=c++98 "${strict[@]}" -Wno-long-long -c -x c++ "$here/version.c" "${flags[@]}" -o "$work/cxx98.o"

echo "== C11 by pkg-config"
"$cc" -std=c11 "${strict[@]}" "$here/version.c" "${flags[@]}" "-Wl,-rpath,$libdir" -o "$work/c11"
"$work/c11"

echo "== C++17 by pkg-config"
"$cxx" -std=c++17 "${strict[@]}" -x c++ "$here/version.c" -x none "${flags[@]}" \
  "-Wl,-rpath,$libdir" -o "$work/cxx17"
"$work/cxx17"

echo "== the README's examples"
example() { awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```/ { on = 0 } on' "$here/../../README.md"; }
example c >"$work/readme.c"
example cpp >"$work/readme.cc"
[ -s "$work/readme.c" ] && [ -s "$work/readme.cc" ]
"$cc" -std=c11 "${strict[@]}" "$work/readme.c" "${flags[@]}" -o "$work/readme_c"
example bash >"$work/readme.sh"
cp "$work/readme.c" "$work/app.c"
# Its own port: other jobs of this machine may use the README's.
port=$((20000 + $$ % 10000))
sed -i "s/MASTER_PORT=29500/MASTER_PORT=$port/" "$work/readme.sh"
grep -q "MASTER_PORT=$port" "$work/readme.sh"
said=$(cd "$work" && LD_LIBRARY_PATH="$libdir" bash -euo pipefail readme.sh)
[ "$said" = "$(printf '4 8 12 16\n%.0s' 1 2 3 4)" ] || { echo "it says: $said"; exit 1; }
"$cxx" -std=c++17 "${strict[@]}" -shared -fPIC "$work/readme.cc" "${flags[@]}" -o "$work/readme_cc"

echo "== find_package"
"$cmake" -S "$here" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/moved" \
  -DCMAKE_C_COMPILER="$cc" >/dev/null
"$cmake" --build "$work/consumer" >/dev/null
"$work/consumer/version"

echo "== the installed programs are hardened and stripped; the licence is there"
fail() { echo "$1"; exit 1; }
for program in "$work/moved/bin/r2ccl" "$(readlink -f "$libdir/libr2ccl.so")" \
  "$libdir/libnccl-net-r2ccl.so"; do
  readelf -W -l -d -S --dyn-syms "$program" >"$work/elf"
  # An empty part would be the current directory.
  runpath=$(sed -n 's/.*R[UN]*PATH.*\[\(.*\)\]/:\1:/p' "$work/elf")
  [[ ! $runpath =~ :([^/\$][^:]*)?: ]] || fail "$program: its RUNPATH has an empty or relative part: $runpath"
  grep -q GNU_RELRO "$work/elf" || fail "$program: no read-only relocations"
  grep -Eq 'BIND_NOW|FLAGS_1.* NOW' "$work/elf" || fail "$program: symbols are bound lazily"
  grep -q __stack_chk_fail "$work/elf" || fail "$program: no stack protector"
  grep -Eq ' __[a-z]+_chk(@| |$)' "$work/elf" || fail "$program: no _FORTIFY_SOURCE"
  ! grep -q '\.symtab' "$work/elf" || fail "$program: not stripped"
done
grep -q __glibcxx_assert_fail <(strings -a "$libdir/libr2ccl.so") ||
  grep -q "Assertion '" <(strings -a "$libdir/libr2ccl.so") || fail "no _GLIBCXX_ASSERTIONS"
cmp "$here/../../LICENSE" "$work/moved/share/doc/r2ccl/LICENSE"

echo "== the installed command finds the installed library; man pages and completion are there"
"$work/moved/bin/r2ccl" --help >/dev/null
for file in man/man1/r2ccl.1 man/man3/r2cclCommInitEnv.3 man/man7/r2ccl.7 man/man7/r2ccl-nccl.7 \
  bash-completion/completions/r2ccl zsh/site-functions/_r2ccl; do
  [ -s "$work/moved/share/$file" ] || fail "no $file"
done

echo "== links of the installed documents, and documents that man pages name, are installed"
documents=$work/moved/share/doc/r2ccl
find "$documents" -name '*.md' | while read -r page; do
  # Code is no link. A link to a heading of the page itself has no file.
  links=$(sed -e '/^```/,/^```/d' -e 's/`[^`]*`//g' "$page" | grep -oE '\]\([^)#]+' |
    cut -c3- | grep -v '://' || true)
  for link in $links; do
    [ -e "$(dirname "$page")/$link" ] || fail "$page: no $link"
  done
done
named=$(grep -rhoE '[^ (]*docs/\w+\.md' "$work/moved/share/man/man3" "$work/moved/share/man/man7" | sort -u)
[ -n "$named" ] || fail "no man page names a document"
for document in $named; do
  [ -s "$work/moved/${document#/usr/local/}" ] || fail "man pages name $document"
done

echo "== only the API leaves the library"
foreign=$(nm -D --defined-only "$libdir/libr2ccl.so" | awk '$2 != "A" { print $3 }' |
  grep -v '^r2ccl[A-Z]' || true)
if [ -n "$foreign" ]; then
  echo "symbols that are not API: $foreign"
  exit 1
fi
