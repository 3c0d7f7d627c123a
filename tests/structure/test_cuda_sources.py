"""CUDA sources compile on machines without a GPU: kernels by nvcc to machine code, in the batches of a build, C++ files by the compiler's front end. Set-up installs
nvcc and CUDA's headers into .venv/cuda. libtorch's own CUDA headers are in every torch wheel, except for one of settings, which only wheels made for CUDA have."""
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLKIT = ROOT / ".venv/cuda/nvidia/cu13"
sys.path.insert(0, str(ROOT / "cmake"))
import cuda_batches  # noqa: E402

BATCHES = [batch for folder in ("cuda", "hopper") for batch in cuda_batches.batches_of(ROOT.glob(f"src/hone/**/with_{folder}/*.cu"))]
HOSTS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("src/hone/**/with_cuda/*.cpp"))


@pytest.fixture(scope="session")
def includes(tmp_path_factory):
    import torch

    wheel = Path(torch.__file__).parent / "include"
    settings = tmp_path_factory.mktemp("include") / "c10/cuda/impl/cuda_cmake_macros.h"
    settings.parent.mkdir(parents=True)
    settings.touch()
    folders = [ROOT / "build/first", wheel, wheel / "torch/csrc/api/include", settings.parents[3], TOOLKIT / "include"]
    return ["-I", str(ROOT / "src"), *(word for folder in folders for word in ("-isystem", str(folder)))]


def run_compiler(*words):
    done = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: "+".join(path.stem for path in batch))
def test_kernels_compile(includes, tmp_path, batch):
    # Hopper's own instructions exist in no other architecture's code. Machine code that never runs needs no optimization, which would take half the time.
    target = "90a" if batch[0].parent.name == "with_hopper" else "80"
    source = cuda_batches.write_batch(ROOT / "src", tmp_path / "kernels.cu", batch)
    run_compiler(TOOLKIT / "bin/nvcc", "-cubin", "-std=c++20", "-Xcicc", "-O1", "-Xptxas", "-O1", "--expt-relaxed-constexpr", f"-gencode=arch=compute_{target},code=sm_{target}", *includes, source, "-o", tmp_path / "kernels.cubin")


@pytest.mark.parametrize("source", HOSTS)
def test_files_that_use_cuda_compile(includes, source):
    run_compiler("g++", "-fsyntax-only", "-std=c++20", "-DUSE_DISTRIBUTED", "-DFMT_SHARED", "-DSPDLOG_FMT_EXTERNAL", *includes, source)
