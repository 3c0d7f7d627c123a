"""Recipes of tinker-cookbook, as published, against the server: supervised fine-tuning that is resumed, RL with its losses, preferences."""
import json
import math
import os
import subprocess
from pathlib import Path

import pytest
from peers import python_with
from tinker_testing import ALICE, MODEL, ROOT, TinkerServer

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
    """Epochs of one batch. The recipe submits a batch ahead and saves after it: the checkpoint of step 2 has four updates, with which a resumed run repeats step 2."""
    code = "import tinker_cookbook, pathlib; print(pathlib.Path(tinker_cookbook.__file__).parent)"
    data = Path(subprocess.run([python_with(COOKBOOK), "-c", code], capture_output=True, text=True, check=True).stdout.strip()) / "example_data/conversations.jsonl"
    (tmp_path / "rows.jsonl").write_text("".join(data.read_text().splitlines(True)[:8]))
    settings = dict(dataset=tmp_path / "rows.jsonl", batch_size=8, num_epochs=6, max_length=512, learning_rate=2e-3, lr_schedule="constant", save_every=2, eval_every=0)
    losses = [step["train_mean_nll"] for step in recipe("chat_sl.train", "sl", **settings)]
    assert len(losses) == 6 and losses == sorted(losses, reverse=True)
    checkpoints = tmp_path / "sl/checkpoints.jsonl"
    checkpoints.write_text("".join(line for line in checkpoints.read_text().splitlines(True) if json.loads(line)["name"] == "000002"))
    again = recipe("chat_sl.train", "sl", behavior_if_log_dir_exists="resume", **settings)[6:]
    assert [step["step"] for step in again] == [2, 3, 4, 5]
    assert [step["train_mean_nll"] for step in again[:2]] == pytest.approx(losses[4:], rel=1e-4)  # rows in another order


@pytest.mark.peer(COOKBOOK)
@pytest.mark.parametrize("loss_fn", ["importance_sampling", "ppo"])
def test_math_rl(recipe, loss_fn):
    steps = recipe("math_rl.train", loss_fn, env="arithmetic", group_size=4, groups_per_batch=4, max_tokens=5, max_steps=2, learning_rate=1e-3, eval_every=0, save_every=1, loss_fn=loss_fn)
    assert len(steps) == 2
    for step in steps:  # training recomputes the log-probabilities that sampling returned
        assert abs(step["optim/kl_sample_train_v1"]) < 1e-5 and step["optim/kl_sample_train_v2"] < 1e-8


NAME = "meta-llama/Llama-3.2-1B"  # one that the cookbook knows a renderer for; the server has nano under it
# There is no hub here: what the recipes load from it is answered with rows of the same form and with nano's tokenizer.
STAND_IN = """
import datasets, transformers
def rows(name):
    if "no_robots" in name:
        chats = [{"messages": [{"role": "user", "content": f"What is {i} and {i}?"}, {"role": "assistant", "content": f"It is {2 * i}."}]} for i in range(300)]
        return datasets.DatasetDict({"train": datasets.Dataset.from_list(chats), "test": datasets.Dataset.from_list(chats[:32])})
    if "gsm8k" in name:
        return datasets.Dataset.from_list([{"question": f"What is {i} plus 1?", "answer": f"#### {i + 1}"} for i in range(8)])  # a step samples 16 answers to each
    pairs = [{"chosen": f"\\n\\nHuman: Say {i}.\\n\\nAssistant: {i}", "rejected": f"\\n\\nHuman: Say {i}.\\n\\nAssistant: No, I never say that"} for i in range(64)]
    return datasets.DatasetDict({"train": datasets.Dataset.from_list(pairs), "test": datasets.Dataset.from_list(pairs[:8])})
datasets.load_dataset = lambda path, *_, **more: rows(path)  # whose own settings may be called name too
load = transformers.AutoTokenizer.from_pretrained
transformers.AutoTokenizer.from_pretrained = lambda name, *words, **more: load("models/nano")
"""


@pytest.fixture(scope="module")
def known_name(tmp_path_factory):
    """basic(recipe, setting=value, …) against a server whose model has a name of the cookbook's list."""
    folder = tmp_path_factory.mktemp("known")
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(STAND_IN)
    server = TinkerServer(folder / "server", "--served_model_name", NAME)

    def run(name, **settings):
        log = folder / name
        words = [f"{key}={value}" for key, value in {"model_name": NAME, "log_path": log, "max_steps": 2, **settings}.items()]
        done = subprocess.run([python_with(COOKBOOK), "-m", f"{COOKBOOK}.recipes.{name}", *words], cwd=ROOT, capture_output=True, text=True, timeout=600,
                              env={**os.environ, "TINKER_API_KEY": ALICE, "TINKER_BASE_URL": server.url, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(folder / "site")})
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]
    yield run
    assert server.stop() == 0, server.log()


@pytest.mark.peer(COOKBOOK)
def test_sl_basic(known_name):
    steps = [step for step in known_name("sl_basic", learning_rate=2e-3, lr_schedule="constant", eval_every=0) if "train_mean_nll" in step]
    assert len(steps) == 2 and steps[1]["train_mean_nll"] < steps[0]["train_mean_nll"]


@pytest.mark.peer(COOKBOOK)
def test_rl_basic(known_name):
    steps = known_name("rl_basic", max_tokens=4, learning_rate=1e-3)
    assert len(steps) == 1 and abs(steps[0]["optim/kl_sample_train_v1"]) < 1e-5


@pytest.mark.peer(COOKBOOK)
def test_preference_dpo(known_name):
    steps = [step for step in known_name("preference.dpo.train", renderer_name="role_colon", batch_size=8, learning_rate=2e-3, lr_schedule="constant") if "dpo_loss" in step]
    assert steps[0]["dpo_loss"] == pytest.approx(math.log(2), abs=1e-3) and steps[-1]["dpo_loss"] < steps[0]["dpo_loss"]


@pytest.mark.peer(COOKBOOK)
def test_preference_shorter(known_name):
    assert len(known_name("preference.shorter.train", renderer_name="role_colon", batch_size=4, group_size=4, max_tokens=4, eval_every=0)) == 2
