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
  [ -z "$missing" ] || install_packages "$missing"
}

# install_packages NAMES: with apt; needs root, or sudo. Little is waited for a network that does not answer.
install_packages() {
  as_root=
  [ "$(id -u)" -eq 0 ] || as_root=sudo
  if ! command -v apt-get >/dev/null || { [ -n "$as_root" ] && ! command -v sudo >/dev/null; }; then
    echo "Please install these packages (Debian's names):$1" >&2
    return 1
  fi
  echo "Installing with apt:$1"
  # shellcheck disable=SC2086 # words on purpose
  $as_root apt-get -qq -o Acquire::http::Timeout=20 update &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::http::Timeout=20 install -y \
      --no-install-recommends $1
}

# What only tests use, and what they are skipped without: a browser, nginx, promtool, and the public clients of
# tests/requirements.txt in build/test-venv, which YOKE_CLIENT_VENV then names, unless that names another.
install_test_clients() {
  missing=
  need 'python3 -c "import ensurepip"' python3-venv
  need 'command -v chromium-headless-shell || command -v chromium || command -v google-chrome' chromium-headless-shell
  need 'command -v nginx || test -x /usr/sbin/nginx' nginx-light
  need 'command -v promtool' prometheus
  [ -z "$missing" ] || install_packages "$missing" || echo "Tests that need these are skipped:$missing"
  [ -z "${YOKE_CLIENT_VENV:-}" ] || return 0
  venv=$PWD/build/test-venv
  if ! cmp -s tests/requirements.txt "$venv/installed.txt"; then
    echo "Installing tests/requirements.txt in build/test-venv"
    rm -rf "$venv"
    if ! { timeout 60 python3 -m venv "$venv" &&
      timeout 180 "$venv/bin/python" -m pip install -q --retries 1 --timeout 15 --only-binary :all: \
        --disable-pip-version-check -r tests/requirements.txt &&
      cp tests/requirements.txt "$venv/installed.txt"; }; then
      rm -rf "$venv"
      echo "Tests of public clients are skipped: tests/requirements.txt cannot be installed from PyPI"
      return 0
    fi
  fi
  YOKE_CLIENT_VENV=$venv
  export YOKE_CLIENT_VENV
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
