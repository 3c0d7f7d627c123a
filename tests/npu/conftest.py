"""Emulated Ascend cards under the published torch_npu: `npu(...)` runs hone on them, `npu_python(...)` a Python program."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from media_runs import ALL_PARTS, losses, write_rows

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))


def run_emulated(command, env=None, timeout=180, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HONE_EMULATED", "ASCEND", "NPROC", "WORLD_SIZE", "LOG_LEVEL"))}
    environment.update(NO_COLOR="1", **{k: str(v) for k, v in (env or {}).items()})
    return subprocess.run([str(BINARY), "emulate-npu", *map(str, command)], capture_output=True, text=True, env=environment, timeout=timeout, **more)


@pytest.fixture(scope="session", autouse=True)
def _torch_npu():
    if not (ROOT / ".venv/npu/torch_npu").is_dir():
        pytest.fail("torch_npu is not installed; make setup-tests")
    if list((ROOT / ".venv").glob("lib/python3*/site-packages/torch/lib/libtorch_cuda.so")):
        pytest.skip("torch_npu does not work with a torch made for CUDA, and .venv has one")
    if not (BINARY.parent.parent / "lib/cann/libascendcl.so").exists():
        pytest.fail("the emulated CANN is not built; ninja -C build cann_emulator")


@pytest.fixture(scope="session")
def emulated():
    return run_emulated


@pytest.fixture(scope="session")
def npu():
    return lambda program, *words, **more: run_emulated([BINARY.parent / program, *words], **more)


@pytest.fixture(scope="session")
def npu_python():
    return lambda *words, **more: run_emulated([sys.executable, "-W", "ignore", *words], **more)


@pytest.fixture
def train_all_parts(npu, swift, tmp_path):
    """Trains every part of tmp_path/model on rows, on the CPU and on an emulated card: the same losses, by the card's fused attention."""
    def train(rows):
        words = ["--model", tmp_path / "model", "--dataset", write_rows(tmp_path / "rows.jsonl", rows), *ALL_PARTS]
        for done in (swift("sft", *words, "--device", "cpu", "--output_dir", tmp_path / "cpu"),
                     npu("swift", "sft", *words, "--output_dir", tmp_path / "npu", env={"HONE_EMULATED_REPORT": tmp_path / "report"})):
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert len(losses(tmp_path / "cpu")) == 2
        assert losses(tmp_path / "npu") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)
        report = json.loads((tmp_path / "report").read_text().splitlines()[-1])
        assert report["operators"].get("aclnnFlashAttentionVarLenScore") and report["missing"] == {}, report

    return train
