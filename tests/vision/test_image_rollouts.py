"""Reinforcement learning and distillation with images: engine and trainer use the same images, and a run interrupted inside a rollout resumes exactly."""
import json
import pathlib
import sys

import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from media_runs import write_rows
from vision_models import ROOT

sys.path.insert(0, str(ROOT / "tests" / "train"))
from train_testing import rlhf_runner, steps_of  # noqa: E402

BASE = dict(max_completion_length=10, per_device_train_batch_size=4, gradient_accumulation_steps=1, learning_rate="2e-3", torch_dtype="float32", max_steps=2, logging_steps=1,
            save_strategy="no", seed=7, add_version="false", split_dataset_ratio=0, lora_dropout=0, freeze_vit="false", freeze_aligner="false")
SHORT = dict(reward_funcs="soft_overlong", soft_cache_length=9)


@pytest.fixture(scope="module")
def place(tmp_path_factory, folders):
    """A model whose positions have three axes, and prompts of one image, of two, of a video and of text alone."""
    place = tmp_path_factory.mktemp("rollouts")
    (place / "model").symlink_to(folders("qwen2_5_vl"))
    for name, colour, size in (("red", (220, 30, 30), (120, 64)), ("blue", (30, 60, 220), (60, 140))):
        Image.new("RGB", size, colour).save(place / f"{name}.png")
    red, blue = str(place / "red.png"), str(place / "blue.png")
    rows = [("<image>Colour?", [red], []), ("<image>or<image>?", [blue, red], []), ("Moves <video>?", [], [[red, red, red, red]]), ("Hi", [], [])]
    write_rows(place / "rows.jsonl", [{"messages": [{"role": "user", "content": text}], "images": images, "videos": videos, "solution": "red"} for text, images, videos in rows])
    return place


@pytest.fixture
def rlhf(place, monkeypatch):
    from train_testing import ENVIRONMENT

    for name, value in (("VIDEO_MIN_TOKEN_NUM", "4"), ("VIDEO_MAX_TOKEN_NUM", "12")):
        monkeypatch.setitem(ENVIRONMENT, name, value)
    return rlhf_runner(BASE, place / "model", place / "rows.jsonl")


def test_several_turns_are_text_alone(rlhf, tmp_path):
    """Said before a model is loaded."""
    refused = rlhf(tmp_path / "turns", rlhf_type="grpo", **SHORT, num_generations=4, multi_turn_scheduler="thinking_tips_scheduler", max_turns=2)
    assert refused.code == 2 and "prompts with media in multi-turn rollouts" in refused.err and "leave --multi_turn_scheduler out" in refused.err, refused.err


def test_grpo_sees_what_the_engine_saw(rlhf, tmp_path):
    """Probabilities of sampled tokens are the trainer's, whose positions and features therefore are the engine's; answers to different images share no cached keys."""
    settings = dict(rlhf_type="grpo", **SHORT, num_generations=4, steps_per_generation=2, per_device_train_batch_size=8, max_steps=4, log_completions="true",
                    log_rollout_offpolicy_metrics="true", save_strategy="steps", save_steps=1)
    steps = steps_of(rlhf(tmp_path / "whole", **settings))
    assert len(steps) == 4
    for step in steps[::2]:  # those whose weights are the rollout's
        for end in ("min", "max"):
            assert step[f"sampling/importance_sampling_ratio/{end}"] == pytest.approx(1, abs=2e-4), step
    prompts = json.loads((tmp_path / "whole" / "completions.jsonl").read_text().splitlines()[0])["prompt"]
    assert len(prompts) == 16 and sum("<|image_pad|>" in prompt for prompt in prompts) == 8 and sum("<|video_pad|>" in prompt for prompt in prompts) == 4
    resumed = steps_of(rlhf(tmp_path / "resumed", resume_from_checkpoint=tmp_path / "whole" / "checkpoint-1", **settings))
    for one, other in zip(steps[1:], resumed[-3:], strict=True):
        assert all(one[key] == other[key] for key in ("loss", "grad_norm"))


PLUGIN = '''
import json, pathlib
from swift.rewards import ORM, orms


class SeenReward(ORM):
    def __call__(self, completions, images=None, videos=None, tools=None, **kwargs):
        count = len(completions)
        plain = [each and [{**image, "bytes": image["bytes"] and image["bytes"].hex()} for image in each] for each in images or [None] * count]
        with open(pathlib.Path(__file__).with_name("seen.jsonl"), "a") as file:
            for row in zip(kwargs["messages"], plain, videos or [None] * count, tools or [None] * count):
                file.write(json.dumps(row) + chr(10))
        return [float(len(text)) for text in completions]


orms["seen"] = SeenReward
'''


def test_plugins_get_the_media_and_tools_of_rows(rlhf, place, tmp_path):
    red, blue = str(place / "red.png"), str(place / "blue.png")
    tools = [{"type": "function", "function": {"name": "paint", "description": "d", "parameters": {"type": "object", "properties": {}}}}]
    rows = [("A<image>", {"images": [red]}), ("B<image><image>", {"images": [blue, red]}), ("C<video>", {"videos": [[red, red, red, red]]}), ("D", {"tools": tools})]
    write_rows(tmp_path / "rows.jsonl", [{"messages": [{"role": "user", "content": text}], **rest} for text, rest in rows])
    content = pathlib.Path(red).read_bytes()
    pyarrow.parquet.write_table(pyarrow.table({"messages": [[{"role": "user", "content": "E<image>"}]], "images": pyarrow.array([[{"bytes": content, "path": None}]])}), tmp_path / "row.parquet")
    (tmp_path / "seen.py").write_text(PLUGIN)
    run = rlhf(tmp_path / "out", rlhf_type="grpo", **{**SHORT, "reward_funcs": "seen"}, num_generations=2, per_device_train_batch_size=10, max_steps=1, external_plugins=tmp_path / "seen.py",
               plugin_python=sys.executable, dataset=[tmp_path / "rows.jsonl", tmp_path / "row.parquet"])
    assert run.code == 0, run.err
    seen = {row[0][-2]["content"][0]: row[1:] for row in map(json.loads, (tmp_path / "seen.jsonl").read_text().splitlines())}
    path = lambda name: {"bytes": None, "path": name}
    assert seen == {"A": [[path(red)], None, None], "B": [[path(blue), path(red)], None, None], "C": [None, [[red] * 4], None], "D": [None, None, tools],
                    "E": [[{"bytes": content.hex(), "path": None}], None, None]}


def test_grpo_of_gemma3_whose_images_see_ahead(place, folders, tmp_path):
    """The rows of an image see each other in the decoder, in the engine's prefill as in the trainer's pass."""
    rows = [row for row in map(json.loads, (place / "rows.jsonl").read_text().splitlines()) if not row["videos"]]
    runs = rlhf_runner(BASE, folders("gemma3"), write_rows(tmp_path / "rows.jsonl", rows))
    steps = steps_of(runs(tmp_path / "run", rlhf_type="grpo", **SHORT, num_generations=4, log_rollout_offpolicy_metrics="true"))
    assert len(steps) == 2
    for step in steps:
        for end in ("min", "max"):
            assert step[f"sampling/importance_sampling_ratio/{end}"] == pytest.approx(1, abs=2e-4), step


def test_a_teacher_sees_the_images_of_its_own_prompt(rlhf, place, tmp_path):
    """Of one token the divergence is symmetric: of prompts that are exchanged it stays the same, although the images lie in other places."""
    short, long = "<image>Colour?", "Look at all of this and then say <image>Colour or<image>?"

    def written(name, prompts):
        rows = [{"messages": [{"role": "user", "content": text}], "teacher_prompt": other, "images": [str(place / f"{image}.png") for image in images]} for text, other, images in prompts]
        return write_rows(tmp_path / f"{name}.jsonl", rows)

    pairs = [(short, "Take your time. " + short, ["red"]), (long, long.removeprefix("Look at "), ["red", "blue"])] * 2
    turned = [(other, text, images) for text, other, images in pairs]
    settings = dict(rlhf_type="gkd", teacher_model=place / "model", lmbda=1, beta=0.5, max_steps=1, max_completion_length=1)
    one, other = (steps_of(rlhf(tmp_path / name, dataset=written(name, rows), **settings))[0]["loss"] for name, rows in (("one", pairs), ("other", turned)))
    assert 1e-6 < one == pytest.approx(other, rel=1e-3)
    policy = steps_of(rlhf(tmp_path / "grpo", rlhf_type="grpo", **SHORT, dataset=written("both", [*pairs[:2], *turned[:2]]), num_generations=2, max_steps=1))
    assert policy[0]["teacher_kl"] > 0


def test_ppo_and_distillation_see_images(rlhf, place, tmp_path):
    steps = steps_of(rlhf(tmp_path / "ppo", rlhf_type="ppo", **SHORT, num_ppo_epochs=1))
    assert len(steps) == 2 and abs(steps[0]["objective/kl"]) < 1e-5
    found = steps_of(rlhf(tmp_path / "gkd", rlhf_type="gkd", teacher_model=place / "model", lmbda=1, max_steps=1))
    assert abs(found[0]["loss"]) < 1e-6 and found[0]["completions/mean_length"] > 0  # the student is its teacher
