"""Training on an NVIDIA GPU: `make test-gpu` runs this where there is one. Small models, so that one run takes seconds."""
import json
import os
from pathlib import Path

import pytest
from tiny_models import tiny_model

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no NVIDIA GPU")
BASE = ["--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--add_version", "false", "--logging_steps", 1, "--per_device_train_batch_size", 4,
        "--gradient_accumulation_steps", 2, "--learning_rate", "1e-3", "--max_length", 256, "--report_to", "none", "--lora_rank", 8]


def run(hone, out, *words, deterministic=True, env={}, says=""):
    words = [*BASE, "--output_dir", out, *words] + (["--full_determinism", "true"] if deterministic else [])
    done = hone("sft", *words, env={"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "LOG_LEVEL": "debug", **env})
    assert done.returncode == 0, done.stderr[-3000:]
    assert "cannot be captured" not in done.stderr and says in done.stderr, done.stderr[-3000:]
    lines = [json.loads(line) for line in (out / "logging.jsonl").read_text().splitlines()]
    return [(line["loss"], line["grad_norm"]) for line in lines if "grad_norm" in line]


def weights(out, step):
    return [path.read_bytes() for path in sorted((out / f"checkpoint-{step}").glob("*model*.safetensors"))]


@pytest.mark.parametrize("options", [["--gradient_checkpointing", "false"], ["--gradient_checkpointing", "true"], ["--gradient_checkpointing", "false", "--lora_dropout", "0.1"],
                                     ["--gradient_checkpointing", "false", "--tuner_type", "full", "--learning_rate", "1e-4"]])
def test_replayed_passes_equal_launched_ones(hone, tmp_path, options):
    packed = ["--packing", "true", "--max_steps", 12, "--torch_dtype", "bfloat16", "--save_steps", 12, "--lora_dropout", "0", *options]
    found = run(hone, tmp_path / "graphs", *packed)
    expected = run(hone, tmp_path / "plain", *packed, "--training_graphs", "false")
    assert found == expected
    assert weights(tmp_path / "graphs", 12) and weights(tmp_path / "graphs", 12) == weights(tmp_path / "plain", 12)


# The kernel of the loss takes vocabularies that 8 divides, and heads without an adapter; passes of other heads are captured, too.
@pytest.mark.parametrize("vocabulary, tuner", [(301, ["--tuner_type", "full", "--learning_rate", "1e-4"]), (304, ["--target_modules", "q_proj", "lm_head"])], ids=["odd", "adapted head"])
def test_every_head_is_replayed(hone, tmp_path, vocabulary, tuner):
    tiny_model(tmp_path / "model", vocab_size=vocabulary, tie_word_embeddings=False)
    row = (ROOT / "data/demo.jsonl").read_text().splitlines()[0]
    (tmp_path / "rows.jsonl").write_text(f"{row}\n" * 32)  # batches of one shape
    settings = ["--model", tmp_path / "model", "--dataset", tmp_path / "rows.jsonl", "--max_steps", 8, "--torch_dtype", "float32", "--save_strategy", "no", "--lora_dropout", "0", *tuner]
    replayed = run(hone, tmp_path / "graphs", *settings, says="captured a pass")
    assert replayed == run(hone, tmp_path / "plain", *settings, "--training_graphs", "false")
    expected = run(hone, tmp_path / "cpu", *settings, "--use_cpu", "true")
    assert [loss for loss, _ in replayed] == pytest.approx([loss for loss, _ in expected], rel=1e-4)


@pytest.mark.parametrize("tuner", [["--tuner_type", "lora"], ["--tuner_type", "full", "--learning_rate", "1e-4"]])
def test_budget_changes_no_loss(hone, tmp_path, tuner):
    settings = ["--packing", "true", "--max_steps", 8, "--torch_dtype", "bfloat16", "--save_strategy", "no", "--lora_dropout", "0", *tuner]
    expected = run(hone, tmp_path / "kept", *settings, "--gradient_checkpointing", "false")
    found = run(hone, tmp_path / "budget", *settings, "--activation_memory_budget", "0.5")
    assert [loss for loss, _ in found] == pytest.approx([loss for loss, _ in expected], rel=1e-3)


def test_float8_follows_bfloat16(hone, tmp_path):
    settings = ["--packing", "true", "--max_steps", 40, "--torch_dtype", "bfloat16", "--save_strategy", "no", "--lora_dropout", "0", "--gradient_checkpointing", "false"]
    expected = run(hone, tmp_path / "bf16", *settings, deterministic=False)
    found = run(hone, tmp_path / "fp8", *settings, "--fp8", "true", deterministic=False)
    assert found != expected, "8 bits must show"
    assert [loss for loss, _ in found] == pytest.approx([loss for loss, _ in expected], rel=3e-2)


def test_resumed_run_equals_whole_one(hone, tmp_path):
    settings = ["--packing", "true", "--max_steps", 12, "--torch_dtype", "bfloat16", "--save_steps", 6, "--lora_dropout", "0.1", "--gradient_checkpointing", "false"]
    whole = run(hone, tmp_path / "whole", *settings)
    again = run(hone, tmp_path / "again", *settings, "--resume_from_checkpoint", tmp_path / "whole/checkpoint-6")
    assert again == whole[6:]
    assert weights(tmp_path / "again", 12) == weights(tmp_path / "whole", 12)


@pytest.mark.parametrize("tuner", [["--tuner_type", "lora", "--lora_dropout", "0"], ["--tuner_type", "full", "--learning_rate", "1e-4"]])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("bfloat16", 2e-2)])
def test_losses_follow_the_cpus(hone, tmp_path, tuner, dtype, tolerance):
    settings = ["--max_steps", 40, "--save_strategy", "no", "--gradient_checkpointing", "false", "--torch_dtype", dtype, *tuner]
    expected = run(hone, tmp_path / "cpu", *settings, "--use_cpu", "true", deterministic=False)
    found = run(hone, tmp_path / "gpu", *settings, deterministic=False)
    assert [loss for loss, _ in found] == pytest.approx([loss for loss, _ in expected], rel=tolerance)


def test_device_passes_over_updates_that_are_not_finite(hone, tmp_path):
    """The update is launched before the host has seen the norm. Where that is not finite, weights, moments and Adam's count stay."""
    settings = ["--packing", "true", "--max_steps", 8, "--torch_dtype", "bfloat16", "--save_steps", 8, "--lora_dropout", "0", "--gradient_checkpointing", "false",
                "--gradient_accumulation_steps", 1, "--non_finite", "skip"]
    spoiled = {"HONE_FAULT": "train.gradient:nan:3"}
    found = run(hone, tmp_path / "late", *settings, env=spoiled)
    expected = run(hone, tmp_path / "at once", *settings, "--loss_spike", "skip", env=spoiled)  # a policy that needs the loss before the update
    assert found == expected and len(found) == 7
    assert weights(tmp_path / "late", 8) == weights(tmp_path / "at once", 8)
    run(hone, tmp_path / "whole", *settings)
    assert weights(tmp_path / "late", 8) != weights(tmp_path / "whole", 8)
