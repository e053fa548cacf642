# shellcheck shell=sh
# Sourced by run.sh and test.sh: installs the packages of a build, chooses GPUs, and builds. Run it in the project's
# root.

# need CHECK PACKAGE...: adds Debian packages to the list if the check fails.
missing=
need() {
  check=$1
  shift
  sh -c "$check" >/dev/null 2>&1 || missing="$missing $*"
}

# Installs the packages that the program alone needs.
install_for_program() {
  missing=
  need 'command -v cmake' cmake
  need 'command -v ninja' ninja-build
  need 'command -v cc' gcc libc6-dev
  need 'command -v python3' python3
  need 'python3 -c "import jinja2"' python3-jinja2
  need 'command -v pkg-config' pkg-config
  need 'pkg-config --exists jansson' libjansson-dev
  need 'pkg-config --exists libpcre2-8' libpcre2-dev
  need 'pkg-config --exists libutf8proc' libutf8proc-dev
  need 'pkg-config --exists libmicrohttpd' libmicrohttpd-dev
  need 'pkg-config --exists libedit' libedit-dev
  need 'pkg-config --exists gnutls' libgnutls28-dev
  if [ -n "${gpu_architectures:-}" ]; then need 'command -v c++' g++; fi # nvcc's host compiler
  [ -z "$missing" ] || install_packages "$missing"
}

# Installs these packages and those that every test stage needs.
install_for_tests() {
  install_for_program
  missing=
  need 'command -v c++' g++
  need 'pkg-config --exists cmocka' libcmocka-dev
  need 'pkg-config --exists ompi-c && command -v mpirun' libopenmpi-dev openmpi-bin
  [ -z "$missing" ] || install_packages "$missing"
}

# install_packages NAMES: installs with apt; needs root or sudo. Lists of packages are fetched only if the present ones
# do not suffice, with short timeouts for a network that does not answer.
install_packages() {
  as_root=
  [ "$(id -u)" -eq 0 ] || as_root=sudo
  if ! command -v apt-get >/dev/null || { [ -n "$as_root" ] && ! command -v sudo >/dev/null; }; then
    echo "Please install these packages (Debian's names):$1" >&2
    return 1
  fi
  echo "Installing with apt:$1" >&2
  # shellcheck disable=SC2086 # words on purpose
  apt_install $1 >/dev/null 2>&1 || { apt_get update && apt_install $1; } >&2
}

apt_get() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::http::Timeout=20 "$@"; }
apt_install() { apt_get install -y --no-install-recommends "$@"; }

# Installs optional programs for tests, which are skipped without them: a browser, nginx, HAProxy, promtool, shellcheck,
# clang-format and clang-tidy; and the modules that the tests need in Debian's Python.
install_test_programs() {
  missing=
  need 'command -v chromium-headless-shell || command -v chromium || command -v google-chrome' chromium-headless-shell
  need 'command -v nginx || test -x /usr/sbin/nginx' nginx-light
  need 'command -v haproxy || test -x /usr/sbin/haproxy' haproxy
  need 'command -v promtool' prometheus
  need 'command -v shellcheck' shellcheck
  need 'command -v clang-format' clang-format
  need 'command -v clang-tidy' clang-tidy
  need '/usr/bin/python3 -c "import jinja2"' python3-jinja2
  [ -z "$missing" ] || install_packages "$missing" || echo "Tests that need these are skipped:$missing"
}

# Installs the tools with which tests/clients/run.py makes its virtual environments.
install_venv() {
  missing=
  need 'python3 -c "import ensurepip"' python3-venv
  [ -z "$missing" ] || install_packages "$missing"
}

# Installs the grammar library in build/yoke-grammar, where the programs of build folders find it.
install_grammar_library() {
  python3 scripts/install_grammar.py build/yoke-grammar ||
    echo "Constrained output is not available: scripts/grammar_requirements.txt cannot be installed from PyPI"
}

# The compiler that CMakeLists.txt would find.
find_nvcc() {
  nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
  [ -x "$nvcc" ] || nvcc=$(command -v nvcc)
}

# nvcc of CUDA 12.5 or newer, which CMakeLists.txt requires.
nvcc_is_new_enough() {
  "$nvcc" --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' |
    { read -r major minor && { [ "$major" -gt 12 ] || { [ "$major" -eq 12 ] && [ "$minor" -ge 5 ]; }; }; }
}

# Compute capabilities of the visible GPUs, one per line: 9.0.
visible_gpus() {
  case ${CUDA_VISIBLE_DEVICES-all} in '' | -1) return 0 ;; esac
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -E '^[0-9]+\.[0-9]+$' | sort -u
}

# Sets gpu_architectures for this machine's GPUs in CMake's form (empty for CPU ranks alone), and gpu_note, which states
# them with the reason.
choose_gpus() {
  gpu_architectures='' capabilities=$(visible_gpus | paste -sd ' ' -) nvcc=''
  for capability in $capabilities; do
    case $capability in
    9.0) architecture=90a-real ;;
    8.*) architecture=80-real ;;
    [1-7].*) continue ;;
    *) architecture=80-virtual ;; # newer: the driver compiles PTX at the program's first start
    esac
    case ";$gpu_architectures;" in *";$architecture;"*) continue ;; esac
    gpu_architectures=${gpu_architectures:+$gpu_architectures;}$architecture
  done
  gpu_note="GPUs of compute capability $capabilities:"
  if [ -z "$capabilities" ]; then
    gpu_note="No GPU is visible (nvidia-smi): this build has CPU ranks only. Run it again where there is a GPU; for
every kind of GPU (needs nvcc): cmake --preset release && cmake --build --preset release"
  elif [ -z "$gpu_architectures" ]; then
    gpu_note="$gpu_note older than 8.0, so this build has CPU ranks only."
  elif ! find_nvcc; then
    gpu_note="$gpu_note no nvcc in \$CUDA_HOME/bin, /usr/local/cuda/bin or PATH, so this build has CPU ranks only.
For GPUs install the CUDA toolkit, 12.5 or newer, and run this again."
  elif ! nvcc_is_new_enough; then
    gpu_note="$gpu_note $nvcc is older than CUDA 12.5, so this build has CPU ranks only.
For GPUs install a newer CUDA toolkit and run this again."
  else
    gpu_note="$gpu_note this build is for them alone ($gpu_architectures)."
    case $gpu_architectures in *80-virtual*)
      gpu_note="$gpu_note
Those newer than 9.0 have no kernels of their own: the driver compiles them when the program first runs." ;;
    esac
    return 0
  fi
  gpu_architectures=
}

# configure PRESET [OPTIONS]: the folder build/PRESET.
configure() { scripts/progress.py ninja "Configuring build/$1" cmake --preset "$@"; }

# build PRESET [OPTIONS]: shows progress, and the whole output of failed steps.
build() { scripts/progress.py ninja "Building build/$1" cmake --build --preset "$@"; }
