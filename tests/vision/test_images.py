"""Rows with images as batches: tokens, labels, positions and pixels as transformers' processor and the two peers' rules make them."""
import base64
import math
import random

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil, get_optimal_tiled_canvas
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from media_runs import trace
from vision_models import GEMMA_PROCESSOR, INTERN_PROCESSOR, as_chat_model, smart_resize

SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"


@pytest.fixture(scope="session")
def folder(folders):
    return folders("qwen2_5_vl")


def noise(generator, width, height, mode):
    channels = {"RGB": 3, "L": 1, "RGBA": 4, "LA": 2, "P": 3, "1": 1, "CMYK": 4, "I;16": 1}[mode]
    pixels = generator.integers(0, 256, (height, width, channels), dtype=np.uint8)
    if mode == "I;16":
        return Image.fromarray(generator.integers(0, 600, (height, width)).astype(np.uint16))
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels, None if mode in ("P", "1") else mode)
    return image.quantize(16) if mode == "P" else image.convert(mode)


QWEN3 = {"patch_size": 16, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}  # of Qwen3-VL


def swift_pixels(image, low, high, factor=28, **processor):
    image = image.convert("RGB")
    height, width = smart_resize(image.height, image.width, factor, low, high)
    return Qwen2VLImageProcessorPil(**processor)(images=image.resize((width, height)), do_resize=False, return_tensors="pt")


def factory_regular(image, low, high):
    def scaled(image, pixels):
        by = math.sqrt(pixels / (image.width * image.height))
        return image.resize((int(image.width * by), int(image.height * by)))

    image = scaled(image, high) if image.width * image.height > high else image
    return (scaled(image, low) if image.width * image.height < low else image).convert("RGB")


def factory_pixels(image, low, high, **processor):
    image = factory_regular(image, low, high)
    if min(image.size) < 28:
        image = image.resize((max(image.width, 28), max(image.height, 28)))
    processor = processor or {"min_pixels": 3136, "max_pixels": 12845056}
    return Qwen2VLImageProcessorPil(**processor)(images=image, return_tensors="pt")


def random_images(folder, count, seed, without=()):
    """Sizes from a pixel up, every mode of PNG, JPEG with all samplings, lossy and lossless WebP."""
    generator, draw, paths = np.random.default_rng(seed), random.Random(seed), []
    for number in range(count):
        kind, mode = draw.choice([("png", m) for m in ("RGB", "L", "RGBA", "LA", "P", "1", "I;16")] +
                                 [("jpg", m) for m in ("RGB", "L", "CMYK")] + [("webp", m) for m in ("RGB", "RGBA")])
        if mode in without:
            mode, kind = "RGB", "jpg"
        image = noise(generator, draw.randint(2, 240), draw.randint(2, 240), mode)
        settings = {"jpg": {"quality": draw.choice([50, 95]), "progressive": draw.random() < 0.4}, "webp": {"lossless": draw.random() < 0.5}}
        paths.append(folder / f"{number}.{kind}")
        image.save(paths[-1], **settings.get(kind, {}))
    return paths


def rows_of(paths):
    return [{"messages": [{"role": "user", "content": "<image>?"}, {"role": "assistant", "content": "a"}], "images": [str(path)]} for path in paths]


RESIZED_BEFORE_RGB = ("I;16", "CMYK")  # by LLaMA-Factory; hone resizes them after


@pytest.mark.parametrize("dialect", ["swift", "factory"])
def test_pixels_are_the_peers_bit_for_bit(folder, tmp_path, dialect):
    low, high = (3136, 40 * 784) if dialect == "swift" else (1024, 20000)
    paths = random_images(tmp_path, 90, seed=0, without=RESIZED_BEFORE_RGB if dialect == "factory" else ())
    wanted = [(swift_pixels if dialect == "swift" else factory_pixels)(Image.open(path), low, high) for path in paths]
    limits = {"min_pixels": low, "max_pixels": high} if dialect == "swift" else {"image_min_pixels": low, "image_max_pixels": high}
    done, batch = trace(folder, tmp_path, rows_of(paths), dialect=dialect, template="qwen2_vl", **limits)
    assert done.returncode == 0, done.stderr
    assert torch.equal(batch["grids"], torch.cat([w["image_grid_thw"] for w in wanted]))
    assert torch.equal(batch["patches"], torch.cat([w["pixel_values"] for w in wanted]))


@pytest.mark.parametrize("dialect", ["swift", "factory"])
def test_pixels_of_qwen3_vl(folders, tmp_path, dialect):
    """Cells of 32 pixels, colours around one half."""
    folder = folders("qwen3_vl")
    paths = random_images(tmp_path, 24, seed=1, without=RESIZED_BEFORE_RGB if dialect == "factory" else ())
    if dialect == "swift":
        wanted = [swift_pixels(Image.open(path), 4096, 40 * 1024, 32, **QWEN3) for path in paths]
        limits = {"min_pixels": 4096 + 7, "max_pixels": 40 * 1024 + 900}  # cut to whole tokens
    else:
        wanted = [factory_pixels(Image.open(path), 1024, 20000, min_pixels=65536, max_pixels=16777216, **QWEN3) for path in paths]
        limits = {"image_min_pixels": 1024, "image_max_pixels": 20000}
    done, batch = trace(folder, tmp_path, rows_of(paths), dialect=dialect, template="qwen3_vl_nothink" if dialect == "factory" else "", **limits)
    assert done.returncode == 0, done.stderr
    assert torch.equal(batch["grids"], torch.cat([w["image_grid_thw"] for w in wanted]))
    assert torch.equal(batch["patches"], torch.cat([w["pixel_values"] for w in wanted]))


def intern_tiles(image, most=12):
    """OpenGVLab's dynamic_preprocess, torchvision's ToTensor and Normalize."""
    image = image.convert("RGB")
    across, down = get_optimal_tiled_canvas((image.height, image.width), (56, 56), 1, most)
    large = image.resize((56 * across, 56 * down))
    tiles = [large.crop((56 * x, 56 * y, 56 * x + 56, 56 * y + 56)) for y in range(down) for x in range(across)]
    tiles += [image.resize((56, 56))] if len(tiles) > 1 else []
    pixels = torch.stack([torch.from_numpy(np.array(tile)).permute(2, 0, 1).float().div(255) for tile in tiles])
    mean, std = (torch.tensor(INTERN_PROCESSOR[name]).view(3, 1, 1) for name in ("image_mean", "image_std"))
    return pixels.sub(mean).div(std)


def squares(patches):
    """Rows of patches as pictures of 56 x 56."""
    return patches.view(-1, 2, 2, 2, 2, 3, 14, 14).permute(0, 5, 1, 3, 6, 2, 4, 7).reshape(-1, 3, 56, 56)


def test_tiles_of_internvl(folders, tmp_path):
    """Both spellings as ms-swift cuts images, and LLaMA-Factory with and without crop_to_patches."""
    (tmp_path / "chat").mkdir()
    folder = folders("internvl")
    chat = as_chat_model(folder, tmp_path / "chat")
    paths = random_images(tmp_path, 24, seed=2, without=RESIZED_BEFORE_RGB)
    processor = GotOcr2ImageProcessorPil(**{k: v for k, v in INTERN_PROCESSOR.items() if k != "image_processor_type"})
    cut = lambda image, **options: processor(images=image, return_tensors="pt", **options)["pixel_values"]
    cases = {"hf": (folder, {}, lambda image: cut(image.convert("RGB"), crop_to_patches=True)),
             "chat": (chat, {}, intern_tiles),
             "fewer": (chat, {"max_tiles": 5}, lambda image: intern_tiles(image, 5)),
             "factory": (folder, {"dialect": "factory", "template": "intern_vl", "image_max_pixels": 20000},
                         lambda image: cut(factory_regular(image, 1024, 20000))),
             "crops": (folder, {"dialect": "factory", "template": "intern_vl", "image_max_pixels": 20000, "crop_to_patches": True},
                       lambda image: cut(factory_regular(image, 1024, 20000), crop_to_patches=True))}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pad = tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>")
    for case, (model, options, pixels) in cases.items():
        wanted = [pixels(Image.open(path)) for path in paths]
        done, batch = trace(model, tmp_path, rows_of(paths), **options)
        assert done.returncode == 0, done.stderr
        assert batch["grids"].tolist() == [[len(tiles), 4, 4] for tiles in wanted], case
        assert torch.equal(squares(batch["patches"]), torch.cat(wanted)), case
        assert batch["positions"].dim() == 1 and batch["rows"].tolist() == (batch["tokens"] == pad).nonzero().flatten().tolist()
        first = tokenizer.decode(batch["tokens"][:batch["rows"][0] + 4 * len(wanted[0]) + 8])
        behind = "" if "dialect" in options else "\n"  # ms-swift begins a line behind an image
        assert "<img>" + "<IMG_CONTEXT>" * (4 * len(wanted[0])) + "</img>" + behind + "?" in first, case


def test_crops_of_gemma3(folders, tmp_path):
    """LLaMA-Factory's image_do_pan_and_scan: long images once more in pieces, with its words around them; ms-swift shows them whole alone."""
    folder, generator = folders("gemma3"), np.random.default_rng(3)
    sizes = [(900, 300), (300, 850), (520, 400), (1100, 257), (400, 400), (700, 250), (1500, 900)]  # the last one is shrunk before; (700, 250) is too narrow
    paths = [tmp_path / f"{i}.png" for i in range(len(sizes))]
    for path, (width, height) in zip(paths, sizes):
        noise(generator, width, height, "RGB").save(path)
    processor = Gemma3ImageProcessorPil(**{k: v for k, v in GEMMA_PROCESSOR.items() if k in ("size", "resample", "image_mean", "image_std")})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    square = f"\n\n<start_of_image>{'<image_soft_token>' * 4}<end_of_image>\n\n"
    rules = {"do_pan_and_scan": True, "pan_and_scan_min_crop_size": 256, "pan_and_scan_max_num_crops": 4, "pan_and_scan_min_ratio_to_activate": 1.2}
    done, batch = trace(folder, tmp_path, rows_of(paths), dialect="factory", template="gemma3", pan_and_scan=True)
    assert done.returncode == 0, done.stderr
    wanted = [processor(images=factory_regular(Image.open(path), 1024, 589824), return_tensors="pt", **rules) for path in paths]
    crops = [int(w["num_crops"][0]) for w in wanted]
    assert crops == [3, 3, 2, 4, 0, 0, 2]
    assert torch.equal(squares(batch["patches"]), torch.cat([w["pixel_values"] for w in wanted]))
    shown = [f"Here is the original image {square} and here are some crops to help you see better " + " ".join([square] * count) for count in crops]
    text = "".join(f"<start_of_turn>user\n{one}?<end_of_turn>\n<start_of_turn>model\na<end_of_turn>\n" for one in shown)
    assert batch["tokens"].tolist() == tokenizer(text, add_special_tokens=False).input_ids
    done, batch = trace(folder, tmp_path, rows_of(paths))
    assert done.returncode == 0 and len(squares(batch["patches"])) == len(paths), done.stderr


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
        response = tokenizer(answer + "<|im_end|>").input_ids + (tokenizer("\n").input_ids if dialect == "swift" else [])
        ids = prompt + response
        learned = [-100] * len(prompt) + response
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


def test_sources_are_read_however_they_are_written(folder, tmp_path):
    """White space around a path, base64 in lines, schemes in capitals."""
    Image.effect_noise((100, 60), 50).convert("RGB").save(tmp_path / "a.png")
    row = lambda source: {"messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "a"}], "images": [source]}
    lines = base64.encodebytes((tmp_path / "a.png").read_bytes()).decode()
    assert lines.count("\n") > 2
    plain = trace(folder, tmp_path, [row(str(tmp_path / "a.png"))])[1]["patches"]
    for source in (f" {tmp_path / 'a.png'}\n", lines, lines.replace("\n", "\r\n"), "DATA:IMAGE/PNG;BASE64," + lines, f"\tdata:image/png;base64,{lines}", f"FILE://{tmp_path / 'a.png'}"):
        done, batch = trace(folder, tmp_path, [row(source)])
        assert done.returncode == 0, (source[:40], done.stderr)
        assert torch.equal(batch["patches"], plain)
    done = trace(folder, tmp_path, [row(" HTTP://127.0.0.1:9/a.png")])[0]
    assert done.returncode == 3 and "no such file" not in done.stderr and "http://127.0.0.1:9/a.png" in done.stderr.lower(), done.stderr


BAD = {
    "empty.png": (b"", "0 bytes"),
    "text.png": (b"hello, I am a text and no picture at all", "expected PNG, JPEG, WebP, GIF, BMP or TIFF"),
    "animation.gif": (b"GIF89a" + b"\0" * 40, "the GIF file is truncated"),
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


@pytest.mark.parametrize("kind", ["png", "jpg", "webp", "gif", "bmp", "tiff"])
def test_a_cut_off_picture_is_found_from_its_end(folder, tmp_path, kind):
    Image.effect_noise((64, 64), 50).convert("RGB").save(tmp_path / f"whole.{kind}")
    whole = (tmp_path / f"whole.{kind}").read_bytes()
    (tmp_path / f"half.{kind}").write_bytes(whole[:len(whole) // 2])
    row = {"messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "a"}], "images": [str(tmp_path / f"half.{kind}")]}
    done, _ = trace(folder, tmp_path, [row])
    assert done.returncode == 3 and "truncated" in done.stderr


def test_tags_and_images_must_agree_as_the_peer_says(folder, tmp_path):
    Image.new("RGB", (56, 56)).save(tmp_path / "a.png")
    row = {"messages": [{"role": "user", "content": "no tag"}, {"role": "assistant", "content": "a"}], "images": [str(tmp_path / "a.png")]}
    done, _ = trace(folder, tmp_path, [row], dialect="factory", template="qwen2_vl")
    assert done.returncode == 3 and "media: 0 tags <image> for 1 image;" in done.stderr
    _, batch = trace(folder, tmp_path, [row], template="qwen2_vl")  # ms-swift puts the tag before the first message
    assert len(batch["rows"]) == 4
    unnamed = {"messages": [{"role": "user", "content": "<image>What?"}, {"role": "assistant", "content": "a"}], "image_path": str(tmp_path / "a.png")}
    done, _ = trace(folder, tmp_path, [unnamed], dialect="factory", template="qwen2_vl")
    assert done.returncode == 3 and "1 tag <image> for 0 images" in done.stderr
    again = {"messages": [{"role": "user", "content": "<image><audio>What?"}, {"role": "assistant", "content": "a"}], "images": [str(tmp_path / "a.png")]}
    done = trace(folder, tmp_path, [unnamed, again], template="qwen2_vl")[0]  # ms-swift leaves it in the text
    assert done.returncode == 0 and 'more tags <image> than images: those left over stay text; images are read from the column "images"' in done.stderr
    assert "more tags <audio> than audios" in done.stderr and done.stderr.count("more tags") == 2, "one for each kind"


def test_a_text_may_name_its_images_as_in_ms_swift(folder, tmp_path):
    for i, name in enumerate("ab"):
        Image.new("RGB", (56, 56 * (i + 1)), (90, 30 * i, 0)).save(tmp_path / f"{name}.png")
    paths = [str(tmp_path / f"{name}.png") for name in "ab"]
    talk = lambda first, second: [{"role": "user", "content": first}, {"role": "assistant", "content": f"a {second}"}]
    named = {"messages": talk(f"<img>{paths[0]}</img>What? <img>", f"<img>{paths[1]}</img>.")}
    listed = {"messages": talk("<image>What? <img>", "<image>."), "images": paths}
    (done, ours), (_, wanted) = trace(folder, tmp_path, [named], template="qwen2_vl"), trace(folder, tmp_path, [listed], template="qwen2_vl")
    assert done.returncode == 0 and "more tags" not in done.stderr, done.stderr
    assert all(torch.equal(ours[key], wanted[key]) for key in ("tokens", "targets", "patches", "rows"))
    _, beside = trace(folder, tmp_path, [{"messages": talk(f"<image><img>{paths[1]}</img>", ""), "images": paths[:1]}], template="qwen2_vl")
    assert len(beside["rows"]) == 4, "a row with images keeps its text"
    done, _ = trace(folder, tmp_path, [{"messages": talk("<img>none.png</img>", "")}], template="qwen2_vl")
    assert done.returncode == 3 and "none.png" in done.stderr
    done, _ = trace(folder, tmp_path, [{"messages": talk(f"<img>{paths[0]}</img>", "")}], dialect="factory", template="qwen2_vl")
    assert done.returncode == 0 and "images" not in done.stderr, "LLaMA-Factory knows no such names"


def test_a_text_that_spells_the_placeholder_is_refused(folder, tmp_path):
    row = {"messages": [{"role": "user", "content": "<|image_pad|>"}, {"role": "assistant", "content": "a"}]}
    done, _ = trace(folder, tmp_path, [row], template="qwen2_vl")
    assert done.returncode == 3 and "placeholder" in done.stderr
