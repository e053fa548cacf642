#!/bin/sh
# Builds Yoke and runs its tests: see --help.
set -eu
cd "$(dirname "$0")/.."
. scripts/setup.sh

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  cat <<'HELP'
Usage: scripts/test.sh [release] [asan] [tsan] [fuzz] [asan-all] [clients]

Installs what is missing with apt, then builds and tests each named stage, by default the first four:
  release   every test, but for those of which a later stage runs every case; where no GPU would run the CUDA
            kernels, they are compiled to PTX of one architecture, but neither tuned nor assembled
  asan      many tests, some of them shorter, under the address and undefined-behaviour sanitizers
  tsan      the tests of ranks, communicators, engine and server under the thread sanitizer
  fuzz      each fuzz target for a short while, where clang has libFuzzer
  asan-all  the sanitizers of asan, and all tests
  clients   public clients of the server, unmodified; pip installs each family in build/clients from PyPI

Exit code: 0 where every stage passed.
HELP
  exit 0
fi

# Tests start Python a thousand times. Debian's own starts soonest; a shim such as pyenv's takes longer than a script.
use_fastest_python() {
  python=$(python3 -c 'import sys; print(sys.executable)')
  ! /usr/bin/python3 -c 'import jinja2' 2>/dev/null || python=/usr/bin/python3
  PATH=$(dirname "$python"):$PATH
  export PATH
}

jobs=$(nproc)
tests_at_once=$((jobs + 2)) # many wait for sockets, helpers, browsers and time limits

# The thread sanitizer of older compilers does not support much address randomisation; some containers do not let it be
# disabled.
without_aslr() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then setarch "$(uname -m)" -R "$@"; else "$@"; fi
}

has_libfuzzer() {
  source=$(mktemp --suffix=.c)
  echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n ? 0 : 0; }' >"$source"
  status=0
  clang -fsanitize=fuzzer,address "$source" -o "$source.out" 2>/dev/null || status=1
  rm -f "$source" "$source.out"
  return $status
}

has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

# The fuzz tests start from the corpora in tests/fuzz/corpus; their findings stay in build/fuzz.
run_fuzz() {
  if ! has_libfuzzer; then
    echo "No clang with libFuzzer here: fuzzing is left out"
    return 0
  fi
  configure fuzz
  targets=$(basename -s .c -a tests/fuzz/fuzz_*.c)
  # shellcheck disable=SC2086 # one word for each target
  build fuzz --target $targets
  scripts/progress.py ctest "Testing fuzz" ctest --test-dir build/fuzz -j "$jobs" --output-on-failure -L fuzz
}

stage() {
  started=$(date +%s)
  case $1 in
  release)
    preset=release
    has_gpu || preset=untuned
    configure "$preset"
    build "$preset"
    # Omits tests of which a later stage runs every case: labels of tests/CMakeLists.txt.
    left_to_others='^none$'
    case " $stages " in *" asan"*) left_to_others="$left_to_others|^whole_in_asan\$" ;; esac
    case " $stages " in *" tsan "*) left_to_others="$left_to_others|^whole_in_tsan\$" ;; esac
    scripts/progress.py ctest "Testing $preset" ctest --preset "$preset" -j "$tests_at_once" -LE "$left_to_others"
    ;;
  asan | asan-all)
    configure asan
    if [ "$1" = asan ]; then
      build asan --target asan_tests
      left_out='^left_out_of_asan$' # a label of tests/CMakeLists.txt
    else
      build asan
      left_out='^none$'
    fi
    scripts/progress.py ctest "Testing $1" ctest --preset asan -j "$tests_at_once" -LE "$left_out"
    ;;
  tsan)
    configure tsan
    build tsan --target concurrent_tests
    without_aslr scripts/progress.py ctest "Testing tsan" ctest --preset tsan -j "$tests_at_once" -L concurrent
    ;;
  fuzz) run_fuzz ;;
  clients)
    install_venv
    configure run-cpu
    build run-cpu
    python3 -B tests/clients/run.py build/run-cpu/bin/yoke
    ;;
  *)
    echo "unknown stage \"$1\"; see scripts/test.sh --help" >&2
    exit 2
    ;;
  esac
  echo "Stage $1 passed in $(($(date +%s) - started)) s"
}

install_for_tests
install_grammar_library
[ $# -gt 0 ] || set -- release asan tsan fuzz
case " $* " in *" release "* | *" asan"*) install_test_programs ;; esac
use_fastest_python
stages=$*
for name; do stage "$name"; done
