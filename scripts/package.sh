#!/bin/sh
# Packs a build for machines without permission to install packages: see --help.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  cat <<'HELP'
Usage: scripts/package.sh [BUILD_DIR [OUT]]

Packs the program, its GPU tests with their data, and the shared libraries that a bare machine lacks, from BUILD_DIR
(build/release) into OUT (BUILD_DIR/yoke.tar.xz; also .tar.gz and .tar, which are larger). The programs find the
libraries beside themselves ($ORIGIN/../lib).
Not packed: the C library and the compilers' runtime, which the machine must have; the GPU driver, cuBLAS and NCCL,
without which the program runs on CPU ranks.

On that machine: tar xf yoke.tar.xz && yoke/scripts/gpu_tests.sh
Without xz there: python3 -m tarfile -e yoke.tar.xz
HELP
  exit 0
fi

build=${1:-build/release}
out=${2:-$build/yoke.tar.xz}
[ -x "$build/bin/yoke" ] || {
  echo "$build/bin/yoke: expected a built program; build first" >&2
  exit 1
}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/yoke
mkdir -p "$root/bin" "$root/lib" "$root/scripts" "$root/tests/golden" "$root/tests/models"

cp "$build/bin/yoke" "$root/bin/"
if [ -x "$build/bin/yoke_with_faults" ]; then cp "$build/bin/yoke_with_faults" "$root/bin/"; fi # for tests
scripts/gpu_test_list.py "$build" >"$stage/gpu_tests.txt"
# shellcheck disable=SC2016 # $bin stays unexpanded
for test in $(grep -oE '"\$bin"/[a-z0-9_]+' "$stage/gpu_tests.txt" | cut -d / -f 2 | sort -u) dump_logits; do
  cp "$build/bin/$test" "$root/bin/"
done
for bench in "$build"/bin/bench_*; do cp "$bench" "$root/bin/"; done

# Not copied, because the machine provides them: libc and its parts, the compilers' runtime; and driver, CUDA and NCCL,
# which bench needs.
own='^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s'
own="$own|libcuda|libcudart|libcublas|libcublasLt|libnccl|libnvidia)[.-]"
LD_LIBRARY_PATH=$(realpath "$build/lib"):${LD_LIBRARY_PATH:-} ldd "$root"/bin/* |
  awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
  if ! echo "$name" | grep -Eq "$own"; then cp -L "$path" "$root/lib/$name"; fi
done
if [ -f "$build/lib/libyoke_mpi.so" ]; then cp "$build/lib/libyoke_mpi.so" "$root/lib/"; fi # without MPI itself
grammar=${YOKE_GRAMMAR_LIBRARY:-$build/../yoke-grammar} # constrained output, if installed
if [ -f "$grammar/libtvm_ffi.so" ]; then
  mkdir "$root/lib/yoke-grammar"
  cp -L "$grammar/libtvm_ffi.so" "$grammar/libxgrammar_bindings.so" "$root/lib/yoke-grammar/"
fi
find "$root" -type f -exec strip --strip-debug {} +

mv "$stage/gpu_tests.txt" "$root/"
cp scripts/gpu_package.sh scripts/gpu_test*.sh scripts/gpu_test_list.py scripts/gpu_sanitize.sh \
  scripts/*random_model*.py "$root/scripts/"
cp -r scripts/chat_templates "$root/scripts/"
cp -r tests/e2e tests/reference "$root/tests/"
cp -r tests/golden/families tests/golden/adapters "$root/tests/golden/"
if [ -d tests/models/demo ]; then cp -r tests/models/demo "$root/tests/models/"; fi
find "$root" -name __pycache__ -prune -exec rm -rf {} +
case $out in
*.xz) tar -C "$stage" -cf - yoke | xz --lzma2=preset=5,dict=64MiB >"$out" ;;
*.gz) tar -C "$stage" -czf "$out" yoke ;;
*) tar -C "$stage" -cf "$out" yoke ;;
esac
echo "$out: $(du -h "$out" | cut -f1)"
