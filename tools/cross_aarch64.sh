#!/usr/bin/env bash
# Builds hone for aarch64 on another machine and runs the unit tests and a part of pytest under emulation, from Debian's cross compiler, its arm64
# packages unpacked into a folder and the wheels for aarch64. The system's own packages stay as they are. usage: tools/cross_aarch64.sh [a cpu of qemu's]
set -euo pipefail
cd "$(dirname "$0")/.."
cpu=${1:-neoverse-n1}
place=$PWD/.cache/aarch64
build=build-aarch64
tools/setup.sh --cross

unpack_packages() { # what a build links to, with all it needs, from this machine's sources into a folder that no package manager knows
  mkdir -p "$place"/apt/{lists/partial,cache/archives/partial} "$place/sysroot"
  touch "$place/apt/status"
  cat > "$place/apt/apt.conf" << CONF
APT::Architecture "arm64"; APT::Architectures { "arm64"; }; APT::Install-Recommends "false"; APT::Sandbox::User "root";
Dir::State "$place/apt"; Dir::State::lists "$place/apt/lists"; Dir::State::status "$place/apt/status"; Dir::Cache "$place/apt/cache";
Debug::NoLocking "1";
CONF
  export APT_CONFIG=$place/apt/apt.conf
  apt-get update -q
  local own='^(ccache|clang-format|cmake|g\+\+|mold|ninja-build|pkg-config|python3-venv)$'  # run here, not there
  grep -vE "$own" tools/packages.txt | xargs apt-get install -y -q --download-only libc6-dev libstdc++-12-dev python3.11
  for package in "$place"/apt/cache/archives/*.deb; do dpkg -x "$package" "$place/sysroot"; done
  find "$place/sysroot" -type l -lname '/*' | while read -r link; do ln -sfnr "$place/sysroot$(readlink "$link")" "$link"; done
}

describe_processor() { # qemu shows programs this machine's, which libtorch does not expect; a file under the sysroot comes first
  local features="fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs"
  mkdir -p "$place/sysroot/proc"
  for core in 0 1; do
    printf 'processor\t: %d\nFeatures\t: %s\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n' $core "$features"
  done > "$place/sysroot/proc/cpuinfo"
}

unpack_wheels() { # torch's is made for CUDA, and its part for CPUs names two libraries of that
  local platforms=() torch
  torch=$(sed -n 's/^torch=//p' tools/setup.sh)
  for glibc in $(seq 17 28); do platforms+=(--platform "manylinux_2_${glibc}_aarch64"); done
  .venv/bin/pip download -q --no-deps --only-binary=:all: --python-version 3.11 "${platforms[@]}" --platform manylinux2014_aarch64 -d "$place/wheels" \
    "$torch" $(grep -E '^(numpy|pyarrow)==' tools/requirements.txt) nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
  for wheel in "$place"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$place/site"; done
}

emulated_programs() { # under hone's names, for pytest, which runs as this machine's; programs that start others of ours cannot be emulated so
  mkdir -p "$build/emulated/bin"
  for name in hone swift llamafactory-cli lmf accelerate; do
    printf '#!/bin/sh\nexec qemu-aarch64-static -cpu %s -L %s -0 "$0" %s "$@"\n' "$cpu" "$place/sysroot" "$PWD/$build/bin/hone" > "$build/emulated/bin/$name"
    chmod +x "$build/emulated/bin/$name"
  done
}

if [ ! -e "$place/ready" ]; then
  rm -rf "$place"
  (unpack_packages)
  describe_processor
  unpack_wheels
  printf '#!/bin/sh\nexport PYTHONPATH=%s\nexec qemu-aarch64-static -L %s %s "$@"\n' "$place/site" "$place/sysroot" "$place/sysroot/usr/bin/python3.11" > "$place/python"
  chmod +x "$place/python"
  touch "$place/ready"
fi
cmake -G Ninja -B "$build" -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DHONE_CROSS_PLACE="$place" -DHONE_CROSS_CPU="$cpu" > "$build.log" || { cat "$build.log"; exit 1; }
ninja -C "$build" -j "${JOBS:-$(nproc)}"
ctest --test-dir "$build" -j "${JOBS:-$(nproc)}" --output-on-failure
emulated_programs
# Arguments, files and texts, tokens, logits and gradients, and the curves of training: what differs between processors if anything does.
HONE_BIN=$PWD/$build/emulated/bin/hone .venv/bin/python -m pytest -q -n "${JOBS:-$(nproc)}" --dist worksteal \
  tests/cli/test_arguments.py tests/cli/test_errors.py tests/tokenizer tests/text tests/model tests/train/test_loss_curves.py
