#!/usr/bin/env python3
"""Writes a tiny vision model and rows of coloured squares: out/model, out/train.jsonl, out/val.jsonl.

    python3 cookbook/vision/make_vision.py output/vision

The model is Qwen2.5-VL's architecture with random weights: it knows neither colours nor words before it is trained."""
import json
import pathlib
import random
import runpy
import sys

import torch
import transformers
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLOURS = {"red": (220, 30, 30), "green": (30, 170, 40), "blue": (30, 60, 220), "yellow": (235, 215, 30), "black": (15, 15, 15), "white": (245, 245, 245),
           "orange": (240, 140, 20), "purple": (140, 40, 170)}
SIDE = 56  # four cells of 28 x 28, so four tokens


def write_model(folder):
    runpy.run_path(str(ROOT / "tools" / "make_model.py"))["main"](["--family", "qwen2", "--vocab", "small", "--out", str(folder)])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    named = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>", "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
    config = transformers.Qwen2_5_VLConfig(
        text_config={"vocab_size": len(tokenizer), "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                     "intermediate_size": 256, "max_position_embeddings": 512, "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 4, 4]}},
        vision_config={"depth": 2, "hidden_size": 64, "out_hidden_size": 96, "intermediate_size": 128, "num_heads": 2, "window_size": 56, "fullatt_block_indexes": [1]},
        **{name: tokenizer.convert_tokens_to_ids(token) for name, token in named.items()})
    torch.manual_seed(0)
    transformers.Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2,
                                                                 "merge_size": 2, "image_processor_type": "Qwen2VLImageProcessor"}))


def write_rows(folder, name, count, seed):
    draw, rows = random.Random(seed), []
    (folder / name).mkdir(exist_ok=True)
    for number in range(count):
        colour = draw.choice(sorted(COLOURS))
        shade = tuple(min(255, max(0, c + draw.randint(-12, 12))) for c in COLOURS[colour])
        path = folder / name / f"{number}.png"
        Image.new("RGB", (draw.randint(40, 70), draw.randint(40, 70)), shade).save(path)
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": colour}], "images": [str(path)]})
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    (out / "model").mkdir(parents=True, exist_ok=True)
    write_model(out / "model")
    write_rows(out, "train", 512, seed=1)
    write_rows(out, "val", 64, seed=2)
