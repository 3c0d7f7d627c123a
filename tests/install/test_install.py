"""An installed hone: it starts after its prefix was moved with its libtorch, and programs build against its CMake package."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))


def run(*words, **settings):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, **settings)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def libraries_of(program):
    """What the loader takes for each library that a program needs."""
    return dict(line.split(" => ") for line in (entry.strip().split(" (")[0] for entry in run("ldd", program).splitlines()) if " => " in line)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation with its libtorch, moved to another place."""
    first = tmp_path_factory.mktemp("install") / "first"
    for component in ([], ["--component", "libtorch"]):
        run("cmake", "--install", BINARY.parents[1], "--prefix", first, *component)
    moved = tmp_path_factory.mktemp("moved") / "hone"
    first.rename(moved)
    yield moved
    shutil.rmtree(moved)


def test_moved_prefix_starts_with_its_own_libtorch(prefix):
    for name in ("hone", "swift", "megatron", "llamafactory-cli", "lmf", "accelerate"):
        assert (prefix / "bin" / name).exists(), name
    assert "hone" in run(prefix / "bin/hone", "version")
    libraries = libraries_of(prefix / "bin/hone")
    for library in ("libtorch_cpu.so", "libc10.so"):
        assert libraries[library].startswith(f"{prefix}/"), libraries[library]


def test_moved_build_folder_starts_with_the_libtorch_beside_it(tmp_path):
    site = next(path for path in (ROOT / ".venv/lib").glob("python3*/site-packages/torch/lib"))
    moved = tmp_path / "build/bin/hone"
    moved.parent.mkdir(parents=True)
    shutil.copy2(BINARY, moved)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    assert "hone" in run(moved, "version")
    assert libraries_of(moved)["libtorch_cpu.so"] == f"{moved.parent}/../../{site.relative_to(ROOT)}/libtorch_cpu.so"


def test_a_program_builds_against_the_package_trains_and_generates(prefix, tmp_path):
    build = tmp_path / "build"
    run("cmake", "-G", "Ninja", "-S", ROOT / "cookbook/cpp", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    output = run(build / "teach", ROOT / "models/nano", ROOT / "data/demo.jsonl", tmp_path / "output", "Who trained you?")
    assert output.splitlines()[-1] == "You trained me, with hone."
    assert (tmp_path / "output/last/adapter_model.safetensors").exists()
    losses = {}
    for gamma in (0, 2):
        output = run(build / "loop", ROOT / "models/nano", ROOT / "data/demo.jsonl", tmp_path / f"focal-{gamma}", gamma)
        losses[gamma] = [float(line.split()[-1]) for line in output.splitlines() if line.startswith("step ")]
        assert len(losses[gamma]) == 20 and losses[gamma][-1] < losses[gamma][0] / 3, losses
    assert losses[2][0] < losses[0][0]  # tokens that are known count less
    settings = "--lora_rank 16 --lora_alpha 32 --learning_rate 2e-3 --per_device_train_batch_size 8 --gradient_accumulation_steps 1 --num_train_epochs 5".split()
    run(prefix / "bin/hone", "sft", "--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", *settings, "--warmup_ratio", 0, "--max_steps", 1,
        "--split_dataset_ratio", 0, "--logging_steps", 1, "--output_dir", tmp_path / "sft", "--add_version", "false")
    first = json.loads((tmp_path / "sft/logging.jsonl").read_text().splitlines()[0])
    assert abs(first["loss"] - losses[0][0]) < 1e-5, (first, losses[0][0])
    assert "trained me" in run(prefix / "bin/hone", "infer", "--model", ROOT / "models/nano", "--adapters", tmp_path / "focal-2", "--temperature", 0,
                               "--max_new_tokens", 40, input="Who trained you?\n")


def test_another_version_of_libtorch_is_refused(prefix, tmp_path):
    header = tmp_path / "libtorch/include/torch/csrc/api/include/torch/version.h"
    header.parent.mkdir(parents=True)
    header.write_text('#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION_MINOR 13\n')
    (tmp_path / "libtorch/include/ATen").mkdir()
    (tmp_path / "libtorch/include/ATen/ATen.h").touch()
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT / "cookbook/cpp", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
                           f"-DHONE_TORCH={tmp_path / 'libtorch'}"], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "is 1.13" in done.stderr and "HONE_TORCH" in done.stderr
