#!/usr/bin/env bash
# Operators and collectives through another release of torch and torch_npu, on the emulator built for it: an environment and a build
# folder of their own, beside those of the project. usage: tests/npu/other_release.sh 2.7.1
set -euo pipefail
cd "$(dirname "$0")/../.."
release=${1:?a release of torch, such as 2.7.1}
place=.cache/npu-$release
build=build-npu-$release
# torch_npu refuses a torch that was built for another accelerator; on x86_64 the plain wheel of PyPI is.
index=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
if [ ! -x "$place/bin/python" ]; then
  python3 -m venv "$place"
  "$place/bin/pip" install -q "torch==$release" --extra-index-url "$index"
  "$place/bin/pip" install -q "torch_npu==$release" pyyaml "numpy<2" pytest
fi
cmake --preset release -B "$build" -DHONE_PYTHON="$PWD/$place/bin/python" -DHONE_TESTS=OFF -DHONE_ARROW=OFF > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
ninja -C "$build" cann_emulator
export LD_LIBRARY_PATH="$PWD/$build/lib/cann${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
"$place/bin/python" tests/npu/run_operators.py
