#!/bin/sh
# Runs the GPU tests of a package: see --help.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  cat <<'HELP'
Usage: scripts/gpu_tests.sh [PATTERN...]

Runs the GPU tests of a package made by scripts/package.sh, without CMake; of a build tree with YOKE_BUILD=DIR. With
PATTERNs only the tests whose name contains one. Tests of one GPU run side by side, one on each; then those of several,
one after the other. Where the machine has no GPU they are skipped; YOKE_REQUIRE_GPU=N makes fewer than N GPUs a
failure, and tests that need more than N are skipped. YOKE_TEST_OUTPUT=yes shows what tests print that pass.

CUDA's libraries are taken from LD_LIBRARY_PATH, the system, /usr/local/cuda*, or the packages of python3.
Exit code: 0 where nothing failed.
HELP
  exit 0
fi
. scripts/gpu_package.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tests (gpu_test_list.py): from the file of a package, or from ctest in a build tree.
list=$work/list
if [ -e gpu_tests.txt ]; then cp gpu_tests.txt "$list"; else scripts/gpu_test_list.py "${YOKE_BUILD:-.}" >"$list"; fi

tab=$(printf '\t')

# The command of a test, which reads $bin.
start() {
  command=$(sed -n "s/^${1}${tab}[^${tab}]*${tab}[^${tab}]*${tab}//p" "$list")
  eval "$command"
}

# Runs one test and prints its result on one line. A failure leaves a file in $work/failed.
run() {
  started=$(date +%s)
  log=$work/$1.log
  code=0
  (start "$1") >"$log" 2>&1 || code=$?
  shows=${YOKE_TEST_OUTPUT:-}
  case $1 in *test_soak.*) shows=yes ;; esac # for its figures
  case $code in
  0) result=passed ;;
  77) result=skipped ;;
  *)
    result="FAILED ($code)"
    shows=yes
    : >"$work/failed/$1"
    ;;
  esac
  if [ -n "$shows" ]; then cat "$log"; fi
  rm -f "$log"
  echo "$1: $result, $(($(date +%s) - started)) s"
}

# Runs tests of one GPU until no test is left.
run_lane() {
  if [ -n "$1" ]; then export CUDA_VISIBLE_DEVICES="$1"; fi
  if [ "${YOKE_REQUIRE_GPU:-0}" -gt 1 ]; then export YOKE_REQUIRE_GPU=1; fi
  for test in $one_gpu; do
    if mkdir "$work/taken.$test" 2>/dev/null; then run "$test"; fi
  done
}

mkdir "$work/failed"
one_gpu='' more_gpus='' soaks='' # the soak test is last and runs once, on all GPUs
while IFS=$tab read -r test count kind command; do
  if ! is_wanted "$test" "$@"; then continue; fi
  case $test-$count-$kind in
  *test_soak.*) soaks="$test $soaks" ;;
  *-1-each) one_gpu="$one_gpu $test" ;;
  *) more_gpus="$more_gpus $test" ;;
  esac
done <"$list"

gpus=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi -L 2>/dev/null | sed -n 's/^GPU \([0-9]*\):.*/\1/p' | paste -sd,)}
n_gpus=$(echo "$gpus" | tr , ' ' | wc -w)
if [ "$n_gpus" -lt "${YOKE_REQUIRE_GPU:-0}" ]; then
  echo "YOKE_REQUIRE_GPU=$YOKE_REQUIRE_GPU, but there are $n_gpus GPUs" >&2
  exit 1
fi
if [ "$n_gpus" -eq 0 ]; then run_lane ''; fi
for gpu in $(echo "$gpus" | tr , ' '); do run_lane "$gpu" & done
wait
for test in $more_gpus $soaks; do
  case $test in *test_soak.*) if [ -e "$work/soaked" ]; then continue; fi ;; esac
  run "$test"
  case $test-$result in
  *test_soak.*-skipped) ;;
  *test_soak.*) : >"$work/soaked" ;;
  esac
done
[ -z "$(ls "$work/failed")" ]
