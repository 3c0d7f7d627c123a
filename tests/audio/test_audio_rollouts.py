"""Reinforcement learning with audio: trainer and engine use the same audio, and a run interrupted inside a rollout resumes exactly."""
import sys

import pytest

import audio_files
from media_runs import write_rows
from omni_models import ROOT, write_omni_model

sys.path.insert(0, str(ROOT / "tests" / "train"))
from train_testing import rlhf_runner  # noqa: E402

BASE = dict(max_completion_length=8, per_device_train_batch_size=4, gradient_accumulation_steps=1, learning_rate="2e-3", torch_dtype="float32", max_steps=4, logging_steps=1,
            save_strategy="steps", save_steps=1, seed=7, add_version="false", split_dataset_ratio=0, lora_dropout=0, template="qwen2_5_omni", rlhf_type="grpo",
            reward_funcs="soft_overlong", soft_cache_length=7, num_generations=2, steps_per_generation=2, log_rollout_offpolicy_metrics="true")


def test_grpo_hears_what_the_engine_heard(tmp_path):
    (tmp_path / "model").mkdir()
    model, sound = write_omni_model(tmp_path / "model", "qwen2_5_omni"), audio_files.write(tmp_path / "a.wav", audio_files.chirp(0.6, 16000), 16000)
    rows = [{"messages": [{"role": "user", "content": text}], "audios": [str(sound)] * text.count("<audio>")} for text in ("<audio>Tone?", "Hi", "<audio>or<audio>?", "Ho")]
    rlhf = rlhf_runner(BASE, model, write_rows(tmp_path / "rows.jsonl", rows))

    def steps_of(out, **settings):
        run = rlhf(tmp_path / out, **settings)
        assert run.code == 0, run.err
        return [event for event in run.log() if "grad_norm" in event]

    steps = steps_of("whole")
    for step in steps[::2]:  # those whose weights are the rollout's
        for end in ("min", "max"):
            assert step[f"sampling/importance_sampling_ratio/{end}"] == pytest.approx(1, abs=2e-4), step
    resumed = steps_of("resumed", resume_from_checkpoint=tmp_path / "whole" / "checkpoint-1")
    for one, other in zip(steps[1:], resumed[-3:], strict=True):
        assert all(one[key] == other[key] for key in ("loss", "grad_norm"))
