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

# All tests: GEMMs and attention of every shape, which take longest, programs, whole engines and the program on 1 to 4
# GPUs, scripts that take as many as there are. The soak comes last, once, on as many as there are.
list_tests() {
  if [ -x "$bin/bench_linear" ]; then printf 'linear_check.%s\n' int4 int8 fp8 w8a8; fi
  if [ -x "$bin/bench_attention" ]; then echo attention_check; fi
  for test in "$bin"/test_*cuda* "$bin"/test_*nccl*; do
    if [ -x "$test" ]; then basename "$test"; fi
  done
  for n_gpus in 1 2 3 4; do
    for source in tests/e2e/test_*.c; do
      test=$(basename "$source" .c)
      if [ -x "$bin/$test" ] && [ "$test" != test_soak ]; then echo "$test.gpu$n_gpus"; fi
    done
    printf '%s\n' "demo.gpu$n_gpus" "weights_f16.gpu$n_gpus" "cli_trace.gpu$n_gpus" \
      "cli_expert_formats.gpu$n_gpus"
  done
  printf '%s\n' cli_generate.gpu1 cli_score.gpu1 cli_batch.gpu1 # the same on any number
  basename -s .py tests/e2e/cuda_*.py
  if [ -x "$bin/test_soak" ]; then printf '%s\n' test_soak.gpu4 test_soak.gpu3 test_soak.gpu2 test_soak.gpu1; fi
}

needs_one_gpu() {
  case $1 in
  test_soak.*) return 1 ;;
  *.gpu1 | test_op_cuda_* | test_failures_cuda | linear_check.* | attention_check) return 0 ;;
  *) return 1 ;;
  esac
}

# On N GPUs: the command as it is, with its device in the environment.
on_gpus() {
  YOKE_TEST_RANKS=$1 YOKE_TEST_DEVICE=cuda
  export YOKE_TEST_RANKS YOKE_TEST_DEVICE
  shift
  "$@"
}

start() {
  name=$1 n_gpus=${1##*.gpu}
  case $name in
  test_soak.*) on_gpus "$n_gpus" "$bin/test_soak" --requests 10000 --threads 24 --seconds 60 --time-limit 80 ;;
  test_*.gpu*) on_gpus "$n_gpus" "$bin/${name%.gpu*}" ;;
  *.gpu*) on_gpus "$n_gpus" python3 -B "tests/e2e/${name%.gpu*}.py" "$bin/yoke" ;;
  linear_check.*)
    [ -n "$gpus" ] || exit 77
    "$bin/bench_linear" --check-only --format "${name#linear_check.}"
    ;;
  attention_check) # 163 and 99: what GPUs of compute capability 8.0 and 8.6 have
    [ -n "$gpus" ] || exit 77
    "$bin/bench_attention" --check-only && "$bin/bench_attention" --check-only --shared-memory 163 &&
      "$bin/bench_attention" --check-only --shared-memory 99
    ;;
  cuda_*) python3 -B "tests/e2e/$name.py" "$bin/yoke" ;;
  *) "$bin/$name" ;;
  esac
}

# One test, its result on one line; a failure leaves a file in $work/failed.
run() {
  started=$(date +%s)
  log=$work/$1.log
  code=0
  (start "$1") >"$log" 2>&1 || code=$?
  shows=${YOKE_TEST_OUTPUT:-}
  case $1 in test_soak.*) shows=yes ;; esac # for its figures
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

# Takes tests of one GPU as long as there are any that no other lane has taken.
run_lane() {
  if [ -n "$1" ]; then export CUDA_VISIBLE_DEVICES="$1"; fi
  if [ "${YOKE_REQUIRE_GPU:-0}" -gt 1 ]; then export YOKE_REQUIRE_GPU=1; fi
  for test in $one_gpu; do
    if mkdir "$work/taken.$test" 2>/dev/null; then run "$test"; fi
  done
}

mkdir "$work/failed"
one_gpu=
more_gpus=
for test in $(list_tests); do
  if ! is_wanted "$test" "$@"; then continue; fi
  if needs_one_gpu "$test"; then one_gpu="$one_gpu $test"; else more_gpus="$more_gpus $test"; fi
done

gpus=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi -L 2>/dev/null | sed -n 's/^GPU \([0-9]*\):.*/\1/p' | paste -sd,)}
n_gpus=$(echo "$gpus" | tr , ' ' | wc -w)
if [ "$n_gpus" -lt "${YOKE_REQUIRE_GPU:-0}" ]; then
  echo "YOKE_REQUIRE_GPU=$YOKE_REQUIRE_GPU, but there are $n_gpus GPUs" >&2
  exit 1
fi
if [ "$n_gpus" -eq 0 ]; then run_lane ''; fi
for gpu in $(echo "$gpus" | tr , ' '); do run_lane "$gpu" & done
wait
for test in $more_gpus; do
  case $test in test_soak.*) if [ -e "$work/soaked" ]; then continue; fi ;; esac
  run "$test"
  case $test-$result in
  test_soak.*-skipped) ;;
  test_soak.*) : >"$work/soaked" ;;
  esac
done
[ -z "$(ls "$work/failed")" ]
