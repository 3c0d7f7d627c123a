"""Error messages if a card, a link, a version or a permission is wrong."""
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SFT = ["sft", "--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--max_steps", 2, "--split_dataset_ratio", 0]


def run(npu, tmp_path, env, *words):
    return npu("swift", *SFT, *words, "--output_dir", tmp_path, env=env)


def test_kernel_error(npu, tmp_path):
    done = run(npu, tmp_path, {"HONE_EMULATED_FAULT": "kernel@60"})
    assert done.returncode == 1 and "507015" in done.stderr and "ASCEND_LAUNCH_BLOCKING=1" in done.stderr, done.stderr[-2000:]


def test_lost_card(npu, tmp_path):
    done = run(npu, tmp_path, {"HONE_EMULATED_FAULT": "lost@60"})
    assert done.returncode == 1 and "507010" in done.stderr and "checkpoint" in done.stderr, done.stderr[-2000:]


def test_out_of_memory(npu, tmp_path, figure):
    done = run(npu, tmp_path, {"HONE_EMULATED_HBM": 24})
    assert done.returncode == 5 and "ran out of memory" in done.stderr and "gradient_checkpointing" in done.stderr, done.stderr[-2000:]
    figure("a card of 24 MiB: exit code 5, what to change is named")


def test_collective_timeout_names_the_cause(npu, tmp_path):
    done = run(npu, tmp_path, {"HONE_EMULATED_FAULT": "hccl@2/1", "NPROC_PER_NODE": 2, "HCCL_EXEC_TIMEOUT": 5})
    assert done.returncode == 7 and "EI0002" in done.stderr, done.stderr[-3000:]


@pytest.mark.parametrize("visible", ["1,0", "0,99"])
def test_visible_devices(npu, tmp_path, visible):
    done = run(npu, tmp_path, {"ASCEND_RT_VISIBLE_DEVICES": visible})
    assert done.returncode == 2 and "ascending" in done.stderr and visible in done.stderr, done.stderr[-2000:]


def test_a_list_that_cann_would_read_in_part(npu, tmp_path):
    done = run(npu, tmp_path, {"ASCEND_RT_VISIBLE_DEVICES": "0-3"})
    assert done.returncode == 2 and 'no further than "0"' in done.stderr, done.stderr[-2000:]


def test_more_processes_than_cards(npu, tmp_path):
    done = run(npu, tmp_path, {"NPROC_PER_NODE": 3, "HONE_EMULATED_NPUS": 2})
    assert done.returncode == 2 and "process 2 of this machine has no device of its own" in done.stderr and "NPROC_PER_NODE=2" in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("variable, value, expected", [("NPUS", "0", "1 to 32 cards"), ("SOC", "910X", "910B3"), ("HBM", "-5", "MiB"),
                                                       ("FAULT", "kernal@5", "kernel@120")])
def test_machines_that_cannot_be_emulated(emulated, variable, value, expected):
    done = emulated(["true"], env={f"HONE_EMULATED_{variable}": value})
    assert done.returncode == 2 and f'HONE_EMULATED_{variable} is "{value}"' in done.stderr and expected in done.stderr, done.stderr


def test_absent_card(npu, tmp_path):
    done = run(npu, tmp_path, {"HONE_EMULATED_NPUS": 2}, "--device", "npu:5")
    assert done.returncode == 2 and "npu:0 … npu:1" in done.stderr, done.stderr[-2000:]


def test_another_kind_of_device_is_refused_by_naming_the_cards(npu):
    done = npu("hone", "infer", "--model", ROOT / "models/nano", "--device", "cuda:0", "--val_dataset", ROOT / "data/demo.jsonl#1")
    assert done.returncode == 2 and "found: cpu, npu" in done.stderr and "libtorch built" not in done.stderr, done.stderr


def test_missing_library(hone, tmp_path):
    done = hone(*SFT, "--device", "npu:0", "--output_dir", tmp_path)
    assert done.returncode == 2 and "libascendcl.so" in done.stderr and "emulate-npu" in done.stderr, done.stderr[-2000:]


def test_torch_npu_of_another_release(npu, tmp_path):
    package = tmp_path / "torch_npu"
    (package / "lib").mkdir(parents=True)
    (package / "lib/libtorch_npu.so").touch()
    (package / "version.py").write_text("__version__ = '2.7.1.post4'\n")
    done = run(npu, tmp_path / "out", {"HONE_TORCH_NPU": tmp_path}, "--device", "npu:0")
    assert done.returncode == 2 and "torch_npu 2.7.1.post4 does not fit libtorch" in done.stderr and "pip install torch_npu==" in done.stderr


def test_first_generation_holds_weights_in_float16(npu, tmp_path):
    done = run(npu, tmp_path, {"HONE_EMULATED_SOC": "910A"})
    assert done.returncode == 0 and "npu:0 (Ascend910A) has no bfloat16: weights are float16" in done.stderr, done.stderr[-2000:]


def test_first_generation_has_no_bfloat16(npu_python):
    done = npu_python("-c", "import torch, torch_npu; print((torch.ones(2, dtype=torch.bfloat16, device='npu') + 1).cpu())",
                      env={"HONE_EMULATED_SOC": "310P3"})
    assert done.returncode != 0 and ("BFLOAT16" in done.stderr.upper())


def test_sigterm_saves_and_shows_how_to_resume(hone, tmp_path):
    words = [hone.path, "emulate-npu", hone.path.parent / "swift", *SFT, "--max_steps", 2000, "--gradient_accumulation_steps", 1, "--logging_steps", 1,
             "--add_version", "false", "--output_dir", tmp_path]
    run = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "logging.jsonl"
    while run.poll() is None and not (log.exists() and "loss" in log.read_text()):
        time.sleep(0.1)
    run.send_signal(signal.SIGTERM)
    output = run.communicate(timeout=300)[1]
    assert run.returncode == 75 and list(tmp_path.glob("checkpoint-*")), output[-2000:]
