#!/bin/sh
# Packs a build and unpacks it elsewhere: the program runs, every program and library finds the project's libraries
# inside the package, and kernels are included once.
# usage: check_package.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$source/scripts/package.sh" "$build" "$work/yoke.tar" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
tar -C "$work" -xf "$work/yoke.tar"
rm "$work/yoke.tar"
root=$(realpath "$work/yoke")

fail() {
  echo "check_package: $*"
  exit 1
}

unset LD_LIBRARY_PATH
outside=$(ldd "$root"/bin/* "$root"/lib/libyoke* | grep 'libyoke.* => ' | grep -vF "=> $root/" || true)
[ -z "$outside" ] || fail "not found in the package: $outside"

kernels=$(grep -lE '\.nv_fatbin' -r "$root/lib" "$root/bin/yoke" | xargs -r -n 1 basename)
case $kernels in
'' | libyoke_gpu.so.*[0-9]) ;;
*) fail "kernels are in $kernels" ;;
esac

found=$(cd / && "$root/bin/yoke" generate --device cpu --tp 2 --model "$root/tests/models/demo" --prompt "348+275=" \
  --temperature 0 --max-tokens 8 2>"$work/log") || { cat "$work/log"; exit 1; }
case $found in
*623*) ;;
*) fail "expected 623, found $found" ;;
esac

# Every GPU test is listed with a command that exists in the package.
tab=$(printf '\t')
grep -q "^e2e.cuda_plan${tab}1${tab}all${tab}python3 -B tests/e2e/cuda_plan.py \"\$bin\"/yoke$" "$root/gpu_tests.txt" ||
  fail "cuda_plan.py is not listed: $(cat "$root/gpu_tests.txt")"
# shellcheck disable=SC2034 # commands read it
bin=$root/bin
while IFS=$tab read -r name count kind command; do
  for word in $(eval "echo $command"); do
    case $word in
    "$root"/* | tests/*) (cd "$root" && [ -e "$word" ]) || fail "$name, $count $kind: the package lacks $word" ;;
    "$build"* | "$source"*) fail "$name: $word is outside of the package" ;;
    esac
  done
done <"$root/gpu_tests.txt"
