# shellcheck shell=sh
# Sourced by run.sh and test.sh: installs what the build needs, and builds. Run from the root of the project.

# need CHECK PACKAGE...: remember the packages where the check fails.
missing=
need() {
  check=$1
  shift
  sh -c "$check" >/dev/null 2>&1 || missing="$missing $*"
}

# Installs with apt only what is missing; needs root, or sudo, only then.
install_missing() {
  missing=
  need 'command -v cmake' cmake
  need 'command -v ninja' ninja-build
  need 'command -v cc' gcc libc6-dev
  need 'command -v c++' g++
  need 'command -v python3' python3
  need 'python3 -c "import jinja2"' python3-jinja2
  need 'command -v pkg-config' pkg-config
  need 'pkg-config --exists jansson' libjansson-dev
  need 'pkg-config --exists libpcre2-8' libpcre2-dev
  need 'pkg-config --exists libutf8proc' libutf8proc-dev
  need 'pkg-config --exists libmicrohttpd' libmicrohttpd-dev
  need 'pkg-config --exists cmocka' libcmocka-dev
  [ -n "$missing" ] || return 0
  as_root=
  [ "$(id -u)" -eq 0 ] || as_root=sudo
  if ! command -v apt-get >/dev/null || { [ -n "$as_root" ] && ! command -v sudo >/dev/null; }; then
    echo "Please install these packages (Debian's names):$missing" >&2
    return 1
  fi
  echo "Installing with apt:$missing"
  # shellcheck disable=SC2086 # words on purpose
  $as_root apt-get -qq update &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing
}

# build PRESET [OPTIONS]: configure and build build/PRESET; says little unless something fails.
build() {
  preset=$1
  shift
  echo "Building build/$preset"
  log=$(mktemp)
  if cmake --preset "$preset" >"$log" 2>&1 && cmake --build --preset "$preset" "$@" >>"$log" 2>&1; then
    rm -f "$log"
  else
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
}
