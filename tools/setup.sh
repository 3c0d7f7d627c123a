#!/usr/bin/env bash
# Installs what a build (and, with --tests, the test suite) needs: Debian packages by name and a .venv with libtorch.
# Does nothing when the lists have not changed since it last succeeded.
set -euo pipefail
cd "$(dirname "$0")/.."
torch=torch==2.13.0
tests=false
[ "${1:-}" = --tests ] && tests=true

stamp_of() { cat "$@" | sha256sum | cut -c1-16; }
done_with() { [ -e ".setup/$1" ]; }
mark_done() { mkdir -p .setup && touch ".setup/$1"; }

install_packages() { # the names of a file, one a line
  local missing=()
  while read -r package; do
    [ -z "$package" ] && continue
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done < "$1"
  [ ${#missing[@]} -eq 0 ] && return
  # A cmake or compiler from elsewhere on the PATH serves as well as Debian's.
  command -v cmake >/dev/null && missing=("${missing[@]/#cmake/}")
  command -v g++ >/dev/null && missing=("${missing[@]/#g++/}")
  local wanted=()
  for package in "${missing[@]}"; do [ -n "$package" ] && wanted+=("$package"); done
  [ ${#wanted[@]} -eq 0 ] && return
  local root=""
  [ "$(id -u)" -eq 0 ] || root=sudo
  echo "installing ${wanted[*]}"
  $root apt-get update -q
  DEBIAN_FRONTEND=noninteractive $root apt-get install -y -q --no-install-recommends "${wanted[@]}"
}

packages_of() {
  local packages_stamp=packages-$(stamp_of "$1")
  if ! done_with "$packages_stamp"; then
    install_packages "$1"
    mark_done "$packages_stamp"
  fi
}

packages_of tools/packages.txt
venv_stamp=venv-$(echo "$torch" | stamp_of)
if ! done_with "$venv_stamp" || [ ! -x .venv/bin/python ]; then
  python3 -m venv .venv
  .venv/bin/pip install -q --disable-pip-version-check "$torch" numpy pyarrow
  mark_done "$venv_stamp"
fi

if $tests; then
  packages_of tools/test-packages.txt  # what tests drive: Slurm, network namespaces, a browser
  tests_stamp=tests-$(stamp_of tools/requirements.txt)
  if ! done_with "$tests_stamp"; then
    .venv/bin/pip install -q --disable-pip-version-check "$torch" -r tools/requirements.txt
    mark_done "$tests_stamp"
  fi
  # Beside the other packages, not among them: torch imports every backend it finds, and this one needs an (emulated) CANN.
  npu_stamp=npu-$(stamp_of tools/npu-requirements.txt)
  if ! done_with "$npu_stamp" || [ ! -d .venv/npu/torch_npu ]; then
    rm -rf .venv/npu
    .venv/bin/pip install -q --disable-pip-version-check --no-deps --target .venv/npu -r tools/npu-requirements.txt
    mark_done "$npu_stamp"
  fi
fi
