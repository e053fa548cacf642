#!/bin/sh
# Installs a build into an empty folder, builds the examples against it by find_package and by pkg-config, and runs
# them; then moves the whole folder, and pkg-config must still find it.
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

# compile_by_pkg_config SOURCE PROGRAM: compiles a source of this folder with the flags of pkg-config.
compile_by_pkg_config() {
  # shellcheck disable=SC2046 # flags are words
  cc -std=c99 -Wall -Wextra -pedantic -Werror "$source/tests/install/$1" $(pkg-config --cflags --libs yoke) -o "$2"
}

libdir=$(find_libdir "$work/prefix")
export PKG_CONFIG_PATH="$libdir" LD_RUN_PATH="$libdir/.." # of libyoke.so, which finds its own libraries in its folder
unset LD_LIBRARY_PATH
compile_by_pkg_config example.c "$work/example_pc"
compile_by_pkg_config text.c "$work/text_pc"

# The program of runtime/README.md.
# shellcheck disable=SC2016 # the fences of Markdown
sed -n '/^```c$/,/^```$/p' "$source/runtime/README.md" | sed '1d; $d' >"$work/answers.c"
[ "$(wc -l <"$work/answers.c")" -le 150 ] || fail "the program of runtime/README.md has more than 150 lines"
# shellcheck disable=SC2046 # flags are words
cc -std=c99 -Wall -Wextra -pedantic -Werror "$work/answers.c" $(pkg-config --cflags --libs yoke) -o "$work/answers"

# A program compiled with the headers of each earlier version must run with the present libraries.
for headers in "$source"/tests/install/headers_*; do
  # shellcheck disable=SC2046 # flags are words
  cc -std=c99 -Wall -Wextra -pedantic -Werror "-I$headers" "$source/tests/install/older.c" \
    $(pkg-config --libs yoke yoke-tools) -o "$work/older"
  found=$("$work/older" "$source/tests/models/demo" "348+275=") || fail "$headers: $found"
  case $found in
  "348+275=623
prompt tokens: "*" of 2 ranks: 1 requests") ;;
  *) fail "$headers: found '$found'" ;;
  esac
done

# Each header compiles alone.
others=$(cd "$work/prefix/include" && find . -type f ! -path './yoke/*.h')
[ -z "$others" ] || fail "installed beside yoke/*.h: $others"
headers=$(cd "$work/prefix/include" && ls yoke/*.h)
for header in $headers; do
  echo "#include <$header>" >"$work/alone.c"
  # shellcheck disable=SC2046 # flags are words
  cc -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only $(pkg-config --cflags yoke) "$work/alone.c"
done

# check_names LIBRARY HEADER...: each library exports the functions that its headers declare, and nothing else.
check_names() {
  nm -D --defined-only "$libdir/../$1" | awk '{print $3}' | sort >"$work/shown"
  # shellcheck disable=SC2046 # flags are words
  echo "#include <yoke/$2>" | cc -E -P $(pkg-config --cflags yoke) - | tr '\n' ' ' |
    sed 's/static inline/\n&/g; s/[;}]/&\n/g' |
    sed -n '/static inline/d; s/^.*[ *]\(yk_[a-z0-9_]*\)(.*);$/\1/p' | sort -u >"$work/declared"
  differs=$(diff "$work/declared" "$work/shown" || true)
  [ -z "$differs" ] || fail "$2 (<) and $1 (>) differ: $differs"
}
check_names libyoke.so yoke.h
check_names libyoke_tools.so tools.h
[ "$(wc -l <"$work/declared")" -ge 10 ] || fail "found only $(wc -l <"$work/declared") functions in tools.h"

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
cp -r "$source/tests/models/demo" "$work/model"
cat >"$work/model/chat_template.jinja" <<'EOF'
{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}=
{%- endif %}
EOF
answers=$("$work/answers" "$work/model" "What is 2+2?" "And 3+3?") || fail "answers: $answers"
for question in "What is 2+2?" "And 3+3?"; do
  echo "$answers" | grep -qxF "$question" || fail "answers: found '$answers'"
done
"$work/prefix/bin/yoke" --version

mv "$work/prefix" "$work/moved"
libdir=$(find_libdir "$work/moved")
export PKG_CONFIG_PATH="$libdir" LD_RUN_PATH="$libdir/.."
compile_by_pkg_config example.c "$work/example_moved"
"$work/example_moved" "$source/tests/models/demo" "348+275=" | grep -qx "348+275=623" ||
  fail "does not work after a move"
"$work/moved/bin/yoke" --version >/dev/null || fail "the program does not start after a move"
