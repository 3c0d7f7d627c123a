"""Rows with images as batches: tokens, labels, positions and pixels as transformers' processor and the two peers' rules make them."""
import base64
import json
import math
import os
import random
import subprocess

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from vision_models import ROOT, write_vision_model

HONE = os.environ.get("HONE_BIN", str(ROOT / "build" / "bin" / "hone"))
SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write_vision_model(tmp_path_factory.mktemp("images"), "qwen2_5_vl")


def trace(folder, out, rows, **settings):
    (out / "asked.json").write_text(json.dumps({"model": str(folder), "rows": rows, "output": str(out / "batch.safetensors"), **settings}))
    done = subprocess.run([HONE, "image-trace", out / "asked.json"], capture_output=True, text=True)
    return done, load_file(out / "batch.safetensors") if done.returncode == 0 else None


def noise(generator, width, height, mode):
    channels = {"RGB": 3, "L": 1, "RGBA": 4, "LA": 2, "P": 3, "1": 1, "CMYK": 4, "I;16": 1}[mode]
    pixels = generator.integers(0, 256, (height, width, channels), dtype=np.uint8)
    if mode == "I;16":
        return Image.fromarray(generator.integers(0, 600, (height, width)).astype(np.uint16))
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels, None if mode in ("P", "1") else mode)
    return image.quantize(16) if mode == "P" else image.convert(mode)


def utils_size(height, width, low, high, factor=28):
    """qwen_vl_utils' smart_resize."""
    h, w = max(factor, round(height / factor) * factor), max(factor, round(width / factor) * factor)
    if h * w > high:
        beta = math.sqrt(height * width / high)
        h, w = math.floor(height / beta / factor) * factor, math.floor(width / beta / factor) * factor
    elif h * w < low:
        beta = math.sqrt(low / (height * width))
        h, w = math.ceil(height * beta / factor) * factor, math.ceil(width * beta / factor) * factor
    return h, w


def swift_pixels(image, low, high):
    image = image.convert("RGB")
    height, width = utils_size(image.height, image.width, low, high)
    return Qwen2VLImageProcessorPil()(images=image.resize((width, height)), do_resize=False, return_tensors="pt")


def factory_pixels(image, low, high):
    def scaled(image, pixels):
        by = math.sqrt(pixels / (image.width * image.height))
        return image.resize((int(image.width * by), int(image.height * by)))

    image = scaled(image, high) if image.width * image.height > high else image
    image = (scaled(image, low) if image.width * image.height < low else image).convert("RGB")
    if min(image.size) < 28:
        image = image.resize((max(image.width, 28), max(image.height, 28)))
    return Qwen2VLImageProcessorPil(min_pixels=3136, max_pixels=12845056)(images=image, return_tensors="pt")


@pytest.mark.parametrize("dialect", ["swift", "factory"])
def test_pixels_are_the_peers_bit_for_bit(folder, tmp_path, dialect):
    """Sizes from a pixel up, every mode of PNG, JPEG with all samplings, lossy and lossless WebP."""
    generator, draw, rows, wanted = np.random.default_rng(0), random.Random(0), [], []
    low, high = (3136, 40 * 784) if dialect == "swift" else (1024, 20000)
    for number in range(90):
        kind, mode = draw.choice([("png", m) for m in ("RGB", "L", "RGBA", "LA", "P", "1", "I;16")] +
                                 [("jpg", m) for m in ("RGB", "L", "CMYK")] + [("webp", m) for m in ("RGB", "RGBA")])
        if dialect == "factory" and mode in ("I;16", "CMYK"):
            mode, kind = "RGB", "jpg"  # the peer resizes these before they are RGB, hone after
        image = noise(generator, draw.randint(2, 240), draw.randint(2, 240), mode)
        settings = {"jpg": {"quality": draw.choice([50, 95]), "progressive": draw.random() < 0.4}, "webp": {"lossless": draw.random() < 0.5}}
        path = tmp_path / f"{number}.{kind}"
        image.save(path, **settings.get(kind, {}))
        rows.append({"messages": [{"role": "user", "content": "<image>?"}, {"role": "assistant", "content": "a"}], "images": [str(path)]})
        wanted.append((swift_pixels if dialect == "swift" else factory_pixels)(Image.open(path), low, high))
    limits = {"min_pixels": low, "max_pixels": high} if dialect == "swift" else {"image_min_pixels": low, "image_max_pixels": high}
    done, batch = trace(folder, tmp_path, rows, dialect=dialect, template="qwen2_vl", **limits)
    assert done.returncode == 0, done.stderr
    assert torch.equal(batch["grids"], torch.cat([w["image_grid_thw"] for w in wanted]))
    assert torch.equal(batch["patches"], torch.cat([w["pixel_values"] for w in wanted]))


@pytest.mark.parametrize("dialect", ["swift", "factory"])
def test_tokens_labels_and_positions(folder, tmp_path, dialect):
    """Two images in one row, one in the next, a row of text: paths, a data: URI, bare base64."""
    sizes = [(100, 60), (57, 200), (30, 30)]
    for i, (width, height) in enumerate(sizes):
        Image.new("RGB", (width, height), (40 * i, 100, 200)).save(tmp_path / f"{i}.png")
    encoded = [base64.b64encode((tmp_path / f"{i}.png").read_bytes()).decode() for i in range(3)]
    sources = [str(tmp_path / "0.png"), "data:image/png;base64," + encoded[1], encoded[2]]
    texts = [("What is <image> beside <image>?", "Two things."), ("<image>And this?", "One."), ("Hello", "Hi.")]
    images = [sources[:2], sources[2:], []]
    rows = [{"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}], "images": i} for (q, a), i in zip(texts, images)]
    done, batch = trace(folder, tmp_path, rows, dialect=dialect, template="qwen2_vl")
    assert done.returncode == 0, done.stderr

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    grids, tokens, targets, positions, start = batch["grids"], [], [], [], 0
    for (question, answer), own in zip(texts, images):
        mine, start = grids[start:start + len(own)], start + len(own)
        for grid in mine:
            question = question.replace("<image>", "<|vision_start|>" + "<|image_pad|>" * (int(grid.prod()) // 4) + "<|vision_end|>", 1)
        prompt = tokenizer(f"{SYSTEM}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n").input_ids
        said = tokenizer(answer + "<|im_end|>").input_ids + (tokenizer("\n").input_ids if dialect == "swift" else [])
        ids = prompt + said
        learned = [-100] * len(prompt) + said
        if dialect == "factory":
            tail = tokenizer("\n").input_ids  # LLaMA-Factory ends an answer so, and learns it
            ids, learned = ids + tail, learned + tail
        tokens += ids
        targets += learned[1:] + [-100]
        kinds = (torch.tensor([ids]) == model.config.image_token_id).int()
        place, _ = model.model.get_rope_index(torch.tensor([ids]), mm_token_type_ids=kinds, image_grid_thw=mine if len(own) else None)
        positions.append(place[-3:, 0])
    assert batch["tokens"].tolist() == tokens
    assert batch["targets"].tolist() == targets
    assert torch.equal(batch["positions"], torch.cat(positions, 1))
    assert batch["rows"].tolist() == [i for i, token in enumerate(tokens) if token == model.config.image_token_id]


BAD = {
    "empty.png": (b"", "0 bytes"),
    "text.png": (b"hello, I am a text and no picture at all", "expected PNG, JPEG or WebP"),
    "animation.gif": (b"GIF89a" + b"\0" * 40, "a GIF file"),
    "pointer.jpg": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a Git LFS pointer"),
    "bomb.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\x86\xa0\0\1\x86\xa0\x08\x02\0\0\0\0\0\0\0" + b"\0\0\0\0IEND\xae\x42\x60\x82", "decompression bomb"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_picture_is_a_bad_row(folder, tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    row = {"messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "a"}], "images": [str(tmp_path / name)]}
    done, _ = trace(folder, tmp_path, [row])
    assert done.returncode == 3 and message in done.stderr and name in done.stderr


@pytest.mark.parametrize("kind", ["png", "jpg", "webp"])
def test_a_cut_off_picture_is_found_from_its_end(folder, tmp_path, kind):
    Image.effect_noise((64, 64), 50).convert("RGB").save(tmp_path / f"whole.{kind}")
    whole = (tmp_path / f"whole.{kind}").read_bytes()
    (tmp_path / f"half.{kind}").write_bytes(whole[:len(whole) // 2])
    row = {"messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "a"}], "images": [str(tmp_path / f"half.{kind}")]}
    done, _ = trace(folder, tmp_path, [row])
    assert done.returncode == 3 and "cut off" in done.stderr


def test_tags_and_images_must_agree_as_the_peer_says(folder, tmp_path):
    Image.new("RGB", (56, 56)).save(tmp_path / "a.png")
    row = {"messages": [{"role": "user", "content": "no tag"}, {"role": "assistant", "content": "a"}], "images": [str(tmp_path / "a.png")]}
    done, _ = trace(folder, tmp_path, [row], dialect="factory", template="qwen2_vl")
    assert done.returncode == 3 and "0 tags <image> for 1 images" in done.stderr
    _, batch = trace(folder, tmp_path, [row], template="qwen2_vl")  # ms-swift puts the tag before the first message
    assert len(batch["rows"]) == 4


def test_a_text_that_spells_the_placeholder_is_refused(folder, tmp_path):
    row = {"messages": [{"role": "user", "content": "<|image_pad|>"}, {"role": "assistant", "content": "a"}]}
    done, _ = trace(folder, tmp_path, [row], template="qwen2_vl")
    assert done.returncode == 3 and "placeholder" in done.stderr
