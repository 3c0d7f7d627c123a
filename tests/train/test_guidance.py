"""GRPO signals besides rewards: teachers (OPD-RL, RLSD, SDAR), expert rows (CHORD), and a synchronized reference (TR-DPO)."""
import json
import math
import subprocess

import pytest

from train_testing import ENVIRONMENT, hone_binary, rlhf_runner, steps_of
from workers import free_port

BASE = dict(rlhf_type="grpo", max_completion_length=12, num_generations=4, per_device_train_batch_size=8, learning_rate="5e-3", torch_dtype="float32", max_steps=4, logging_steps=1, save_strategy="no", seed=7,
            add_version="false", split_dataset_ratio=0, max_length=256, beta=0, tuner_type="full", temperature=1.0)


@pytest.fixture
def grpo(model_folder, dataset):
    return rlhf_runner(BASE, model_folder, dataset)


@pytest.fixture(scope="module")
def teacher(model_folder, dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("taught") / "teacher"
    words = [hone_binary(), "sft", "--model", model_folder, "--dataset", dataset, "--tuner_type", "full", "--learning_rate", "1e-2", "--max_steps", "12", "--per_device_train_batch_size", "8", "--torch_dtype", "float32",
             "--output_dir", folder, "--add_version", "false", "--save_only_model", "true"]
    subprocess.run([str(word) for word in words], check=True, capture_output=True, env=ENVIRONMENT)
    return folder / "checkpoint-12"


def test_a_teacher_alone_is_learnt_from(grpo, teacher, tmp_path):
    """Without any reward the policy moves towards the teacher, by one completion a prompt; a server says of its tokens what the model says."""
    steps = steps_of(grpo(tmp_path / "alone", teacher_model=teacher, max_steps=20, per_device_train_batch_size=32, num_generations=1, learning_rate="2e-3"))
    assert steps[0]["reward"] == 0 and steps[0]["grad_norm"] > 0
    assert sum(step["teacher_kl"] for step in steps[-4:]) < 0.8 * sum(step["teacher_kl"] for step in steps[:4]), steps
    single = steps_of(grpo(tmp_path / "single", teacher_model=teacher, max_steps=2, num_generations=1))  # ms-swift's opd_rl.sh
    assert single[0]["reward"] == 0 and single[0]["grad_norm"] > 0 and single[0]["teacher_kl"] > 0, single
    for name, more in {"weighed": dict(advantage_reweight="rlsd"), "unused": dict(teacher_kl_coef=0)}.items():  # nothing would train
        weighed = grpo(tmp_path / name, teacher_model=teacher, num_generations=1, reward_funcs="repetition", **more)
        assert weighed.code == 2 and "need at least 2 completions per prompt" in weighed.err and "only weighs advantages" in weighed.err, weighed.err
    none = grpo(tmp_path / "none", num_generations=1, reward_funcs="repetition")
    assert none.code == 2 and "need at least 2 completions per prompt" in none.err and "name a teacher" in none.err, none.err
    port = free_port()
    server = subprocess.Popen([hone_binary(), "deploy", "--model", teacher, "--port", str(port), "--torch_dtype", "float32"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    try:
        both = json.dumps([{"url": f"http://127.0.0.1:{port}", "tags": ["dataset"]}, {"url": f"http://127.0.0.1:{port}/v1", "tags": ["x"]}])
        local = steps_of(grpo(tmp_path / "local", teacher_model=teacher, max_steps=2))
        served = steps_of(grpo(tmp_path / "served", teacher_model_server=f"http://127.0.0.1:{port}", max_steps=2))
        spread = steps_of(grpo(tmp_path / "spread", count=2, tensor_parallel_size=2, teacher_model_server=f"http://127.0.0.1:{port}", max_steps=2))  # two processes share the requests
        refused = grpo(tmp_path / "refused", teacher_model_server=both, max_steps=2)
    finally:
        server.terminate()
        server.communicate(timeout=60)
    for a, b in zip(local, served, strict=True):
        assert a["teacher_kl"] == pytest.approx(b["teacher_kl"], rel=1e-3) and a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3)
    for a, b in zip(served, spread, strict=True):
        assert a["teacher_kl"] == pytest.approx(b["teacher_kl"], rel=1e-4) and a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-4)
    assert refused.code != 0 and "no teacher has it" in refused.err, refused.err


def test_rows_make_the_policy_its_own_teacher(grpo, dataset, tmp_path):
    """A row's teacher_prompt is seen by the teacher alone. RLSD weighs advantages by what it says, SDAR distills it; a resumed run is the uninterrupted one."""
    rows = tmp_path / "rows.jsonl"
    lines = [json.loads(line) for line in dataset.read_text().splitlines()]
    rows.write_text("".join(json.dumps({**line, "teacher_prompt": "red red red one two"}) + "\n" for line in lines))
    plain = steps_of(grpo(tmp_path / "plain", reward_funcs="repetition"))
    assert "teacher_kl" not in plain[0]
    own = steps_of(grpo(tmp_path / "own", dataset=rows, reward_funcs="repetition"))
    assert own[0]["teacher_kl"] > 0 and own[0]["grad_norm"] != pytest.approx(plain[0]["grad_norm"], rel=1e-6)
    settings = dict(dataset=rows, reward_funcs="repetition", advantage_reweight="rlsd", rlsd_lambda=0.4, rlsd_lambda_warmup_steps=4, steps_per_generation=2, max_steps=4, save_strategy="steps", save_steps=3)
    whole, cut = grpo(tmp_path / "whole", **settings), grpo(tmp_path / "cut", fault="checkpoint.after_rename:kill", **settings)
    assert [step["rlsd_lambda"] for step in steps_of(whole) if "rlsd_lambda" in step] == pytest.approx([0, 0.2]) and cut.code != 0
    resumed = grpo(tmp_path / "cut", resume_from_checkpoint=tmp_path / "cut/checkpoint-3", **settings)
    assert steps_of(resumed)[-1]["grad_norm"] == steps_of(whole)[-1]["grad_norm"]
    sdar = steps_of(grpo(tmp_path / "sdar", dataset=rows, reward_funcs="repetition", sdar_loss_coef=0.1, sdar_gate_beta=2))
    assert {"sdar/gate_mean", "sdar/gate_active_ratio", "sdar/teacher_gap_mean", "sdar/loss"} <= set(sdar[0]) and 0 < sdar[0]["sdar/gate_mean"] < 1
    long = tmp_path / "long.jsonl"
    long.write_text("".join(json.dumps({**line, "teacher_prompt": "red " * (400 if i == 2 else 4)}) + "\n" for i, line in enumerate(lines)))
    counted = grpo(tmp_path / "long", dataset=long, reward_funcs="repetition", truncation_strategy="left", max_steps=1)
    assert steps_of(counted) and "skipped 1 of 64 rows" in counted.err and f"{long}:3: row too long: a teacher_prompt of" in counted.err, counted.err
    for settings, complaint in ((dict(advantage_reweight="rlsd"), "has neither teacher_prompt nor teacher_images"), (dict(dataset=rows, advantage_reweight="rlsd", sdar_loss_coef=0.1), "two uses of a teacher"), (dict(dataset=rows, sdar_loss_coef=0.1, loss_type="fipo"), "each token its own advantage")):
        run = grpo(tmp_path / "no", reward_funcs="repetition", **settings)
        assert run.code in (2, 3) and complaint in run.err, (settings, run.err)


def test_an_experts_rows_are_learnt_beside_completions(grpo, sft, dataset, model_folder, tmp_path):
    """With mu 1 all of the loss is that of the rows, which is SFT's on the same rows; mu follows its schedule; a cut run resumes exactly."""
    chord = dict(reward_funcs="repetition", chord_sft_dataset=dataset, chord_sft_per_device_train_batch_size=4, chord_mu_warmup_steps=0, chord_mu_decay_steps=0, chord_mu_peak=1, chord_mu_valley=1)
    rows = steps_of(grpo(tmp_path / "rows", **chord))
    words = [hone_binary(), "sft", "--model", model_folder, "--dataset", dataset, "--output_dir", tmp_path / "sft", "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "1"]
    for name in ("learning_rate", "torch_dtype", "max_steps", "logging_steps", "save_strategy", "seed", "add_version", "split_dataset_ratio", "max_length", "tuner_type"):
        words += [f"--{name}", BASE[name]]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    alone = [json.loads(line) for line in (tmp_path / "sft/logging.jsonl").read_text().splitlines()]
    alone = [event for event in alone if "grad_norm" in event]
    for a, b in zip(rows, alone, strict=True):
        assert a["chord/sft_loss"] == pytest.approx(b["loss"], rel=1e-4) and a["loss"] == pytest.approx(b["loss"], rel=1e-4) and a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3)
    schedule = {**chord, "chord_mu_warmup_steps": 2, "chord_mu_decay_steps": 4, "chord_mu_peak": 0.9, "chord_mu_valley": 0.1, "chord_enable_phi_function": "true", "max_steps": 6, "save_strategy": "steps", "save_steps": 4}
    whole, cut = grpo(tmp_path / "whole", **schedule), grpo(tmp_path / "cut", fault="checkpoint.after_rename:kill", **schedule)
    wanted = [0.45, *(0.1 + 0.8 * 0.5 * (1 + math.cos(math.pi * i / 4)) for i in range(4))]
    assert "chord/mu" not in steps_of(whole)[0] and [step["chord/mu"] for step in steps_of(whole)[1:]] == pytest.approx(wanted) and cut.code != 0
    resumed = grpo(tmp_path / "cut", resume_from_checkpoint=tmp_path / "cut/checkpoint-4", **schedule)
    assert [step["loss"] for step in steps_of(resumed)[-2:]] == [step["loss"] for step in steps_of(whole)[-2:]]
    run = grpo(tmp_path / "no", reward_funcs="repetition", chord_sft_dataset=dataset)
    assert run.code == 2 and "--chord_sft_per_device_train_batch_size is needed" in run.err, run.err


def test_a_reference_follows_the_model(grpo, tmp_path):
    """One that moves all of the way after each step is the model itself; where it goes is in the checkpoint."""
    settings = dict(reward_funcs="repetition", beta=0.5, num_iterations=2, max_steps=4)
    still = steps_of(grpo(tmp_path / "still", **settings))
    following = steps_of(grpo(tmp_path / "following", sync_ref_model="true", ref_model_sync_steps=1, ref_model_mixup_alpha=1, **settings))
    assert still[2]["kl"] > 1e-6 and following[2]["kl"] < 1e-3 * still[2]["kl"], (still, following)
    settings = dict(settings, sync_ref_model="true", ref_model_sync_steps=2, ref_model_mixup_alpha=0.6, save_strategy="steps", save_steps=2)
    whole, cut = grpo(tmp_path / "whole", **settings), grpo(tmp_path / "cut", fault="checkpoint.after_rename:kill", **settings)
    assert cut.code != 0
    resumed = grpo(tmp_path / "cut", resume_from_checkpoint=tmp_path / "cut/checkpoint-2", **settings)
    assert [step["kl"] for step in steps_of(resumed)[-2:]] == [step["kl"] for step in steps_of(whole)[-2:]]
    refused = grpo(tmp_path / "no", reward_funcs="repetition", beta=0.5, tuner_type="lora", sync_ref_model="true")
    assert refused.code == 2 and "--sync_ref_model: with an adapter the reference is the base model" in refused.err, refused.err
