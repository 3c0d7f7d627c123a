"""Rows with images from Python: the losses of `hone sft`, through hone itself and through Twinkle's interface."""
import json
import sys

import pytest
from PIL import Image

from media_runs import losses, sft, write_rows
from python_environment import ROOT, own_environment, run

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
        if row.get("images"):  # beside their message, and as bytes
            messages[0]["images"] = [open(path, "rb").read() for path in row["images"]]
        trajectories.append({"messages": messages})
    features = pickle.loads(pickle.dumps(template.batch_encode(trajectories)))  # as they travel to another process
    return [Rows([feature]).batch for feature in features]

encoded = hone.Template(folder).encode(rows[0])
try:
    hone.Batch.from_rows([{**encoded, "input_ids": encoded["input_ids"][:4], "labels": encoded["labels"][:4]}])
    raise SystemExit("a row without the places of its image was accepted")
except hone.DataError as error:
    refused = error.message
print(json.dumps([losses(lambda template: [hone.Batch.from_rows([template.encode(row)]) for row in rows]), losses(by_twinkle), encoded["media"].num_images, refused]))
'''


def test_losses_are_those_of_hone_sft(python, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    write_vision_model(folder, "qwen2_5_vl")
    rows = []
    for number, name in enumerate(("red", "green", "blue")):
        Image.new("RGB", (60 + number, 50), name).save(tmp_path / f"{name}.png")
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": name}], "images": [str(tmp_path / f"{name}.png")]})
        rows.append({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]})
    file = write_rows(tmp_path / "rows.jsonl", rows)
    sft((folder, file, rows), tmp_path / "sft", "--lora_dropout", 0, "--warmup_ratio", 0, "--gradient_accumulation_steps", 1, "--save_strategy", "no")
    expected = losses(tmp_path / "sft")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    own, twinkle, images, refused = json.loads(run(python, script, folder, file, env=own_environment()).splitlines()[-1])
    assert len(expected) == len(rows) == len(own)
    assert own == pytest.approx(expected, rel=1e-5) and twinkle == pytest.approx(own, rel=1e-5)
    assert images == 1 and "placeholders" in refused
