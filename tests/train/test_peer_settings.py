"""Settings of the peers that change how a run computes and not what it learns: DeepSpeed's AutoTP, LLaMA-Factory's HyperParallel and Ray's workers, PPO's passes without gradients."""
import json
import subprocess

import pytest

from train_testing import ENVIRONMENT, hone_binary, rlhf_runner

FULL = dict(tuner_type="full", max_steps=2, save_strategy="no", per_device_train_batch_size=4)


def numbers_of(events):
    return [(event["loss"], event["grad_norm"]) for event in events if "grad_norm" in event]


def same(one, other, tolerance=5e-4):
    assert len(one) == len(other) == 2
    for a, b in zip(one, other):
        assert a == pytest.approx(b, rel=tolerance)


def test_autotp_cuts_layers(sft, tmp_path):
    alone = sft(tmp_path / "alone", **FULL)
    cut = sft(tmp_path / "cut", count=2, deepspeed="zero2", deepspeed_autotp_size=2, **FULL)
    assert alone.code == cut.code == 0 and "cpu mesh of 2: tp 2" in cut.err, cut.err
    same(numbers_of(alone.log()), numbers_of(cut.log()))
    refused = sft(tmp_path / "no", deepspeed="zero3", deepspeed_autotp_size=2, **FULL)
    assert refused.code == 2 and "--deepspeed_autotp_size needs full layers, and ZeRO-3 shards them" in refused.err


def test_hyper_parallel_and_workers_of_ray(model_folder, dataset, tmp_path):
    """Two workers make two processes, which split the batch, with FSDP or tensor parallelism."""
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": str(dataset), "formatting": "sharegpt", "columns": {"messages": "messages"},
                                                                     "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}}}))

    def train(name, batch, **more):
        words = dict(stage="sft", do_train="true", model_name_or_path=model_folder, dataset="rows", dataset_dir=tmp_path, template="qwen", finetuning_type="full", output_dir=tmp_path / name, max_steps=2, save_strategy="no",
                     per_device_train_batch_size=batch, gradient_accumulation_steps=1, learning_rate="1e-3", logging_steps=1, infer_dtype="float32", cutoff_len=256, seed=7, disable_shuffling="true", report_to="none", **more)
        command = [str(hone_binary().with_name("llamafactory-cli")), "train", *(str(word) for key, value in words.items() for word in (f"--{key}", value))]
        done = subprocess.run(command, capture_output=True, text=True, env={**ENVIRONMENT, "USE_RAY": "1", "OMP_NUM_THREADS": "1"}, timeout=300)
        assert done.returncode == 0, done.stderr
        state = json.loads((tmp_path / name / "trainer_state.json").read_text())
        return [(event["loss"], event["grad_norm"]) for event in state["log_history"] if "grad_norm" in event], done.stderr

    alone, _ = train("alone", 4)
    shards, output = train("shards", 2, ray_num_workers=2, use_hyper_parallel="true")
    same(alone, shards)
    cut, output = train("cut", 4, ray_num_workers=2, use_hyper_parallel="true", hyper_parallel_args='{"tp_size": 2, "param_dtype": "bf16"}')
    same(alone, cut)
    assert "param_dtype has no effect" in output, output


def test_ppo_scores_any_number_of_completions_at_a_time(model_folder, dataset, tmp_path):
    base = dict(rlhf_type="ppo", reward_funcs="soft_overlong", soft_cache_length=10, max_completion_length=12, gradient_accumulation_steps=2, num_ppo_epochs=1, learning_rate="1e-3", torch_dtype="float32", logging_steps=1,
                seed=7, add_version="false", split_dataset_ratio=0, max_length=256, **FULL)
    ppo = rlhf_runner(base, model_folder, dataset)
    plain, others = ppo(tmp_path / "plain"), ppo(tmp_path / "others", local_rollout_forward_batch_size=3)
    assert plain.code == others.code == 0, others.err
    same(numbers_of(plain.log()), numbers_of(others.log()), 1e-5)


def test_levels_of_float16_and_words_about_graphs(sft, tmp_path):
    """Apex's O0 is float32; torch.compile's backends and modes that contradict each other are told apart before a model is loaded."""
    plain, level = sft(tmp_path / "plain", max_steps=2), sft(tmp_path / "level", max_steps=2, fp16="true", fp16_opt_level="O0")
    assert plain.code == level.code == 0 and plain.losses() == level.losses(), level.err
    pure = sft(tmp_path / "pure", max_steps=2, fp16="true", fp16_opt_level="O3", tuner_type="full")
    assert pure.code == 0 and pure.losses()[0] == pytest.approx(plain.losses()[0], rel=2e-2), pure.err
    eager = sft(tmp_path / "eager", max_steps=2, torch_compile_backend="eager")
    assert eager.code == 0 and eager.losses() == plain.losses(), eager.err
    for settings in (dict(torch_compile_backend="eager", torch_compile_mode="reduce-overhead"), dict(torch_compile_backend="cudagraphs", training_graphs="false")):
        run = sft(tmp_path / "no", **settings)
        assert run.code == 2 and "disagree about graphs" in run.err, run.err
