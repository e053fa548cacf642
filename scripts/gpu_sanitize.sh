#!/bin/sh
# Searches the kernels for memory errors, races, and wrong barriers: see --help.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  cat <<'HELP'
Usage: scripts/gpu_sanitize.sh [PATTERN...]

Runs the tests of single operations of a package made by scripts/package.sh (of a build tree with YOKE_BUILD=DIR), on
few shapes, under compute-sanitizer: memcheck, racecheck, initcheck and synccheck, one line a tool and test. With
PATTERNs only where "TOOL TEST" contains one. Any finding is a failure, and so is a run longer than
YOKE_SANITIZER_LIMIT_S (240). Kernels that a tool itself fails on are left out of its run and told: "not instrumentable:
NAME"; where it fails without them too, the line says "not searched". YOKE_SANITIZER_OPTIONS are handed on.

Exit code: 0 where nothing failed.
HELP
  exit 0
fi
. scripts/gpu_package.sh

n_failed=0

# Kernels of cuBLAS and CUTLASS are not searched for races; the other tools check their arguments.
not_ours=kns=cublas,kns=cutlass,kns=nvjet,kns=gemm,kns=gemv,kns=xmma,kns=splitK

# Number of barriers of a block that the tool tracks. 0 takes the compiler's count, which is too low if barriers are in
# a loop or in every warp: synccheck then fails the launch.
few_barriers() {
  case $1 in synccheck) echo 1024 ;; *) echo 0 ;; esac
}
most_barriers=65536

# Runs one tool on one test. Writes its log and its end as $work/TAG.log and .end.
run_sanitizer() { # TOOL TEST TAG BARRIERS [OPTION...]
  tool=$1 test=$2 tag=$3 barriers=$4
  shift 4
  case $tool in racecheck | synccheck)
    set -- --kernel-name-exclude "$not_ours" --num-cuda-barriers "$barriers" "$@"
    ;;
  esac
  started=$(date +%s)
  code=0
  # shellcheck disable=SC2086 # options are words
  YOKE_TEST_SMALL=1 timeout -k 5 "${YOKE_SANITIZER_LIMIT_S:-240}" "$sanitizer" --tool "$tool" --error-exitcode 99 \
    --report-api-errors no "$@" ${YOKE_SANITIZER_OPTIONS:-} "$bin/$test" >"$work/$tag.log" 2>&1 || code=$?
  echo "$code $(($(date +%s) - started))" >"$work/$tag.end"
}

# Whether the tool's own failure or lost count ended the run, not an error in the kernels.
tool_failed() { # TAG
  grep -q 'Internal Sanitizer Error\|Detected overflow of tracked' "$work/$1.log"
}

# Mangled names of Yoke's kernels, such as 12place_kernel.
kernels_in() {
  python3 - "$1" <<'PYTHON'
import re, sys
data = open(sys.argv[1], "rb").read()
names = set()
for word in set(re.findall(rb"[A-Za-z0-9_]*?_kernel", data)):
    for n in range(8, 41):
        if re.search(rb"%d[a-z][a-z0-9_]{%d}$" % (n, n - 1), word):
            names.add(word[-n - len(str(n)) :])
print(*(name.decode() for name in sorted(names)), sep="\n")
PYTHON
}

# A tool cannot instrument every kernel (setmaxnreg, copies that complete on barriers of other blocks). Each kernel is
# tried alone. Kernels on which the tool fails are left out and listed; all others are checked together.
without_uninstrumentable() { # TOOL TEST: writes TOOL.TEST.log and .end anew, and .left_out
  alone_at_once=6
  tool=$1 test=$2 n_running=0
  barriers=$(few_barriers "$tool")
  kernels=$(kernels_in "$bin"/../lib/libyoke_gpu.so.*)
  for kernel in $kernels; do
    run_sanitizer "$tool" "$test" "$tool.$test.$kernel" "$barriers" --kernel-name "kns=$kernel" &
    n_running=$((n_running + 1))
    if [ $n_running -eq $alone_at_once ]; then
      wait
      n_running=0
    fi
  done
  wait
  left_out=
  for kernel in $kernels; do
    if tool_failed "$tool.$test.$kernel"; then left_out="$left_out kns=$kernel"; fi
  done
  if [ -z "$left_out" ]; then return; fi
  # shellcheck disable=SC2086 # one word a kernel
  set -- $left_out
  printf '%s ' "$@" | sed 's/kns=[0-9]*//g; s/ $//' >"$work/$tool.$test.left_out"
  run_sanitizer "$tool" "$test" "$tool.$test" "$barriers" --kernel-name-exclude "$(echo "$@" | tr ' ' ,)"
}

# "0 errors" in the tool's last lines
findings_of() {
  sed -n 's/^=* *\(RACECHECK\|ERROR\) SUMMARY: *//p' "$1" | tail -n 1
}

report_sanitizer() {
  tool=$1 name=$2
  log=$work/$tool.$name.log
  read -r code seconds <"$work/$tool.$name.end"
  findings=$(findings_of "$log")
  result=$findings
  case $code in
  77) result=skipped ;;
  124) result="FAILED: not done after $seconds s" ;;
  *) case "$code $findings" in
    '0 0 '*) ;;
    *)
      result="FAILED ($code): ${findings:-no summary}"
      ;;
    esac ;;
  esac
  # No fault of the kernels: the tool fails with and without them.
  if [ -f "$work/$tool.$name.left_out" ] && tool_failed "$tool.$name"; then
    result="not searched, the tool itself fails"
  fi
  case $result in
  FAILED*)
    n_failed=$((n_failed + 1))
    head -c 6000 "$log"
    echo ...
    tail -n 15 "$log"
    ;;
  esac
  if [ -f "$work/$tool.$name.left_out" ]; then
    result="$result; not instrumentable: $(cat "$work/$tool.$name.left_out")"
  fi
  echo "$tool $name: $result, $seconds s"
}

# Tests of a tool run in parallel, because most of their time is spent on the host.
sanitize_tests() {
  sanitizer=
  for path in compute-sanitizer /usr/local/cuda*/bin/compute-sanitizer \
    /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
    if command -v "$path" >/dev/null 2>&1; then sanitizer=$(command -v "$path"); fi
  done
  if [ -z "$sanitizer" ]; then
    echo "compute-sanitizer is missing: it comes with the CUDA toolkit" >&2
    exit 1
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for tool in memcheck racecheck initcheck synccheck; do
    wanted=
    for path in "$bin"/test_op_cuda_*; do
      test=$(basename "$path")
      if [ -x "$path" ] && is_wanted "$tool $test" "$@"; then
        wanted="$wanted $test"
        run_sanitizer "$tool" "$test" "$tool.$test" "$(few_barriers "$tool")" &
      fi
    done
    wait
    for test in $wanted; do
      if tool_failed "$tool.$test"; then run_sanitizer "$tool" "$test" "$tool.$test" $most_barriers; fi
      if tool_failed "$tool.$test"; then without_uninstrumentable "$tool" "$test"; fi
      report_sanitizer "$tool" "$test"
    done
  done
}

sanitize_tests "$@"
[ "$n_failed" -eq 0 ]
