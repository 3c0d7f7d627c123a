"""ms-swift's reward model plugin genrm: a chat model is asked for a score and writes it."""
import json
import re

import pytest
from train_testing import ROOT

NANO = ROOT / "models/nano"
SYSTEM = """
Based on the dialogue history, analyze in detail whether the model's response is accurate, complete, and relevant.
Assign a reward score between 0 and 1, where 0 indicates completely incorrect and 1 indicates fully correct.
Before finishing your response, please assign a reward using the following format:

Reward: {reward}

For example:
Reward: 0.85
"""


@pytest.fixture(scope="module")
def judge(hone, tmp_path_factory):
    """Learns to end every verdict with the same score."""
    folder = tmp_path_factory.mktemp("judge")
    rows = [json.loads(line)["messages"] for line in (ROOT / "data/demo.jsonl").read_text().splitlines()[:16]]
    asked = ["\n".join(f"{message['role'].capitalize()}: {message['content']}" for message in row) for row in rows]
    (folder / "rows.jsonl").write_text("".join(json.dumps({"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}, {"role": "assistant", "content": "Reward: 0.25"}]}) + "\n" for text in asked))
    done = hone("sft", "--model", NANO, "--dataset", folder / "rows.jsonl", "--tuner_type", "full", "--learning_rate", "2e-3", "--lr_scheduler_type", "constant", "--max_steps", 32, "--per_device_train_batch_size", 4, "--output_dir", folder / "run",
                "--add_version", "false", "--split_dataset_ratio", 0, "--save_only_model", "true", "--torch_dtype", "float32", env={"OMP_WAIT_POLICY": "passive"})
    assert done.returncode == 0, done.stderr
    return folder / "run/checkpoint-32"


def grpo(hone, folder, *more):
    return hone("rlhf", "--rlhf_type", "grpo", "--model", NANO, "--dataset", ROOT / "data/prompts.jsonl", "--num_generations", 4, "--per_device_train_batch_size", 4, "--max_completion_length", 12, "--max_steps", 2,
                "--logging_steps", 1, "--output_dir", folder, "--add_version", "false", "--save_strategy", "no", *more)


def logged(folder):
    return [line for line in map(json.loads, (folder / "logging.jsonl").read_text().splitlines()) if "reward" in line]


def test_a_chat_model_is_asked_for_the_reward(hone, judge, tmp_path):
    done = grpo(hone, tmp_path, "--reward_funcs", "format", "--reward_model", judge, "--reward_model_plugin", "genrm", "--reward_weights", 0.5, 2)
    assert done.returncode == 0, done.stderr
    lines, silent = logged(tmp_path), [0, 0]
    for step, count in enumerate(re.findall(r'wrote no "Reward: number" for (\d) of 4', done.stderr)):  # it is a small judge
        silent[step] = int(count)
    assert sorted(line["rewards/checkpoint-32/mean"] for line in lines) == sorted(0.25 * (4 - count) / 4 for count in silent) and max(line["reward"] for line in lines) > 0
    assert all(line["reward"] == 2 * line["rewards/checkpoint-32/mean"] for line in lines)


def test_a_verdict_without_a_score_counts_nothing(hone, tmp_path):
    done = grpo(hone, tmp_path, "--reward_model", NANO, "--reward_model_plugin", "genrm", "--reward_funcs", "soft_overlong", "--soft_cache_length", 6)
    assert done.returncode == 0, done.stderr
    assert 'the reward model nano wrote no "Reward: number" for 4 of 4 completions, whose reward is 0 (8 so far)' in done.stderr
    assert all(line["rewards/nano/mean"] == 0 for line in logged(tmp_path))


@pytest.mark.parametrize("plugins, why", [(["genrm", "default"], "names 2 plugins for 1 model of"), (["my_rmplugin"], "my_rmplugin is Python that holds a model")])
def test_other_plugins_are_refused(hone, tmp_path, plugins, why):
    done = grpo(hone, tmp_path, "--reward_model", NANO, "--reward_model_plugin", *plugins)
    assert done.returncode == 2 and why in done.stderr
