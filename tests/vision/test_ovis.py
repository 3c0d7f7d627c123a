"""Ovis2.5, which transformers lacks: compared with its formulas in plain PyTorch around transformers' Qwen3; image preprocessing, training, generation."""
import json
import math
import subprocess

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from media_runs import losses, swift, trace, write_rows
from test_images import random_images, rows_of
from test_towers import ask_hone, difference
from tiny_models import tiny_model

WIDTH, HEADS, DEPTH, WORDS, SIDE, TEXT = 32, 2, 3, 64, 4, 64  # SIDE x SIDE learned positions
VIT = {"hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS, "patch_size": 16, "num_patches": -1, "image_size": 16 * SIDE,
       "hidden_stride": 2, "window_size": 64, "temporal_patch_size": 1, "preserve_original_pe": True, "use_rope": True, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}
TOWER = "visual_tokenizer.vit.vision_model."


def write_ovis(folder, full_attention=None):
    tiny_model(folder, "qwen3")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|image_pad|>"]})
    tokenizer.save_pretrained(folder)
    config = transformers.Qwen3Config(vocab_size=len(tokenizer), hidden_size=TEXT, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                      intermediate_size=96, max_position_embeddings=2048, tie_word_embeddings=False, bos_token_id=None, eos_token_id=tokenizer.eos_token_id)
    torch.manual_seed(0)
    shapes = {"embeddings.patch_embedding.weight": (WIDTH, 3, 16, 16), "embeddings.patch_embedding.bias": (WIDTH,), "embeddings.position_embedding.weight": (SIDE * SIDE, WIDTH),
              "post_layernorm.weight": (WIDTH,), "post_layernorm.bias": (WIDTH,)}
    for i in range(DEPTH):
        sizes = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (WIDTH, WIDTH), "self_attn.v_proj": (WIDTH, WIDTH), "self_attn.out_proj": (WIDTH, WIDTH),
                 "mlp.fc1": (48, WIDTH), "mlp.fc2": (WIDTH, 48), "layer_norm1": (WIDTH,), "layer_norm2": (WIDTH,)}
        for name, shape in sizes.items():
            shapes |= {f"encoder.layers.{i}.{name}.weight": shape, f"encoder.layers.{i}.{name}.bias": shape[:1]}
    tensors = {TOWER + name: torch.randn(shape) * 0.15 + (1 if "norm" in name and name.endswith("weight") else 0) for name, shape in shapes.items()}
    tensors |= {"visual_tokenizer.head.0.weight": torch.randn(WORDS - 4, 4 * WIDTH) * 0.2, "visual_tokenizer.head.1.weight": 1 + torch.randn(WORDS - 4) * 0.2,
                "visual_tokenizer.head.1.bias": torch.randn(WORDS - 4) * 0.2, "vte.weight": torch.randn(WORDS, TEXT) * 0.5}
    tensors |= {"llm." + name: value.clone() for name, value in transformers.Qwen3ForCausalLM(config).state_dict().items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Ovis2_5"], "model_type": "ovis2_5", "hidden_size": TEXT, "visual_vocab_size": WORDS, "dtype": "float32",
        "llm_config": config.to_dict(), "vit_config": {**VIT, "fullatt_block_indexes": full_attention}}))
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "SiglipImageProcessor", "resample": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "rescale_factor": 1 / 255}))
    return folder


@pytest.fixture(scope="session")
def ovis(tmp_path_factory):
    return write_ovis(tmp_path_factory.mktemp("ovis"))


def by_cells(table, height, width):
    return table.reshape(height // 2, 2, width // 2, 2, -1).permute(0, 2, 1, 3, 4).reshape(height * width, -1)


def windows_of(height, width):
    """The window of every patch: squares of two cells."""
    rows, columns = torch.meshgrid(torch.arange(height) // 4, torch.arange(width) // 4, indexing="ij")
    return by_cells((rows * 1000 + columns)[:, :, None], height, width)[:, 0]


def tower_of(weights, rows, grid, windowed):
    """Embeddings of one picture or video, whose frames do not see each other, with the marks around it."""
    frames, height, width, *video = grid
    cells = torch.cat([frame_of(weights, own, height, width, windowed) for own in rows.view(frames, height * width, -1)])
    start, end = weights["vte.weight"][-2:] if any(video) else weights["vte.weight"][-4:-2]
    return torch.cat([start[None], cells, end[None]])


def frame_of(weights, rows, height, width, windowed):
    weight = lambda name: weights[TOWER + name]
    linear = lambda x, name: F.linear(x, weight(name + ".weight"), weight(name + ".bias"))
    norm = lambda x, name: F.layer_norm(x, (WIDTH,), weight(name + ".weight"), weight(name + ".bias"), 1e-6)
    x = F.linear(rows, weight("embeddings.patch_embedding.weight").flatten(1), weight("embeddings.patch_embedding.bias"))
    table = weight("embeddings.position_embedding.weight").view(1, SIDE, SIDE, WIDTH).permute(0, 3, 1, 2)
    x = x + by_cells(F.interpolate(table, size=(height, width), mode="bicubic", align_corners=False)[0].permute(1, 2, 0), height, width)
    places = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij"), -1).float()
    head = WIDTH // HEADS
    angles = (by_cells(places, height, width)[:, :, None] * 10000 ** -(torch.arange(head // 4) * 4 / head)).flatten(1)
    cos, sin = (f(torch.cat([angles, angles], 1))[:, None] for f in (torch.cos, torch.sin))
    turned = lambda y: y * cos + torch.cat([-y[..., head // 2:], y[..., :head // 2]], -1) * sin
    apart = windows_of(height, width)[:, None] != windows_of(height, width)[None]
    for i in range(DEPTH):
        at = f"encoder.layers.{i}."
        y = norm(x, at + "layer_norm1")
        q, k, v = (linear(y, f"{at}self_attn.{part}_proj").view(-1, HEADS, head) for part in "qkv")
        scores = torch.einsum("qhd,khd->hqk", turned(q), turned(k)) * head ** -0.5
        scores = scores.masked_fill(apart, -math.inf) if i in windowed else scores
        x = x + linear(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1), at + "self_attn.out_proj")
        x = x + linear(F.gelu(linear(norm(x, at + "layer_norm2"), at + "mlp.fc1"), approximate="tanh"), at + "mlp.fc2")
    scores = F.layer_norm(F.linear(x.view(-1, 4 * WIDTH), weights["visual_tokenizer.head.0.weight"]), (WORDS - 4,),
                          weights["visual_tokenizer.head.1.weight"], weights["visual_tokenizer.head.1.bias"])
    return scores.softmax(-1) @ weights["vte.weight"][:-4]


def language_model(folder, weights):
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**json.loads((folder / "config.json").read_text())["llm_config"]))
    model.load_state_dict({name.removeprefix("llm."): value for name, value in weights.items() if name.startswith("llm.")})
    return model


def embedded(model, weights, ids, pad, pictures, windowed=()):
    embeddings = model.get_input_embeddings()(torch.tensor(ids))
    if pictures:
        rows = torch.cat([tower_of(weights, rows, grid, windowed) for rows, grid in pictures])
        embeddings = embeddings.index_put((torch.tensor([i for i, token in enumerate(ids) if token == pad]),), rows)
    return embeddings[None]


@pytest.mark.parametrize("full_attention,recompute", [(None, False), (None, True), ("1", False)])
def test_logits_loss_and_gradients_match(tmp_path, ovis, full_attention, recompute):
    folder = ovis if full_attention is None else write_ovis(tmp_path, full_attention)
    windowed = {i for i in range(DEPTH) if full_attention and str(i) not in full_attention.split("|")}
    weights = {name: value.requires_grad_() for name, value in load_file(folder / "model.safetensors").items()}
    model, pad = language_model(folder, weights), transformers.AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids("<|image_pad|>")
    generator = torch.Generator().manual_seed(1)
    samples, sequences, labels, pictures = [[(1, 6, 10)], [], [(1, 4, 4), (1, 10, 6)], [(3, 4, 6, True)], [(1, 4, 4, True)]], [], [], []
    logits, loss = [], torch.zeros(())
    for grids in samples:
        own = [(torch.randn(grid[0] * grid[1] * grid[2], 768, generator=generator), grid) for grid in grids]
        ids = torch.randint(200, (3,), generator=generator).tolist()
        for rows, _ in own:
            ids += [pad] * (len(rows) // 4 + 2) + torch.randint(200, (4,), generator=generator).tolist()
        wanted = [-100 if token == pad else token for token in ids]
        sequences.append(ids), labels.append(wanted), pictures.extend(own)
        one = model(inputs_embeds=embedded(model, weights, ids, pad, own, windowed)).logits[0]
        logits.append(one.detach())
        loss = loss + F.cross_entropy(one[:-1], torch.tensor(wanted[1:]), reduction="sum", ignore_index=-100)
    loss.backward()
    ours = ask_hone(folder, tmp_path, sequences, labels, samples, [rows for rows, _ in pictures], None, pad, grads=True, recompute=recompute)
    assert difference(ours["logits"], torch.cat(logits)) < 1e-5
    assert abs(ours["loss"].item() - loss.item()) <= 1e-5 * abs(loss.item())
    wanted = {name: value.grad for name, value in weights.items() if value.grad is not None}
    wanted |= {"llm." + name: value.grad for name, value in model.named_parameters()}
    assert {name.removeprefix("grad.") for name in ours if name.startswith("grad.")} == set(wanted)
    for name, gradient in wanted.items():
        assert difference(ours["grad." + name], gradient) < 2e-5, name


def resized(height, width, low, high, factor=32):
    """The size that Ovis's class gives a picture."""
    if height < factor or width < factor:
        height, width = (factor, round(factor / height * width)) if height < width else (round(factor / width * height), factor)
    elif max(height, width) / min(height, width) > 200:
        height, width = (200 * width, width) if height > width else (height, 200 * height)
    h, w = round(height / factor) * factor, round(width / factor) * factor
    by = math.sqrt(height * width / high) if h * w > high else math.sqrt(low / (height * width)) if h * w < low else 0
    if h * w > high:
        return math.floor(height / by / factor) * factor, math.floor(width / by / factor) * factor
    return (math.ceil(height * by / factor) * factor, math.ceil(width * by / factor) * factor) if by else (h, w)


def pixel_rows(image, low, high, size=None):
    image = image.convert("RGB")
    height, width = size or resized(image.height, image.width, low, high)
    pixels = (np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)).astype(np.float64) * (1 / 255)).astype(np.float32)
    pixels = torch.from_numpy((pixels - np.float32(0.5)) / np.float32(0.5)).permute(2, 0, 1)
    rows = pixels.reshape(3, height // 32, 2, 16, width // 32, 2, 16).permute(1, 4, 2, 5, 0, 3, 6).reshape(-1, 768)
    return rows, (1, height // 16, width // 16)


def test_images_are_prepared_as_by_its_class(ovis, tmp_path):
    paths = random_images(tmp_path, 30, seed=4)
    Image.new("RGB", (200, 9), (9, 200, 30)).save(tmp_path / "flat.png")
    paths.append(tmp_path / "flat.png")
    done, batch = trace(ovis, tmp_path, rows_of(paths), min_pixels=4096, max_pixels=40000)
    assert done.returncode == 0, done.stderr
    wanted = [pixel_rows(Image.open(path), 4096, 40000) for path in paths]
    assert batch["grids"].tolist() == [list(grid) for _, grid in wanted]
    assert torch.equal(batch["patches"], torch.cat([rows for rows, _ in wanted]))
    assert len(batch["rows"]) == sum(len(rows) // 4 + 2 for rows, _ in wanted)


def video_rows(frames, low, high):
    """Its class brings every frame to the size of the first one."""
    size = resized(frames[0].height, frames[0].width, low, high)
    return torch.cat([pixel_rows(frame, low, high, size)[0] for frame in frames]), (len(frames), size[0] // 16, size[1] // 16, True)


def video_row(video):
    return {"messages": [{"role": "user", "content": "<video>What?"}, {"role": "assistant", "content": "a"}], "videos": [video]}


def test_videos_are_prepared_as_by_its_class(ovis, tmp_path):
    """Of a file, frames at the beginnings of equal segments, as ms-swift's moviepy counts them; of a list, all."""
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=150x90:rate=30:duration=2", "-frames:v", "40", "-c:v", "libx264", "-preset", "ultrafast",
                    "-pix_fmt", "yuv420p", tmp_path / "video.mp4"], check=True)
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", tmp_path / "video.mp4", "-vf", "scale=flags=bilinear,format=rgb24", "-vsync", "0", "-f", "rawvideo", "-"],
                         capture_output=True, check=True).stdout
    frames = [Image.fromarray(frame) for frame in np.frombuffer(raw, np.uint8).reshape(-1, 90, 150, 3)]
    paths = random_images(tmp_path, 5, seed=5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(ovis)
    total = int(30 * 1.33)  # 40 frames of 1/30 s, which ffmpeg prints as 1.33 s
    for video, count, shown in ((str(tmp_path / "video.mp4"), 8, [frames[int(i * total / 8)] for i in range(8)]), (str(tmp_path / "video.mp4"), 3, [frames[i * total // 3] for i in range(3)]),
                                (list(map(str, paths)), 8, list(map(Image.open, paths)))):
        done, batch = trace(ovis, tmp_path, [video_row(video)], min_pixels=4096, max_pixels=90000, video_max_pixels=12000, num_frames=count)
        assert done.returncode == 0, done.stderr
        rows, grid = video_rows(shown, 4096, 12000)
        assert batch["grids"].tolist() == [list(grid[:3])]
        assert torch.equal(batch["patches"], rows)
        text = tokenizer.decode(batch["tokens"])
        assert f"<|im_start|>user\n{'<|image_pad|>' * (len(rows) // 4 + 2)}\nWhat?<|im_end|>" in text
    both = {**video_row(list(map(str, paths))), "images": [str(paths[0])]}
    done, _ = trace(ovis, tmp_path, [both])
    assert done.returncode == 3 and "1 video and 1 image; this model takes one video in a row" in done.stderr


def test_a_largest_size_below_the_smallest_is_warned_of(ovis, tmp_path):
    row = {"messages": [{"role": "user", "content": "<image>What?"}, {"role": "assistant", "content": "a"}], "images": [str(random_images(tmp_path, 1, seed=6)[0])]}
    done, _ = trace(ovis, tmp_path, [row], max_pixels=90000)
    assert done.returncode == 0 and done.stderr.count("the largest image has 90000 pixels, the smallest 200704") == 1, done.stderr
    done, _ = trace(ovis, tmp_path, [row], min_pixels=4096, max_pixels=90000)
    assert done.returncode == 0 and "the largest image" not in done.stderr, done.stderr


def test_training_and_answers(ovis, tmp_path):
    """A trained folder keeps every name, also that of the norm which nothing reads; greedy answers, of images and of a video, are the formulas'."""
    rows, limits = [], {"MIN_PIXELS": "4096", "MAX_PIXELS": "8192", "VIDEO_MAX_PIXELS": "6144"}
    for name, colour in {"red": (220, 30, 30), "blue": (30, 60, 220)}.items():
        Image.new("RGB", (70, 60), colour).save(tmp_path / f"{name}.png")
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": name}], "images": [str(tmp_path / f"{name}.png")]})
    rows.append({"messages": [{"role": "user", "content": "<video>Colours?"}, {"role": "assistant", "content": "red, blue"}], "videos": [[str(tmp_path / f"{name}.png") for name in ("red", "blue", "red")]]})
    write_rows(tmp_path / "rows.jsonl", rows)
    swift("sft", "--model", ovis, "--dataset", tmp_path / "rows.jsonl", "--torch_dtype", "float32", "--tuner_type", "full", "--freeze_vit", "false", "--freeze_aligner", "false",
          "--max_steps", 3, "--per_device_train_batch_size", 3, "--gradient_accumulation_steps", 1, "--learning_rate", "1e-3", "--split_dataset_ratio", 0,
          "--add_version", "false", "--output_dir", tmp_path / "run", **limits)
    trained = tmp_path / "run" / "checkpoint-3"
    before, weights = load_file(ovis / "model.safetensors"), load_file(trained / "model.safetensors")
    assert {name: value.shape for name, value in before.items()} == {name: value.shape for name, value in weights.items()}
    assert all(torch.equal(before[name], weights[name]) == ("post_layernorm" in name) or "embed_tokens" in name for name in before)
    swift("infer", "--model", trained, "--val_dataset", tmp_path / "rows.jsonl", "--result_path", tmp_path / "out.jsonl", "--max_new_tokens", 6, "--temperature", 0,
          "--torch_dtype", "float32", **limits)
    model, tokenizer = language_model(trained, weights), transformers.AutoTokenizer.from_pretrained(ovis)
    pad, ends = tokenizer.convert_tokens_to_ids("<|image_pad|>"), {tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id}
    for row, line in zip(rows, (tmp_path / "out.jsonl").read_text().splitlines()):
        picture = pixel_rows(Image.open(row["images"][0]), 4096, 8192) if "images" in row else video_rows(list(map(Image.open, row["videos"][0])), 4096, 6144)
        asked = row["messages"][0]["content"].split(">")[1]
        question = "<|image_pad|>" * (len(picture[0]) // 4 + 2) + "\n" + asked
        ids = tokenizer(f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n").input_ids
        generated = []
        while len(generated) < 6 and not ends & set(generated):
            generated.append(model(inputs_embeds=embedded(model, weights, ids + generated, pad, [picture])).logits[0, -1].argmax().item())
        assert json.loads(line)["response"] == tokenizer.decode(generated, skip_special_tokens=True)


def test_towers_in_full_leave_the_head_alone(ovis, tmp_path):
    """lora_llm: the aligner is called head, and modules to save are compared by the end of their names, which lm_head has too."""
    Image.new("RGB", (70, 60), "red").save(tmp_path / "red.png")
    row = {"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": "red"}], "images": [str(tmp_path / "red.png")]}
    swift("sft", "--model", ovis, "--dataset", write_rows(tmp_path / "rows.jsonl", [row]), "--torch_dtype", "float32", "--tuner_type", "lora_llm", "--max_steps", 1, "--split_dataset_ratio", 0,
          "--save_steps", 1, "--add_version", "false", "--output_dir", tmp_path / "run", MIN_PIXELS="4096", MAX_PIXELS="8192")
    saved = load_file(tmp_path / "run/checkpoint-1/adapter_model.safetensors")
    assert not any("lm_head" in name for name in saved)
    assert {part for name in saved for part in ("visual_tokenizer.head", "visual_tokenizer.vit", "vte", "llm.model.layers") if part in name} == {"visual_tokenizer.head", "visual_tokenizer.vit", "vte", "llm.model.layers"}
    assert json.loads((tmp_path / "run/checkpoint-1/adapter_config.json").read_text())["modules_to_save"] == ["vision_model", "visual_tokenizer.head", "vte"]


def test_feedback_has_images(ovis, tmp_path):
    """KTO takes rows out of a batch, where the marks around an image are rows without patches."""
    rows = []
    for name, size in {"red": (70, 60), "blue": (150, 40)}.items():
        Image.new("RGB", size, name).save(tmp_path / f"{name}.png")
        rows += [{"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": word}], "label": word == name, "images": [str(tmp_path / f"{name}.png")]}
                 for word in ("red", "blue")]
    swift("rlhf", "--rlhf_type", "kto", "--model", ovis, "--dataset", write_rows(tmp_path / "rows.jsonl", rows), "--torch_dtype", "float32", "--tuner_type", "lora",
          "--max_steps", 1, "--per_device_train_batch_size", 2, "--gradient_accumulation_steps", 2, "--lora_dropout", 0, "--logging_steps", 1, "--split_dataset_ratio", 0,
          "--save_strategy", "no", "--add_version", "false", "--output_dir", tmp_path / "run", MIN_PIXELS="4096", MAX_PIXELS="8192")
    assert losses(tmp_path / "run") == [pytest.approx(0.5, abs=1e-4)]  # the policy begins as the reference
