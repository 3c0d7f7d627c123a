"""PPO end to end: a model learns a simple reward, resumes exactly inside a rollout, trains identically on two processes, as ms-swift's rlhf and as LLaMA-Factory's stage, and reports errors."""
import json
import subprocess

import pytest
import torch

from local_server import Handler, serving
from tiny_models import tiny_model
from train_testing import ENVIRONMENT, ROOT, Run, hone_binary, processes, rlhf_runner, small_tokenizer, steps_of

BASE = dict(rlhf_type="ppo", max_completion_length=16, per_device_train_batch_size=8, gradient_accumulation_steps=1, learning_rate="2e-3", torch_dtype="float32", max_steps=6, logging_steps=1, save_steps=3, seed=7,
            add_version="false", split_dataset_ratio=0, max_length=256, num_ppo_epochs=2)
SHORT = dict(reward_funcs="soft_overlong", soft_cache_length=15)


@pytest.fixture
def ppo(model_folder, dataset):
    return rlhf_runner(BASE, model_folder, dataset)


@pytest.fixture(scope="module")
def reward_model(model_folder, tmp_path_factory):
    """A classifier of one class with random weights."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    folder, tokenizer = tmp_path_factory.mktemp("reward") / "judge", small_tokenizer()
    config = AutoConfig.from_pretrained(model_folder)
    config.num_labels, config.pad_token_id = 1, tokenizer.pad_token_id
    torch.manual_seed(2)
    AutoModelForSequenceClassification.from_config(config).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def same_course(one, other, tolerance):
    assert len(one) == len(other) > 0
    for a, b in zip(one, other):
        for key in ("loss", "grad_norm", "reward", "objective/kl", "objective/scores", "loss/value_avg", "loss/policy_avg", "completions/mean_length"):
            nothing = tolerance / 10 if key in ("loss", "loss/policy_avg", "objective/kl") else 0  # sums of whitened advantages come to nothing
            assert (key in a) == (key in b) and a.get(key, 0) == pytest.approx(b.get(key, 0), rel=tolerance, abs=nothing), (key, a, b)


def test_short_answers_are_learnt_with_a_head_on_the_policy(ppo, tmp_path):
    run = ppo(tmp_path / "run", **SHORT, max_steps=48, per_device_train_batch_size=32, num_ppo_epochs=2, tuner_type="full", vf_coef=0.5, kl_coef=0.02, learning_rate="3e-3", log_completions="true", log_entropy="true", save_steps=48)
    assert run.code == 0 and "  reward " in run.err, run.err
    rewards = [step["reward"] for step in steps_of(run) if "reward" in step]
    assert len(rewards) == 24 and sum(rewards[:4]) / 4 < -0.8 and sum(rewards[-4:]) / 4 > -0.5, rewards
    for key in ("objective/kl", "objective/entropy", "objective/non_score_reward", "objective/rlhf_reward", "objective/scores", "policy/approxkl_avg", "policy/clipfrac_avg", "loss/policy_avg", "loss/value_avg",
                "val/clipfrac_avg", "policy/entropy_avg", "val/ratio", "val/ratio_var", "val/num_eos_tokens", "rewards/SoftOverlong/mean", "completions/mean_length", "time/rollout", "time/reward", "time/experience"):
        assert key in steps_of(run)[0], key
    moved = [step["policy/approxkl_avg"] for step in steps_of(run)]
    assert not any(moved[::2]) and all(moved[1::2]), "the first of two updates takes the pass of the rollout itself"
    saved = tmp_path / "run/checkpoint-48"
    assert (saved / "value_head.safetensors").exists() and not (saved / "value_model").exists()
    asked = subprocess.run([hone_binary(), "infer", "--model", saved, "--max_new_tokens", "4", "--stream", "false"], input="hello\n", capture_output=True, text=True, env=ENVIRONMENT)
    assert asked.returncode == 0, asked.stderr  # the policy answers; its value head is not a reward model
    tables = [json.loads(line) for line in (tmp_path / "run/completions.jsonl").read_text().splitlines()]
    assert len(tables) == 24 and {len(column) for table in tables for column in table.values()} == {32}


def test_a_run_resumed_within_a_rollout_is_the_uninterrupted_one(ppo, reward_model, tmp_path):
    """A rollout is eight updates here, with a value model of its own; the weight of the divergence and the scores' running moments continue too."""
    settings = dict(reward_model=reward_model, num_ppo_epochs=4, num_mini_batches=2, gradient_accumulation_steps=2, per_device_train_batch_size=4, ppo_target=0.5, ppo_score_norm="true", max_steps=12, save_steps=9)
    whole = ppo(tmp_path / "whole", **settings)
    cut = ppo(tmp_path / "cut", fault="checkpoint.after_rename:kill", **settings)
    assert whole.code == 0 and cut.code != 0, whole.err
    other = ppo(tmp_path / "cut", resume_from_checkpoint=tmp_path / "cut/checkpoint-9", **{**settings, "num_ppo_epochs": 3})
    assert other.code == 4 and "resume with the batch sizes, the --num_ppo_epochs and the number of processes" in other.err, other.err
    resumed = ppo(tmp_path / "cut", resume_from_checkpoint=tmp_path / "cut/checkpoint-9", **settings)
    assert resumed.code == 0, resumed.err
    same_course(steps_of(whole)[9:], steps_of(resumed)[-3:], 0)
    final = [(tmp_path / name / "checkpoint-12" / part / "adapter_model.safetensors").read_bytes() for part in ("", "value_model") for name in ("whole", "cut")]
    assert final[0] == final[1] and final[2] == final[3] and final[0] != final[2]
    from peft import PeftModel  # the critic's files are PEFT's, and its base the reward model
    from transformers import AutoModelForSequenceClassification

    critic = PeftModel.from_pretrained(AutoModelForSequenceClassification.from_pretrained(reward_model, num_labels=1), tmp_path / "whole/checkpoint-12/value_model")
    assert critic.peft_config["default"].task_type == "SEQ_CLS"
    coefficients = [step["objective/kl_coef"] for step in steps_of(whole) if "objective/kl_coef" in step]
    assert len(coefficients) == 2 and coefficients[0] != coefficients[1]


def test_two_processes_train_as_one(ppo, reward_model, tmp_path):
    full = dict(reward_model=reward_model, tuner_type="full", learning_rate="1e-3", max_steps=4, save_steps=4, whiten_rewards="true")
    head = dict(**SHORT, max_steps=2, save_strategy="no")
    for settings, others in ((full, (("ddp", {}), ("zero2", {"deepspeed": "zero2"}), ("zero3", {"deepspeed": "zero3", "max_shard_size": "100KB"}), ("fsdp", {"fsdp": "full_shard auto_wrap"}))), (head, (("head-zero3", {"deepspeed": "zero3"}),))):
        alone = ppo(tmp_path / f"alone-{others[0][0]}", **settings)
        assert alone.code == 0, alone.err
        for name, more in others:
            both = ppo(tmp_path / name, count=2, **{**settings, "per_device_train_batch_size": 4}, **more)
            assert both.code == 0, (name, both.err)
            same_course(steps_of(alone), steps_of(both), 5e-4)
    from safetensors.torch import load_file

    files = {name: sorted((tmp_path / name / "checkpoint-4/value_model").glob("*.safetensors")) for name in ("alone-ddp", "zero2", "zero3")}
    assert len(files["zero2"]) == 1 and len(files["zero3"]) > 1
    one, *others = ({key: value for file in each for key, value in load_file(file).items()} for each in files.values())
    for other in others:
        assert set(one) == set(other) and max((one[name] - other[name]).abs().max().item() for name in one) < 5e-4


class Judge(Handler):
    asked, answer = [], None

    def do_POST(self):
        question = self.question()
        Judge.asked.append(question)
        body = Judge.answer(question)
        self.reply(200 if body else 500, body or "gone")


@pytest.fixture
def judge():
    Judge.asked, Judge.answer = [], None
    with serving(Judge) as address:
        yield address + "/score"


def factory_run(model, data, folder, environment=ENVIRONMENT, **settings):
    listed = {"model_name_or_path": model, "stage": "ppo", "do_train": "true", "finetuning_type": "lora", "dataset_dir": data.parent, "dataset": "rows", "template": "chatml", "output_dir": folder, "overwrite_output_dir": "true",
              "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "ppo_epochs": 2, "ppo_buffer_size": 2, "learning_rate": "1e-3", "max_steps": 4, "logging_steps": 1, "save_steps": 4, "max_new_tokens": 12,
              "report_to": "none", "seed": 3, **settings}
    words = [hone_binary().parent / "llamafactory-cli", "train", *(f"{key}={value}" for key, value in listed.items())]
    return Run(subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300), folder)


def test_llama_factorys_stage(model_folder, dataset, judge, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(dataset.read_text())
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.jsonl", "formatting": "sharegpt", "columns": {"messages": "messages"},
                                                                     "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}}}))
    Judge.answer = lambda q: json.dumps({"scores": [float(len(text)) for text in q["messages"]]})
    run = factory_run(model_folder, rows, tmp_path / "api", reward_model_type="api", reward_model=judge, ppo_score_norm="true", ppo_whiten_rewards="true")
    assert run.code == 0, run.err
    question = Judge.asked[0]
    assert set(question) == {"model", "messages"} and len(question["messages"]) == 16 and all("<|im_start|>assistant\n" in text for text in question["messages"])
    steps = [event for event in run.log("trainer_log.jsonl") if "loss" in event]
    history = json.loads((tmp_path / "api/trainer_state.json").read_text())["log_history"]
    assert len(steps) == 4 and {"loss", "reward", "objective/kl", "objective/kl_coef", "ppo/loss/policy", "ppo/loss/value", "ppo/policy/clipfrac", "ppo/mean_scores"} <= set(history[0])
    assert history[0]["objective/kl_coef"] == pytest.approx(0.2)
    assert (tmp_path / "api/value_head.safetensors").exists() and (tmp_path / "api/adapter_model.safetensors").exists()
    # A reward model that is an adapter of the model: what a run of stage rm wrote, as any folder with an adapter and a head of values.
    run = factory_run(model_folder, rows, tmp_path / "lora", reward_model=tmp_path / "api", max_steps=2, save_strategy="no")
    assert run.code == 0, run.err


def test_what_goes_wrong_is_named(ppo, reward_model, model_folder, judge, tmp_path):
    other = tmp_path / "other"
    tiny_model(other)
    for settings, complaint in ((dict(), "PPO needs at least one reward"), (dict(**SHORT, num_mini_batches=3, gradient_accumulation_steps=4), "--num_mini_batches 3 does not divide"),
                                (dict(**SHORT, value_model="reward"), "there is no reward model"), (dict(**SHORT, value_model=other), "another tokenizer than the policy"),
                                (dict(reward_model=reward_model, tuner_type="adalora"), "AdaLoRA"), (dict(**SHORT, ppo_target=0), "--ppo_target is 0"), (dict(**SHORT, kl_coef=0, ref_model=model_folder), "compares with no reference")):
        run = ppo(tmp_path / "run", max_steps=1, **settings)
        assert run.code in (2, 3, 4) and complaint in run.err, (settings, run.code, run.err)
    Judge.answer = lambda q: json.dumps([1.0] * len(q["completions"]))
    run = ppo(tmp_path / "even", reward_funcs=[judge], max_steps=4, num_ppo_epochs=1, save_strategy="no")
    assert run.code == 0 and run.err.count("all completions got the same reward") == 1, run.err
    Judge.answer = lambda q: json.dumps([None, *range(1, len(q["completions"]))])
    run = ppo(tmp_path / "null", reward_funcs=[judge], max_steps=1)
    assert run.code == 1 and "every reward is null for completion 1 of the rollout (score)" in run.err, run.err
    # The server vanishes in the second rollout: the first one's steps are saved, and the run continues from there when it is back.
    Judge.asked = []
    Judge.answer = lambda q: json.dumps([float(len(text)) for text in q["completions"]]) if len(Judge.asked) < 2 else ""
    settings = dict(reward_funcs=[judge], reward_timeout=2, max_steps=4, save_steps=100)
    run = ppo(tmp_path / "gone", **settings)
    assert run.code == 1 and "the request to the reward server at" in run.err and run.checkpoints() == [2], run.err
    Judge.answer = lambda q: json.dumps([float(len(text)) for text in q["completions"]])
    run = ppo(tmp_path / "gone", resume_from_checkpoint=tmp_path / "gone/checkpoint-2", **settings)
    assert run.code == 0 and 4 in run.checkpoints(), run.err


def test_a_reward_model_with_its_own_tokenizer_is_given_text(ppo, tmp_path):
    """ms-swift re-encodes for it, too; the critic is then a head on the policy."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    folder = tmp_path / "other"
    tiny_model(folder)
    config, tokenizer = AutoConfig.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    config.num_labels, config.pad_token_id = 1, tokenizer.pad_token_id
    AutoModelForSequenceClassification.from_config(config).float().save_pretrained(tmp_path / "judge")
    tokenizer.save_pretrained(tmp_path / "judge")
    run = ppo(tmp_path / "refused", reward_model=tmp_path / "judge", max_steps=1)
    assert run.code == 2 and "--value_model policy" in run.err, run.err
    run = ppo(tmp_path / "run", reward_model=tmp_path / "judge", value_model="policy", max_steps=2, save_strategy="no")
    assert run.code == 0 and "rewards/judge/mean" in steps_of(run)[0], run.err


def test_plan_and_preview(hone, model_folder, reward_model, dataset):
    asked = ["swift", "rlhf", "--rlhf_type", "ppo", "--model", model_folder, "--dataset", dataset, "--torch_dtype", "float32", "--tuner_type", "full"]
    plans = [hone("plan", *asked, *more, "--device", "cpu") for more in (["--reward_funcs", "format"], ["--reward_model", reward_model])]
    assert all(plan.returncode == 0 for plan in plans), plans
    assert "completions of 512 tokens after their prompts" in plans[0].stdout and plans[0].stdout != plans[1].stdout
    shown = hone("preview", *asked, "--reward_model", reward_model)
    assert shown.returncode == 0 and "prompt (" in shown.stdout, shown.stderr
