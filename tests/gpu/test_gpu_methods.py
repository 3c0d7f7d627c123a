"""Methods of `hone rlhf` on an NVIDIA GPU compared with the CPU: run by `make test-gpu`."""
import json
import math
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no NVIDIA GPU")
BASE = ["--model", ROOT / "models/nano", "--torch_dtype", "float32", "--lora_dropout", 0, "--add_version", "false", "--split_dataset_ratio", 0, "--save_strategy", "no",
        "--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 1, "--learning_rate", "1e-3", "--max_steps", 4, "--logging_steps", 1, "--report_to", "none"]
GREEDY = ["--dataset", ROOT / "data/prompts.jsonl", "--max_completion_length", 12, "--temperature", 0.01]
METHODS = {
    "kto": ["--dataset", ROOT / "data/feedback.jsonl"],
    "rm": ["--dataset", ROOT / "data/preferences.jsonl"],
    "gkd": ["--dataset", ROOT / "data/demo.jsonl", "--teacher_model", ROOT / "models/nano", "--lmbda", 0, "--sft_alpha", 1, "--gkd_logits_topk", 8, "--tuner_type", "full"],
    "ppo": [*GREEDY, "--reward_funcs", "soft_overlong", "--soft_cache_length", 10, "--num_ppo_epochs", 1, "--max_steps", 2],
}


def steps(hone, method, folder, device, *words):
    done = hone("rlhf", "--rlhf_type", method, *BASE, *METHODS[method], "--device", device, "--output_dir", folder, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in map(json.loads, (folder / "logging.jsonl").read_text().splitlines()) if "grad_norm" in line]


@pytest.mark.parametrize("method", METHODS)
def test_losses_follow_the_cpus(hone, tmp_path, method):
    expected, found = (steps(hone, method, tmp_path / device[:3], device) for device in ("cpu", "cuda:0"))
    names = ["loss", "reward"] if method == "ppo" else ["loss"]
    assert len(found) == len(expected) > 1
    for name in names:
        assert [line[name] for line in found] == pytest.approx([line[name] for line in expected], rel=2e-3, abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_bfloat16_runs(hone, tmp_path, method):
    expected, found = (steps(hone, method, tmp_path / dtype, "cuda:0", "--torch_dtype", dtype) for dtype in ("float32", "bfloat16"))
    assert found[0]["loss"] == pytest.approx(expected[0]["loss"], rel=0.1, abs=0.05)
    assert len(found) == len(expected) and all(math.isfinite(line["loss"]) and math.isfinite(line["grad_norm"]) for line in found)
