"""Reinforcement learning and distillation with images: engine and trainer use the same images, and a run interrupted inside a rollout resumes exactly."""
import base64
import json
import pathlib
import sys
import urllib.error
import urllib.request

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import torch
import transformers
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from local_server import Handler
from local_server import serving as local_serving
from media_runs import swift, write_rows
from vision_models import ROOT

sys.path.insert(0, str(ROOT / "tests" / "train"))
from test_rollout_server import RolloutServer, same_course, served, serving  # noqa: E402
from train_testing import rlhf_runner, steps_of  # noqa: E402

BASE = dict(max_completion_length=10, per_device_train_batch_size=4, gradient_accumulation_steps=1, learning_rate="2e-3", torch_dtype="float32", max_steps=2, logging_steps=1,
            save_strategy="no", seed=7, add_version="false", split_dataset_ratio=0, lora_dropout=0, freeze_vit="false", freeze_aligner="false")
SHORT = dict(reward_funcs="soft_overlong", soft_cache_length=9)
GRPO = dict(rlhf_type="grpo", **SHORT, num_generations=4, per_device_train_batch_size=16, log_rollout_offpolicy_metrics="true")


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


def agrees(steps):
    """The trainer's probabilities of sampled tokens are those of the engine or the server that sampled them."""
    for step in steps:
        assert step["sampling/sampling_logp_difference/max"] < 1e-4, step
        for end in ("min", "max"):
            assert step[f"sampling/importance_sampling_ratio/{end}"] == pytest.approx(1, abs=2e-4), step


def test_servers_see_images_and_videos(rlhf, place, tmp_path):
    """They sample what the engine inside would, from one process and from two, of PPO, distillation and GRPO."""
    inside = steps_of(rlhf(tmp_path / "inside", **GRPO))
    server = RolloutServer(place / "model")
    with serving(server):
        one = rlhf(tmp_path / "one", **GRPO, **served(server))
        two = rlhf(tmp_path / "two", count=2, **{**GRPO, "per_device_train_batch_size": 8}, **served(server))
        for run in (one, two):
            agrees(steps_of(run))
        same_course(inside, steps_of(one), 2e-4)
        for alone, both in zip(inside, steps_of(two)):
            alone["kl"] = both["kl"]  # the mean of the processes' means, which have other numbers of tokens
        same_course(inside, steps_of(two), 2e-4)
        for method, settings in (("ppo", SHORT), ("gkd", dict(teacher_model=place / "model", lmbda=1))):
            runs = [steps_of(rlhf(tmp_path / f"{method}-{name}", rlhf_type=method, **settings, **where)) for name, where in (("inside", {}), ("server", served(server)))]
            for a, b in zip(*runs, strict=True):
                assert a["loss"] == pytest.approx(b["loss"], abs=1e-5) and a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3)


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as problem:
        return problem.code, json.load(problem)


def test_a_server_gives_transformers_probabilities(place):
    """Of contexts of one turn, and of a second one whose picture is new; equal tokens with other pictures share nothing."""
    folder = place / "model"
    model = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer, pad = transformers.AutoTokenizer.from_pretrained(folder), model.config.image_token_id
    processor = Qwen2VLImageProcessorPil(min_pixels=3136, max_pixels=12845056)
    red, blue = place / "red.png", place / "blue.png"
    contexts = []
    for pictures in ([red], [blue], [red, blue], [red, red]):
        seen = processor(images=[Image.open(picture) for picture in pictures], return_tensors="pt")
        shown = ["<|vision_start|>" + "<|image_pad|>" * (int(grid.prod()) // 4) + "<|vision_end|>" for grid in seen["image_grid_thw"]]
        text = f"<|im_start|>user\nThis{shown[0]}?<|im_end|>\n<|im_start|>assistant\nred"
        if len(shown) > 1:
            text += f"<|im_end|>\n<|im_start|>user\n{shown[1]}?<|im_end|>\n<|im_start|>assistant\n"
        ids = tokenizer(text).input_ids
        places = [i for i, token in enumerate(ids) if token == pad]
        parts = [{"type": "image", "image": "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()} for picture in pictures]
        contexts.append((ids, seen, {"parts": parts, "spans": [[i, i + 1] for i in places]}))
    with serving(RolloutServer(folder)) as (server,):
        body = {"prompts": [ids for ids, _, _ in contexts for _ in range(2)], "seeds": list(range(8)), "max_tokens": 6, "temperature": 0.8, "media": [media for _, _, media in contexts],
                "media_each": [i // 2 for i in range(8)]}
        status, reply = post(server, "/generate/", body)
        assert status == 200, reply
        answers = [(i, *answer) for i, answer in enumerate(zip(reply["completion_ids"], reply["logprobs"], strict=True)) if pad not in answer[0]]
        assert len(answers) > 4, "a placeholder that was sampled has no picture for transformers"
        for i, sampled, logprobs in answers:
            ids, seen, _ = contexts[i // 2]
            whole = torch.tensor([ids + sampled])
            kinds = (whole == pad).int()
            kinds[0, len(ids):] = 0
            with torch.no_grad():
                logits = model(input_ids=whole, mm_token_type_ids=kinds, **seen).logits[0, len(ids) - 1:-1] / 0.8
            wanted = logits.log_softmax(-1).gather(1, torch.tensor(sampled)[:, None])[:, 0]
            torch.testing.assert_close(torch.tensor(logprobs), wanted, atol=1e-4, rtol=0)
        ids, _, media = contexts[0]
        for wrong, complaint in (({"media": [{**media, "spans": media["spans"][:-1]}]}, "placeholders"), ({"media": [{**media, "spans": [[0, 10 ** 6]]}]}, "placeholders outside"),
                                 ({"media": [{**media, "parts": []}]}, "placeholders"), ({"media": [{"parts": [], "spans": [[5, 5]]}]}, "pairs of token indices"),
                                 ({"media": [{**media, "spans": [[9, 4]]}]}, "pairs of token indices"), ({"media": [{"parts": media["parts"]}]}, "parts and spans"), ({"media_each": [1]}, "a list of 1 media"),
                                 ({"media": [{**media, "parts": [{"type": "image", "image": "/etc/passwd"}]}]}, "opens no files"), ({"media_each": None}, "media_each"),
                                 ({"prompts": [[*ids, *[5] * 4000]]}, "maximum context length")):
            status, reply = post(server, "/generate/", {"prompts": [ids], "media": [media], "media_each": [0], "max_tokens": 1, **wrong})
            assert status == 400 and complaint in reply["error"]["message"], (wrong.keys(), reply)


def test_media_that_a_server_does_not_take(rlhf, place, folders, tmp_path):
    """Settings that differ, a body that is too large, a file that is broken after its header, and servers of other programs."""
    model = place / "model"
    other, small = RolloutServer(model, environment={"MAX_PIXELS": "3136"}), RolloutServer(model, more=["--max_body", "2KB"])
    with serving(other, small):
        differs = rlhf(tmp_path / "differs", **GRPO, **served(other))
        assert differs.code == 1 and "placeholders" in differs.err and "MAX_PIXELS" in differs.err, differs.err
        noise = Image.fromarray(numpy.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=numpy.uint8))
        noise.save(place / "noise.png")
        rows = write_rows(tmp_path / "noise.jsonl", [{"messages": [{"role": "user", "content": "<image>?"}], "images": [str(place / "noise.png")]}] * 4)
        large = rlhf(tmp_path / "large", **GRPO, dataset=rows, **served(small))
        assert large.code == 1 and "larger than" in large.err and "max_body" in large.err, large.err
        whole = (place / "noise.png").read_bytes()
        middle = len(whole) // 2
        (tmp_path / "broken.png").write_bytes(whole[:middle] + bytes(64) + whole[middle + 64:])
        row = {"messages": [{"role": "user", "content": "<image>?"}], "images": [str(tmp_path / "broken.png")]}
        rows = write_rows(tmp_path / "broken.jsonl", [row, *map(json.loads, (place / "rows.jsonl").read_text().splitlines())][:4])
        server = RolloutServer(model)
        with serving(server):
            broken = [rlhf(tmp_path / name, **GRPO, dataset=rows, **where) for name, where in (("inside", {}), ("server", served(server)))]
            for run in broken:
                assert run.code == 0 and "broken.png" in run.err, run.err
            same_course(*map(steps_of, broken), 2e-4)
            assert any("not learned" in line for line in server.lines)
        foreign = rlhf(tmp_path / "foreign", **{**GRPO, "log_rollout_offpolicy_metrics": "false"}, **served(small), vllm_server_type="openai")
        assert foreign.code == 2 and "takes text alone" in foreign.err, foreign.err


TURNS = '''
import __main__, base64, io, os
from PIL import Image
from swift.plugin.multi_turn import MultiTurnScheduler, multi_turns
from swift.rewards import ORM, orms
from swift.rollout import Env, envs


def opened(image):
    return Image.open(image if os.path.exists(image) else io.BytesIO(base64.b64decode(image)))


class Look(MultiTurnScheduler):
    """As ms-swift's example of a tool that zooms: a crop of the first image comes as a picture of PIL, and later a file."""
    def check_finished(self, infer_request, response_choice, current_turn):
        return current_turn >= self.max_turns

    def step(self, infer_request, response_choice, current_turn):
        request = infer_request
        if current_turn == 2:
            request.messages.append({"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "image", "image": BLUE}, {"type": "text", "text": "?"}]})
            return {"infer_request": request}
        if not request.images:
            request.messages.append({"role": "user", "content": "There is no <image>."})
            return {"infer_request": request}
        image = opened(request.images[0])
        request.messages.append({"role": "user", "content": "<tool_response><image>Closer.</tool_response>"})
        request.images.append(image.crop((0, 0, image.width // 2, image.height)))
        return {"infer_request": request, "rollout_infos": {"images": request.images}}


class Crash(Look):
    """Its worker dies once, in the first turn of the first episode."""
    def step(self, infer_request, response_choice, current_turn):
        if not os.path.exists("CRASHED"):
            open("CRASHED", "w").close()
            os.abort()
        return super().step(infer_request, response_choice, 1)


def watched(self, row, turn=__main__.TurnWorker.turn):
    with open("ROWS", "a") as file:
        file.write(f"{'images' in row:d}{row['episode'] in self.requests:d} ")
    return turn(self, row)


__main__.TurnWorker.turn = watched


class Gone(Look):
    """Its pictures are files, which are gone after the next turn."""
    async def on_turn_end(self, infer_request, response_choice, current_turn):
        for image in infer_request.images:
            if "/gone-" in image:
                os.remove(image)
        return {}

    def step(self, infer_request, response_choice, current_turn):
        path = f"{os.path.dirname(BLUE)}/gone-{infer_request.uuid}.png"
        opened(infer_request.images[0]).crop((0, 0, 30, 40 + 10 * current_turn)).save(path)
        infer_request.messages.append({"role": "user", "content": "<image>"})
        infer_request.images.append(path)
        return {"infer_request": infer_request}


class Bad(Look):
    def step(self, infer_request, response_choice, current_turn):
        infer_request.messages.append({"role": "user", "content": "<image>"})
        infer_request.images.append("/no/such.png")
        return {"infer_request": infer_request}


class Paint(Env):
    async def reset(self, config):
        self.left = 2
        config.images = [BLUE]
        return "You see <image>.", {}, "Play."

    async def step(self, action):
        self.left -= 1
        return [{"type": "text", "text": "Now "}, {"type": "image", "image": Image.new("RGB", (56, 56), (9, 200, 9))}], 1.0, self.left == 0, {}

    async def close(self):
        pass


class Count(ORM):
    def __call__(self, completions, images=None, **kwargs):
        return [len(each or []) + len(text) % 3 for each, text in zip(images or [None] * len(completions), completions)]


multi_turns.update(look=Look, crash=Crash, gone=Gone, bad=Bad)
envs["paint"], orms["count"] = Paint, Count
'''


@pytest.fixture
def turns(place, tmp_path):
    text = TURNS.replace("BLUE", repr(str(place / "blue.png")))
    (tmp_path / "turns.py").write_text(text.replace("CRASHED", str(tmp_path / "crashed")).replace("ROWS", str(tmp_path / "rows.txt")))
    return dict(external_plugins=tmp_path / "turns.py", plugin_python=sys.executable, reward_funcs="count", max_turns=3, log_completions="true")


def test_turns_bring_images(rlhf, place, tmp_path, turns):
    """Rows' media, those of turns and of environments are seen by engine, server, trainer, rewards, PPO and distillation; a run interrupted in a rollout resumes exactly."""
    rows = [json.loads(line) for line in (place / "rows.jsonl").read_text().splitlines()]
    pictures = write_rows(tmp_path / "pictures.jsonl", [row for row in rows if not row["videos"]] + rows[:1])
    look = {**GRPO, **turns, "multi_turn_scheduler": "look", "dataset": pictures, "max_steps": 2}
    inside = rlhf(tmp_path / "inside", **look)
    agrees(steps_of(inside))
    table = json.loads((tmp_path / "inside" / "completions.jsonl").read_text().splitlines()[0])
    shown = [text.count("<|vision_start|><|image_pad|>") for text in table["prompt"]]
    assert set(shown) == {1, 3, 4} and steps_of(inside)[0]["num_turns"] == 3, shown  # of no, one and two images of the row
    assert all("Closer." in text and "And " in text for text, count in zip(table["prompt"], shown) if count > 1)
    assert [int(count) - len(text) % 3 for count, text in zip(table["Count"], table["completion"])] == shown
    server = RolloutServer(place / "model")
    with serving(server):
        for name, count, more in (("one", 1, {}), ("two", 2, dict(per_device_train_batch_size=8)), ("ahead", 2, dict(per_device_train_batch_size=8, async_generate="true"))):
            run = rlhf(tmp_path / name, count=count, **{**look, **more}, **served(server))
            if name != "ahead":
                agrees(steps_of(run))
                same_course(steps_of(inside), steps_of(run), 2e-4)
            else:  # the first rollout has the first weights
                assert run.code == 0 and steps_of(run)[0]["loss"] == pytest.approx(steps_of(inside)[0]["loss"], abs=1e-5), run.err
    played = rlhf(tmp_path / "played", **{**look, "multi_turn_scheduler": "gym_scheduler", "gym_env": "paint"})
    agrees(steps_of(played))
    table = json.loads((tmp_path / "played" / "completions.jsonl").read_text().splitlines()[0])
    assert {text.count("<|vision_start|><|image_pad|>") for text in table["prompt"]} == {2} and set(table["gym_reward"]) == {2.0}
    for scheduler, more in (("look", {}), ("gym_scheduler", dict(gym_env="paint"))):
        settings = {**look, "multi_turn_scheduler": scheduler, "steps_per_generation": 2, "per_device_train_batch_size": 8, "max_steps": 3, "save_strategy": "steps", "save_steps": 1, **more}
        whole = steps_of(rlhf(tmp_path / f"whole-{scheduler}", **settings))
        resumed = steps_of(rlhf(tmp_path / f"resumed-{scheduler}", resume_from_checkpoint=tmp_path / f"whole-{scheduler}" / "checkpoint-1", **settings))
        assert [(step["loss"], step["grad_norm"]) for step in whole[1:]] == [(step["loss"], step["grad_norm"]) for step in resumed[-2:]]


def test_images_of_turns_need_no_file(rlhf, place, tmp_path, turns):
    """Engine, server, trainer and a run that is resumed in a rollout read what a scheduler's file held when it was shown."""
    rows = [row for row in map(json.loads, (place / "rows.jsonl").read_text().splitlines()) if row["images"]] * 2
    settings = {**GRPO, **turns, "multi_turn_scheduler": "gone", "max_turns": 2, "dataset": write_rows(tmp_path / "pictures.jsonl", rows), "steps_per_generation": 2, "per_device_train_batch_size": 8,
                "max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    whole = rlhf(tmp_path / "whole", **settings)
    assert not list(place.glob("gone-*")) and "no such file" not in whole.err, whole.err
    agrees(steps_of(whole)[:1])
    resumed = rlhf(tmp_path / "resumed", resume_from_checkpoint=tmp_path / "whole" / "checkpoint-1", **settings)
    assert steps_of(whole)[-1]["loss"] == steps_of(resumed)[-1]["loss"] and steps_of(whole)[-1]["grad_norm"] == steps_of(resumed)[-1]["grad_norm"]
    server = RolloutServer(place / "model")
    with serving(server):
        served_run = rlhf(tmp_path / "served", **settings, **served(server))
        assert "no such file" not in served_run.err
        same_course(steps_of(whole)[:1], steps_of(served_run)[:1], 2e-4)  # the second update is of the same rollout


def test_plugins_get_images_once(rlhf, place, tmp_path, turns):
    """A worker keeps the images of its episodes; a new one gets them again."""
    rows = [row for row in map(json.loads, (place / "rows.jsonl").read_text().splitlines()) if row["images"]][:1] * 4
    settings = {**GRPO, **turns, "multi_turn_scheduler": "crash", "dataset": write_rows(tmp_path / "pictures.jsonl", rows), "num_generations": 2, "per_device_train_batch_size": 4, "max_steps": 1}
    run = rlhf(tmp_path / "run", **settings)
    assert steps_of(run)[0]["num_turns"] == 2.5, run.err  # three episodes of three turns, and one of one
    # Four turns, of which the first kills the worker; the others, and again in full; then two turns of three.
    assert (tmp_path / "rows.txt").read_text().split() == ["01"] + ["00"] * 3 + ["10"] * 3 + ["01"] * 6
    shown = [text.count("<|vision_start|><|image_pad|>") for text in json.loads((tmp_path / "run" / "completions.jsonl").read_text().splitlines()[0])["prompt"]]
    assert sorted(shown) == [1, 3, 3, 3]


def test_methods_with_images_in_turns(rlhf, place, tmp_path, turns):
    rows = [row for row in map(json.loads, (place / "rows.jsonl").read_text().splitlines()) if row["images"]] * 2
    pictures = write_rows(tmp_path / "pictures.jsonl", rows)
    common = {**turns, "multi_turn_scheduler": "look", "dataset": pictures}
    ppo = steps_of(rlhf(tmp_path / "ppo", rlhf_type="ppo", **common))
    assert len(ppo) == 2 and abs(ppo[0]["objective/kl"]) < 1e-5
    common.pop("reward_funcs")
    found = steps_of(rlhf(tmp_path / "gkd", rlhf_type="gkd", teacher_model=place / "model", lmbda=1, max_steps=1, **common))
    assert abs(found[0]["loss"]) < 1e-6 and found[0]["num_turns"] == 3  # the student is its teacher
    bad = rlhf(tmp_path / "bad", **{**GRPO, **turns, "multi_turn_scheduler": "bad", "dataset": pictures})
    assert bad.code == 0 and "no such file" in bad.err and "the episode ends there" in bad.err and steps_of(bad)[0]["num_turns"] == 1, bad.err


class Camera(Handler):
    """A tool that answers with a picture, over plain HTTP and MCP."""
    picture = None

    def do_POST(self):
        asked = self.question()
        if self.path == "/call":
            return self.reply(200, json.dumps({"result": "taken: <image>", "images": ["data:image/png;base64," + self.picture]}))
        failed = self.path == "/broken"
        results = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "camera", "version": "1"}},
                   "tools/list": {"tools": [{"name": "camera", "description": "looks", "inputSchema": {"type": "object"}}]},
                   "tools/call": {"content": [{"type": "text", "text": "taken:"}, {"type": "image", "data": self.picture, "mimeType": "image/png"}], "isError": failed}}
        if "id" not in asked:
            return self.reply(202)
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}), {"Content-Type": "application/json"})


class TextServer(Handler):
    """A server of OpenAI's completions API that calls the camera."""
    def do_GET(self):
        self.reply(200, json.dumps({"data": [{"id": "text"}]}), {"Content-Type": "application/json"})

    def do_POST(self):
        asked = self.question()
        prompt = asked["prompt"]
        TextServer.shortest = min(len(prompt), getattr(TextServer, "shortest", len(prompt)))
        text = '<tool_call>\n{"name": "camera", "arguments": {}}\n</tool_call>' if len(prompt) == TextServer.shortest else "fine"
        self.reply(200, json.dumps({"choices": [{"text": text, "finish_reason": "stop"}]}), {"Content-Type": "application/json"})


@pytest.fixture(scope="module")
def caller(place, tmp_path_factory):
    """The model, which has learnt by heart to use the camera."""
    folder = tmp_path_factory.mktemp("caller")
    call = {"role": "tool_call", "content": '{"name": "camera", "arguments": {}}'}
    rows = [{"messages": [{"role": "user", "content": "look"}, call, {"role": "tool", "content": "seen"}, {"role": "assistant", "content": "fine"}]}] * 16
    swift("sft", "--model", place / "model", "--dataset", write_rows(folder / "rows.jsonl", rows), "--tuner_type", "full", "--torch_dtype", "float32", "--max_steps", 80, "--logging_steps", 80,
          "--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 1, "--learning_rate", "3e-3", "--split_dataset_ratio", 0, "--add_version", "false", "--save_steps", 80,
          "--save_only_model", "true", "--output_dir", folder / "out")
    return folder / "out" / "checkpoint-80"


def test_servers_that_get_text_alone_show_no_images(place, tmp_path):
    Camera.picture = base64.b64encode((place / "blue.png").read_bytes()).decode()
    grpo = rlhf_runner(BASE, place / "model", write_rows(tmp_path / "rows.jsonl", [{"messages": [{"role": "user", "content": "look"}]}]))
    with local_serving(Camera) as address, local_serving(TextServer) as generator:
        run = grpo(tmp_path / "run", rlhf_type="grpo", **SHORT, num_generations=4, max_steps=1, log_completions="true", multi_turn_scheduler="hermes_tools", max_turns=2,
                   tool_servers=f"camera={address}/call", vllm_mode="server", vllm_server_base_url=generator, vllm_server_type="openai", max_completion_length=64)
    assert run.code == 0 and "shown as [image]" in run.err, run.err
    prompt = json.loads((tmp_path / "run" / "completions.jsonl").read_text())["prompt"][0]
    assert "taken: [image]" in prompt and "<|vision_start|>" not in prompt, prompt


def test_tools_that_return_images(place, caller, tmp_path):
    Camera.picture = base64.b64encode((place / "blue.png").read_bytes()).decode()
    rows = write_rows(tmp_path / "rows.jsonl", [{"messages": [{"role": "user", "content": "look"}]}])
    grpo = rlhf_runner({**BASE, "freeze_vit": "true"}, caller, rows)
    settings = {**GRPO, "max_completion_length": 48, "soft_cache_length": 40, "temperature": 0.05, "num_generations": 4, "per_device_train_batch_size": 4, "max_steps": 1, "log_completions": "true",
                "multi_turn_scheduler": "hermes_tools", "max_turns": 2}
    with local_serving(Camera) as address:
        for name, where in (("http", dict(tool_servers=f"camera={address}/call")), ("mcp", dict(mcp_servers=f"{address}/mcp"))):
            run = grpo(tmp_path / name, **settings, **where)
            assert run.code == 0, run.err
            agrees(steps_of(run))
            prompt = json.loads((tmp_path / name / "completions.jsonl").read_text())["prompt"][0]
            assert steps_of(run)[0]["tools/calls"] == 1 and steps_of(run)[0]["tools/failures"] == 0
            assert "taken:" in prompt and prompt.count("<|vision_start|><|image_pad|>") == 1 and prompt.index("<tool_response>") < prompt.index("<|vision_start|>") < prompt.index("</tool_response>"), prompt
        failed = grpo(tmp_path / "failed", **settings, mcp_servers=f"{address}/broken")
        assert failed.code == 0, failed.err
        prompt = json.loads((tmp_path / "failed" / "completions.jsonl").read_text())["prompt"][0]
        assert steps_of(failed)[0]["tools/failures"] == 1 and "Error: taken:\n[image]" in prompt and "<|vision_start|>" not in prompt and "<image>" not in prompt, prompt
