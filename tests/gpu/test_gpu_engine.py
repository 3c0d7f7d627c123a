"""Generation on an NVIDIA GPU compared with the CPU: run by `make test-gpu`."""
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no NVIDIA GPU")


def answers(hone, folder, device, *words, env=None, says=""):
    data, out = folder / "questions.jsonl", folder / "answers.jsonl"
    out.unlink(missing_ok=True)  # results are appended
    questions = [f"{'word ' * (i % 7)}question number {i}" for i in range(40)]
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n" for text in questions))
    done = hone("infer", "--model", ROOT / "models/nano", "--torch_dtype", "float32", "--val_dataset", data, "--result_path", out, "--infer_backend", "vllm",
                "--device", device, *words, env=env)
    assert done.returncode == 0 and says in done.stderr, done.stderr[-3000:]
    return [json.loads(line)["response"] for line in out.read_text().splitlines()]


# Answers end at their own ends, so that steps launched ahead hold rows that turn out to be over.
def test_greedy_answers_are_the_cpus(hone, tmp_path):
    words = ["--temperature", 0, "--max_new_tokens", 40]
    assert answers(hone, tmp_path, "cuda:0", *words) == answers(hone, tmp_path, "cpu", *words)


# One draw is a function of seed and position, whatever steps it was computed in.
def test_draws_do_not_depend_on_the_batch(hone, tmp_path):
    words = ["--temperature", 1, "--seed", 3, "--max_new_tokens", 24]
    assert answers(hone, tmp_path, "cuda:0", *words) == answers(hone, tmp_path, "cuda:0", *words, "--vllm_max_num_seqs", 3)


# LoRA is merged into the weights that generate, and stays out of those that train.
def test_grpo_generates_and_learns(hone, tmp_path):
    done = hone("rlhf", "--rlhf_type", "grpo", "--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--torch_dtype", "bfloat16", "--output_dir", tmp_path,
                "--add_version", "false", "--reward_funcs", "repetition", "--num_generations", 4, "--per_device_train_batch_size", 8, "--max_completion_length", 24, "--max_steps", 3,
                "--logging_steps", 1, "--beta", 0.04, "--report_to", "none")
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "logging.jsonl").read_text().splitlines()]
    gaps = [line["kl"] for line in lines if "kl" in line]
    assert len(gaps) == 3 and gaps[0] == pytest.approx(0, abs=1e-3)


def test_steps_that_cannot_be_captured_are_launched(hone, tmp_path):
    words = ["--temperature", 0, "--max_new_tokens", 24]
    expected = answers(hone, tmp_path, "cuda:0", *words)
    for capture in (1, 2):  # the first, and that of another batch size in the middle of a run
        assert answers(hone, tmp_path, "cuda:0", *words, env={"HONE_FAULT": f"engine.capture:throw:{capture}"}, says="cannot be captured as a CUDA graph") == expected


def test_an_adapter_answers_with_its_quantized_base(hone, tmp_path):
    """What QLoRA trained, decoded in captured steps: the weights are dequantized in them."""
    done = hone("sft", "--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--quant_method", "bnb", "--quant_bits", 4, "--bnb_4bit_use_double_quant", "true", "--max_steps", 4,
                "--save_steps", 4, "--torch_dtype", "float32", "--add_version", "false", "--report_to", "none", "--output_dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr[-3000:]
    words = ["--adapters", tmp_path / "run/checkpoint-4", "--temperature", 0, "--max_new_tokens", 24]
    assert answers(hone, tmp_path, "cuda:0", *words, env={"LOG_LEVEL": "debug"}, says="captured a decode step") == answers(hone, tmp_path, "cpu", *words)
