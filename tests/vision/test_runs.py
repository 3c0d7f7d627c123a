"""Runs with images: several processes of which some have none, adapters through PEFT, answers as transformers gives them."""
import json
import os
import re
import subprocess

import peft
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from vision_models import ROOT, write_vision_model

SWIFT = os.environ.get("HONE_BIN", str(ROOT / "build" / "bin" / "hone")).removesuffix("hone") + "swift"
COLOURS = {"red": (220, 30, 30), "green": (30, 170, 40), "blue": (30, 60, 220)}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A model, and rows of which every other one is text alone."""
    folder = write_vision_model(tmp_path_factory.mktemp("runs"), "qwen2_5_vl")
    rows = []
    for number, (name, colour) in enumerate(COLOURS.items()):
        path = folder.parent / f"{name}.png"
        Image.new("RGB", (60 + number, 50), colour).save(path)
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": name}], "images": [str(path)]})
        rows.append({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]})
    (folder.parent / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder, folder.parent / "rows.jsonl", rows


def swift(*words, **variables):
    done = subprocess.run([SWIFT, *map(str, words)], capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def sft(made, out, *words, **variables):
    folder, rows, _ = made
    return swift("sft", "--model", folder, "--dataset", rows, "--torch_dtype", "float32", "--num_train_epochs", 1, "--per_device_train_batch_size", 1,
                 "--learning_rate", "1e-3", "--split_dataset_ratio", 0, "--dataset_shuffle", "false", "--train_dataloader_shuffle", "false",
                 "--add_version", "false", "--output_dir", out, "--logging_steps", 1, *words, **variables)


def test_ranks_without_images_wait_for_nobody(made, tmp_path):
    whole = ("--tuner_type", "full", "--freeze_vit", "false", "--freeze_aligner", "false", "--save_strategy", "no", "--gradient_accumulation_steps")
    losses = [[float(loss) for loss in re.findall(r"'loss': ([\d.]+)", text)] for text in (
        sft(made, tmp_path / "one", *whole, 2), sft(made, tmp_path / "two", *whole, 1, NPROC_PER_NODE="2"),
        sft(made, tmp_path / "sharded", *whole, 1, "--deepspeed", "zero3", NPROC_PER_NODE="2"))]
    assert len(losses[0]) == 3
    assert losses[1] == pytest.approx(losses[0], rel=1e-5) and losses[2] == pytest.approx(losses[0], rel=1e-5)


def test_an_adapter_of_all_parts_is_peft_s(made, tmp_path):
    folder = made[0]
    sft(made, tmp_path / "run", "--tuner_type", "lora", "--freeze_vit", "false", "--freeze_aligner", "false", "--gradient_accumulation_steps", 2)
    adapter = tmp_path / "run" / "checkpoint-3"
    swift("export", "--model", folder, "--adapters", adapter, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    wrapped = peft.PeftModel.from_pretrained(model, adapter)
    saved = load_file(adapter / "adapter_model.safetensors")
    assert set(peft.get_peft_model_state_dict(wrapped)) == set(saved)
    assert any(".visual.blocks." in name for name in saved) and any(".visual.merger." in name for name in saved)
    ours = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path / "merged", dtype=torch.float32).state_dict()
    for name, weight in wrapped.merge_and_unload().state_dict().items():
        assert torch.allclose(ours[name], weight, atol=1e-6), name


def test_answers_are_transformers(made, tmp_path):
    folder, path, rows = made
    swift("infer", "--model", folder, "--val_dataset", path, "--result_path", tmp_path / "out.jsonl", "--max_new_tokens", 8, "--temperature", 0,
          "--torch_dtype", "float32")
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = Qwen2VLImageProcessorPil(min_pixels=3136, max_pixels=12845056)
    ends = [tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id]
    for row, line in zip(rows, (tmp_path / "out.jsonl").read_text().splitlines()):
        question, images = row["messages"][0]["content"], {}
        if "images" in row:
            images = dict(processor(images=Image.open(row["images"][0]).convert("RGB"), return_tensors="pt"))
            pads = "<|image_pad|>" * (int(images["image_grid_thw"].prod()) // 4)
            question = question.replace("<image>", f"<|vision_start|>{pads}<|vision_end|>")
        ids = tokenizer(f"<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n",
                        return_tensors="pt").input_ids
        if images:
            images["mm_token_type_ids"] = (ids == model.config.image_token_id).int()
        said = model.generate(input_ids=ids, **images, max_new_tokens=8, do_sample=False, eos_token_id=ends)[0, ids.shape[1]:]
        assert json.loads(line)["response"] == tokenizer.decode(said, skip_special_tokens=True)
