#!/usr/bin/env bash
# hone with another release of torch and torch_npu, in a separate environment and build folder: the emulator's operators, the program compared with
# the one of `make build`, the tests of other_release/tests.txt, and the Python package. A step that fails does not stop the later ones; a run that
# was interrupted continues when it is started again: what is installed and compiled stays.
# usage: tests/npu/other_release.sh 2.7.1 [steps, of: operators compare tests package]
set -euo pipefail
cd "$(dirname "$0")/../.."
release=${1:?a release of torch, such as 2.7.1}
shift
steps=("$@")
[ $# -gt 0 ] || steps=(operators compare tests package)
place=.cache/torch-$release
build=build-torch-$release
here=tests/npu/other_release
export TORCH_DEVICE_BACKEND_AUTOLOAD=0  # what imports torch while there is no CANN must not get torch_npu with it
for step in "${steps[@]}"; do
  [[ " operators compare tests package " == *" $step "* ]] || { echo "$step is not a step; expected operators, compare, tests or package" >&2; exit 2; }
done

if [ ! -e "$place/ready" ]; then
  free=$(df --output=avail -BG . | tail -1 | tr -dc 0-9)
  [ "$free" -ge 8 ] || { echo "$free GB are free here; torch $release, torch_npu and the build need 8: make room first" >&2; exit 1; }
  rm -rf "$place"  # what an interrupted installation left
  python3 -m venv "$place"
  # By hand, for pip would bring what torch asks for: on x86_64 some releases are there for CUDA alone, with gigabytes of NVIDIA's libraries.
  "$place/bin/pip" install -q --no-deps "torch==$release" "torch_npu==$release"
  # numpy 1, as CANN's own Python packages ask for.
  "$place/bin/pip" install -q filelock typing_extensions sympy networkx jinja2 fsspec pyyaml setuptools "numpy<2" pyarrow pytest pytest-timeout
  python3 $here/without_cuda.py "$place"/lib/python3*/site-packages/torch/lib
  touch "$place/ready"
fi
cmake --preset release -B "$build" -DHONE_PYTHON="$PWD/$place/bin/python" -DHONE_TORCH_CUDA=OFF -DHONE_TESTS=OFF > "$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
ninja -C "$build" -j "${JOBS:-$(nproc)}" hone_main cann_emulator

operators() (
  export LD_LIBRARY_PATH="$PWD/$build/lib/cann${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export ASCEND_HOME_PATH="$PWD/$build/lib/cann/home" ASCEND_OPP_PATH="$PWD/$build/lib/cann/home/opp"
  unset TORCH_DEVICE_BACKEND_AUTOLOAD
  "$place/bin/python" tests/npu/run_operators.py
)

compare() { python3 $here/compare.py build/bin/hone "$build/bin/hone"; }

tests() {
  local files
  mapfile -t files < <(grep -v '^#' $here/tests.txt)
  if compgen -G "$place/lib/python3*/site-packages/torch/lib/libtorch_cuda.so" > /dev/null; then
    echo "torch $release of this package index is a CUDA build, with which hone refuses NPUs: tests on emulated cards are left out"
    mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -v '^tests/npu/')
  fi
  HONE_BIN="$PWD/$build/bin/hone" .venv/bin/python -m pytest -q -n "${WORKERS:-2}" --dist worksteal "${files[@]}"
}

package() { HONE_BIN="$PWD/$build/bin/hone" "$place/bin/python" -m pytest -q tests/python/test_python_package.py; }

failed=()
for step in "${steps[@]}"; do
  echo "== torch $release: $step"
  "$step" || failed+=("$step")
done
[ ${#failed[@]} -eq 0 ] || { echo "torch $release: ${failed[*]} failed; $0 $release ${failed[*]} runs only these again" >&2; exit 1; }
echo "torch $release: ${steps[*]} passed"
