#!/bin/sh
# Install a build into an empty folder, build the examples against it by find_package and by pkg-config, run them; then
# move the whole folder elsewhere, and pkg-config still finds it.
# usage: check_install.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >"$work/log"
cmake -S "$source/tests/install" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" ||
  { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

fail() {
  echo "check_install: $*"
  exit 1
}

find_libdir() {
  dirname "$(find "$1" -name yoke.pc)"
}

# Compile a source of this folder by the flags of pkg-config: compile_by_pkg_config SOURCE PROGRAM
compile_by_pkg_config() {
  # shellcheck disable=SC2046 # flags are words
  cc -std=c99 -Wall -Wextra -pedantic -Werror "$source/tests/install/$1" $(pkg-config --cflags --libs yoke) -o "$2"
}

libdir=$(find_libdir "$work/prefix")
export PKG_CONFIG_PATH="$libdir" LD_RUN_PATH="$libdir/.." # of libyoke.so, which finds its own beside itself
unset LD_LIBRARY_PATH
compile_by_pkg_config example.c "$work/example_pc"
compile_by_pkg_config text.c "$work/text_pc"

# Each header stands alone.
others=$(cd "$work/prefix/include" && find . -type f ! -path './yoke/*.h')
[ -z "$others" ] || fail "installed beside yoke/*.h: $others"
headers=$(cd "$work/prefix/include" && ls yoke/*.h)
for header in $headers; do
  echo "#include <$header>" >"$work/alone.c"
  # shellcheck disable=SC2046 # flags are words
  cc -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only $(pkg-config --cflags yoke) "$work/alone.c"
done

# The public names are visible, all of them and nothing else.
nm -D --defined-only "$libdir/../libyoke.so" | awk '{print $3}' | sort >"$work/shown"
extra=$(grep -v '^yk_' "$work/shown" || true)
[ -z "$extra" ] || fail "unexpected names in libyoke.so: $extra"
cat "$work"/prefix/include/yoke/*.h |
  sed -n '/^static inline/d; s/^[a-z].*[ *]\(yk_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$work/declared"
[ "$(wc -l <"$work/declared")" -ge 40 ] || fail "found only $(wc -l <"$work/declared") functions in the headers"
missing=$(comm -23 "$work/declared" "$work/shown")
[ -z "$missing" ] || fail "the headers declare what libyoke.so lacks: $missing"

# cuBLAS and NCCL are loaded when GPUs are used.
needed=$(readelf -d "$libdir"/../libyoke*.so* "$work/prefix/bin/yoke" | grep -E 'NEEDED.*(cublas|nccl)' || true)
[ -z "$needed" ] || { echo "check_install: libraries that CPU ranks do not need: $needed"; exit 1; }

for program in "$work/build/example" "$work/build/example_cpp" "$work/example_pc"; do
  found=$("$program" "$source/tests/models/demo" "348+275=")
  [ "$found" = "348+275=623" ] || fail "$program: expected '348+275=623', found '$found'"
done
found=$("$work/text_pc" "$source/tests/models/demo" "the 1st of 2 façades")
expected='text: the 1st of 2 façades
stream: the 1st of 2 façades
eos: 920 <|endoftext|>
eos: 922 <|im_end|>'
[ "$found" = "$expected" ] || fail "text: expected '$expected', found '$found'"
"$work/prefix/bin/yoke" --version

mv "$work/prefix" "$work/moved"
libdir=$(find_libdir "$work/moved")
export PKG_CONFIG_PATH="$libdir" LD_RUN_PATH="$libdir/.."
compile_by_pkg_config example.c "$work/example_moved"
"$work/example_moved" "$source/tests/models/demo" "348+275=" | grep -qx "348+275=623" ||
  fail "does not work after a move"
"$work/moved/bin/yoke" --version >/dev/null || fail "the program does not start after a move"
