"""Recipes of tinker-cookbook, as published, against the server: supervised fine-tuning that is resumed, and RL with its losses."""
import json
import os
import subprocess
from pathlib import Path

import pytest
from peers import python_with
from tinker_testing import ALICE, MODEL, ROOT

COOKBOOK = "tinker_cookbook"


@pytest.fixture
def recipe(server, tmp_path):
    """recipe(name, log folder, setting=value, …) runs one to its end and gives its metrics, a step each."""
    def run(name, folder, **settings):
        words = [f"{key}={value}" for key, value in {"model_name": MODEL, "renderer_name": "role_colon", "base_url": server.url, "log_path": tmp_path / folder, "lora_rank": 8, **settings}.items()]
        done = subprocess.run([python_with(COOKBOOK), "-m", f"{COOKBOOK}.recipes.{name}", *words], cwd=ROOT, capture_output=True, text=True, timeout=600,
                              env={**os.environ, "TINKER_API_KEY": ALICE, "HF_HUB_OFFLINE": "1"})
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return [json.loads(line) for line in (tmp_path / folder / "metrics.jsonl").read_text().splitlines()]
    return run


@pytest.mark.peer(COOKBOOK)
def test_chat_sl_and_its_resume(recipe, tmp_path):
    """A run that ended after its checkpoint, begun again: the steps behind it are the same ones."""
    code = "import tinker_cookbook, pathlib; print(pathlib.Path(tinker_cookbook.__file__).parent)"
    data = Path(subprocess.run([python_with(COOKBOOK), "-c", code], capture_output=True, text=True, check=True).stdout.strip()) / "example_data/conversations.jsonl"
    settings = dict(dataset=data, batch_size=16, max_length=512, learning_rate=2e-3, lr_schedule="constant", max_steps=4, save_every=2, eval_every=0)
    first = recipe("chat_sl.train", "sl", **settings)
    losses = [step["train_mean_nll"] for step in first]
    assert len(losses) == 4 and losses[-1] < losses[0]
    checkpoints = tmp_path / "sl/checkpoints.jsonl"
    checkpoints.write_text("".join(line for line in checkpoints.read_text().splitlines(True) if json.loads(line)["name"] != "final"))
    again = recipe("chat_sl.train", "sl", behavior_if_log_dir_exists="resume", **settings)[4:]
    assert [step["step"] for step in again] == [2, 3]
    assert [step["train_mean_nll"] for step in again] == pytest.approx(losses[2:], rel=1e-5)


@pytest.mark.peer(COOKBOOK)
@pytest.mark.parametrize("loss_fn", ["importance_sampling", "ppo"])
def test_math_rl(recipe, loss_fn):
    steps = recipe("math_rl.train", loss_fn, env="arithmetic", group_size=4, groups_per_batch=4, max_tokens=5, max_steps=2, learning_rate=1e-3, eval_every=0, save_every=1, loss_fn=loss_fn)
    assert len(steps) == 2
    for step in steps:  # what sampling said of its tokens is what training says
        assert abs(step["optim/kl_sample_train_v1"]) < 1e-5 and step["optim/kl_sample_train_v2"] < 1e-8
