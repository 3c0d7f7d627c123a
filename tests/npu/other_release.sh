#!/usr/bin/env bash
# Operators through another release of torch and torch_npu, on the emulator built for it: an environment and a build
# folder of their own, beside those of the project. usage: tests/npu/other_release.sh 2.7.1
set -euo pipefail
cd "$(dirname "$0")/../.."
release=${1:?a release of torch, such as 2.7.1}
place=.cache/npu-$release
build=build-npu-$release
here=tests/npu/other_release
export TORCH_DEVICE_BACKEND_AUTOLOAD=0  # what imports torch while there is no CANN must not get torch_npu with it

if [ ! -e "$place/ready" ]; then
  python3 -m venv "$place"
  # By hand, for pip would bring what torch asks for: on x86_64 some releases are there for CUDA alone, with gigabytes of NVIDIA's libraries.
  "$place/bin/pip" install -q --no-deps "torch==$release" "torch_npu==$release"
  "$place/bin/pip" install -q filelock typing_extensions sympy networkx jinja2 fsspec pyyaml "numpy<2" pytest
  python3 $here/without_cuda.py "$place"/lib/python3*/site-packages/torch/lib
  touch "$place/ready"
fi
cmake --preset release -B "$build" -DHONE_PYTHON="$PWD/$place/bin/python" -DHONE_TORCH_CUDA=OFF -DHONE_TESTS=OFF -DHONE_ARROW=OFF > "$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
ninja -C "$build" cann_emulator

export LD_LIBRARY_PATH="$PWD/$build/lib/cann${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export ASCEND_HOME_PATH="$PWD/$build/lib/cann/home" ASCEND_OPP_PATH="$PWD/$build/lib/cann/home/opp"
unset TORCH_DEVICE_BACKEND_AUTOLOAD
"$place/bin/python" tests/npu/run_operators.py
