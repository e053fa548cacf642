# shellcheck shell=sh
# Shared by scripts that run a package's GPU tests. Source it in the root of the package or repository. Sets bin and
# YOKE_TESTS_DIR, and LD_LIBRARY_PATH if the system's loader does not find CUDA's libraries.

bin=${YOKE_BUILD:-.}/bin
export YOKE_TESTS_DIR="$PWD/tests"

# Folders that may hold libcublas and libnccl if the system's loader does not find them.
cuda_folders() {
  for folder in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib; do
    if [ -d "$folder" ]; then echo "$folder"; fi
  done
  python3 - <<'PYTHON' 2>/dev/null || true
import glob, site, sys
for root in {*sys.path, *site.getsitepackages()}:
    print(*glob.glob(f"{root}/nvidia/*/lib"), sep="\n")
PYTHON
}

# The libraries that the program needs to start, and those that it loads for GPUs: libcublas.so.13, libnccl.so.2.
finds_libraries() {
  # shellcheck disable=SC2046 # a word for each library
  ! ldd "$bin/yoke" | grep 'not found' &&
    python3 -c 'import ctypes, sys; [ctypes.CDLL(name) for name in sys.argv[1:]]' \
      $(grep -ahoE 'lib(cublas|nccl)\.so\.[0-9]+' "$bin/yoke" "$bin"/../lib/libyoke_gpu.so.* | sort -u)
}

if ! finds_libraries >/dev/null 2>&1; then
  LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$(cuda_folders | grep . | paste -sd: -)
  export LD_LIBRARY_PATH
fi
if ! finds_libraries; then
  echo "libraries are missing: set LD_LIBRARY_PATH to where CUDA and NCCL are" >&2
  exit 1
fi

# NAME [PATTERN...]: whether the name contains a pattern, or there are no patterns.
is_wanted() {
  name=$1
  shift
  [ $# -gt 0 ] || return 0
  for pattern; do
    case $name in *"$pattern"*) return 0 ;; esac
  done
  return 1
}
