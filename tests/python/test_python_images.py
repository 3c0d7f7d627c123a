"""Rows with images from Python, through hone itself and through Twinkle's interface: the losses of `hone sft`, and samplers that see what trainers see."""
import json
import sys

import pytest
from PIL import Image

from media_runs import losses, sft, write_rows
from python_environment import PACKAGES, ROOT, own_environment, run

sys.path.append(str(ROOT / "tests/vision"))
from vision_models import write_vision_model  # noqa: E402

SCRIPT = '''
import json, pickle, sys
import hone

folder, rows = sys.argv[1], [json.loads(line) for line in open(sys.argv[2])]

def losses(batches):
    model = hone.Model(folder, dtype="float32")
    trainer = hone.Trainer(model, hone.LoraConfig(dropout=0), learning_rate=1e-3, total_steps=len(rows))
    return [trainer.train_step(batch)["loss"] for batch in batches(hone.Template(model))]

def by_twinkle(_):
    from hone.twinkle.batches import Rows
    from hone.twinkle.template import Template
    template = Template(folder)
    trajectories = []
    for row in rows:
        messages = [dict(message) for message in row["messages"]]
        if row.get("images"):  # next to their message, and as bytes
            messages[0]["images"] = [open(path, "rb").read() for path in row["images"]]
        trajectories.append({"messages": messages})
    features = pickle.loads(pickle.dumps(template.batch_encode(trajectories)))  # as they are sent to another process
    return [Rows([feature]).batch for feature in features]

encoded = hone.Template(folder).encode(rows[0])
try:
    hone.Batch.from_rows([{**encoded, "input_ids": encoded["input_ids"][:4], "labels": encoded["labels"][:4]}])
    raise SystemExit("a row without the places of its image was accepted")
except hone.DataError as error:
    refused = error.message
print(json.dumps([losses(lambda template: [hone.Batch.from_rows([template.encode(row)]) for row in rows]), losses(by_twinkle), encoded["media"].num_images, refused]))
'''


SAMPLED = '''
import json, pickle, sys
import hone
from safetensors import safe_open

folder, tuned, rows = sys.argv[1], sys.argv[2], [json.loads(line) for line in open(sys.argv[3])]
prompts = [{**row, "messages": row["messages"][:1]} for row in rows]
greedy = hone.SamplingParams(max_tokens=5, logprobs=True)

def trained_logprobs(trainer, template, prompt, answer):
    """What a trainer computes for the tokens that a sampler drew."""
    row = template.encode_prompt(prompt)
    ids = [*row["input_ids"], *answer.tokens]
    batch = hone.Batch.from_rows([{**row, "input_ids": ids, "labels": [-100] * len(row["input_ids"]) + list(answer.tokens)}])
    return trainer.evaluated_logprobs(batch)[batch.targets >= 0].tolist()

def compared(sampler, trainer, template, **how):
    answers = sampler.sample(prompts, greedy, **how)
    assert [list(answer.prompt) for answer in answers] == [list(template.encode_prompt(prompt)["input_ids"]) for prompt in prompts]
    return [[answer.logprobs.tolist(), trained_logprobs(trainer, template, prompt, answer)] for prompt, answer in zip(prompts, answers)]

out = {}
model = hone.Model(folder, dtype="float32")
template = hone.Template(model)
sampler = hone.Sampler(model)
out["twice"] = [answer.tokens.tolist() for answer in sampler.sample([prompts[0]] * 2, hone.SamplingParams(max_tokens=5, n=2))]
trainer = hone.Trainer(model, hone.LoraConfig(rank=4, dropout=0), learning_rate=0.05, freeze_vit=False, freeze_aligner=False)
out["base"] = compared(sampler, trainer, template)
for _ in range(3):
    trainer.train_step(hone.Batch.from_rows([template.encode(row) for row in rows]))
trainer.save_weights(tuned)
out["towers"] = sum("visual" in name for name in safe_open(f"{tuned}/adapter_model.safetensors", "np").keys())
out["trained"] = compared(sampler, trainer, template)
other = hone.Sampler(hone.Model(folder, dtype="float32"))  # the same weights as an adapter of an engine that has others, too
other.load_adapter("tuned", tuned)
out["adapter"] = compared(other, trainer, template, adapter="tuned")
out["beside"] = [answer.logprobs.tolist() for answer in other.sample(prompts, greedy)]
try:
    sampler.sample([{"input_ids": [1, 2, 3], "media": template.encode_prompt(prompts[0])["media"]}], greedy)
except hone.DataError as error:
    out["refused"] = error.message

from hone.twinkle.data_format import SamplingParams
from hone.twinkle.model import TransformersModel
from hone.twinkle.sampler import vLLMSampler
learner = TransformersModel(model_id=folder, mixed_precision="no")
drawer = vLLMSampler(model_id=folder, engine_args={"limit_mm_per_prompt": {"image": 9}}, torch_dtype="float32")
drawer.set_template("Qwen3_5Template")
blocks = [{"type": "image", "url": open(rows[0]["images"][0], "rb").read()}, {"type": "text", "text": "Colour?"}]
trajectory = {"messages": [{"role": "user", "content": blocks}], "user_data": [("ground_truth", "red")]}
responses = drawer.sample([trajectory] * 2, SamplingParams(max_tokens=5, temperature=0, logprobs=1))
sequence = responses[1].sequences[0]
feature = pickle.loads(pickle.dumps(sequence.new_input_feature))  # as it is sent to the model's processes
logps = learner.forward_only(inputs=[feature])["logps"][0]
out["twinkle"] = [[pair[0][1] for pair in sequence.logprobs], logps[[label >= 0 for label in feature["labels"]]].tolist()]
out["same"] = [sequence.tokens, other.sample([prompts[0]], greedy)[0].tokens.tolist()]
print(json.dumps(out))
'''


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A small model, its rows and their file."""
    place = tmp_path_factory.mktemp("pictures")
    folder = place / "model"
    folder.mkdir()
    write_vision_model(folder, "qwen2_5_vl")
    rows = []
    for number, name in enumerate(("red", "green", "blue")):
        Image.new("RGB", (60 + number, 50), name).save(place / f"{name}.png")
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": name}], "images": [str(place / f"{name}.png")]})
        rows.append({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]})
    return folder, write_rows(place / "rows.jsonl", rows), rows


def test_samplers_see_images(python, pictures, tmp_path):
    """Their log-probabilities are those that the trainer computes for the same tokens, also of adapters on the towers, and through Twinkle's interface."""
    folder, file, rows = pictures
    script = tmp_path / "script.py"
    script.write_text(SAMPLED)
    env = own_environment(PYTHONPATH=str(PACKAGES))
    out = json.loads(run(python, script, folder, tmp_path / "tuned", file, env=env).splitlines()[-1])
    for kind in ("base", "trained", "adapter"):
        for sampled, computed in out[kind]:
            assert sampled == pytest.approx(computed, abs=1e-4), kind
    assert out["towers"] > 0 and len(out["trained"]) == len(rows)
    assert out["beside"] == [pytest.approx(sampled, abs=1e-4) for sampled, _ in out["base"]] and out["base"][0] != out["trained"][0]
    assert out["base"][0][0] != pytest.approx(out["base"][2][0], abs=1e-6)  # red is not green
    assert len(out["twice"]) == 4 and all(tokens == out["twice"][0] for tokens in out["twice"]) and "placeholders" in out["refused"]
    sampled, computed = out["twinkle"]
    assert sampled == pytest.approx(computed, abs=1e-4) and out["same"][0] == out["same"][1]


def test_losses_are_those_of_hone_sft(python, pictures, tmp_path):
    folder, file, rows = pictures
    sft((folder, file, rows), tmp_path / "sft", "--lora_dropout", 0, "--warmup_ratio", 0, "--gradient_accumulation_steps", 1, "--save_strategy", "no")
    expected = losses(tmp_path / "sft")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    own, twinkle, images, refused = json.loads(run(python, script, folder, file, env=own_environment()).splitlines()[-1])
    assert len(expected) == len(rows) == len(own)
    assert own == pytest.approx(expected, rel=1e-5) and twinkle == pytest.approx(own, rel=1e-5)
    assert images == 1 and "placeholders" in refused
