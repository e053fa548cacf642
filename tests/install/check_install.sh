#!/bin/sh
# Install a build into an empty folder, build the example against it by find_package and by pkg-config, and run it.
# usage: check_install.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >"$work/log"
cmake -S "$source/tests/install" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

libdir=$(dirname "$(find "$work/prefix" -name yoke.pc)")
sed -i "s|^prefix=.*|prefix=$work/prefix|" "$libdir/yoke.pc"
export PKG_CONFIG_PATH=$libdir
cc -std=c99 $(pkg-config --cflags yoke) "$source/tests/install/example.c" $(pkg-config --libs yoke) -o "$work/example_pc"

# Nothing but the public names may be visible.
extra=$(nm -D --defined-only "$libdir/../libyoke.so" | awk '{print $3}' | grep -v '^yk_' || true)
[ -z "$extra" ] || { echo "check_install: unexpected names in libyoke.so: $extra"; exit 1; }

# cuBLAS and NCCL are loaded when GPUs are used.
needed=$(readelf -d "$libdir/../libyoke.so" "$work/prefix/bin/yoke" | grep -E 'NEEDED.*(cublas|nccl)' || true)
[ -z "$needed" ] || { echo "check_install: libraries that CPU ranks do not need: $needed"; exit 1; }

export LD_LIBRARY_PATH=$libdir/..
for program in "$work/build/example" "$work/build/example_cpp" "$work/example_pc"; do
  found=$("$program" "$source/tests/models/demo" "348+275=")
  [ "$found" = "348+275=623" ] || { echo "check_install: $program: expected '348+275=623', found '$found'"; exit 1; }
done
"$work/prefix/bin/yoke" --version
