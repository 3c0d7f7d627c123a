"""Videos as lists of frames: rows, tokens and positions compared with qwen_vl_utils and transformers, and generation."""
import json
import math

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from media_runs import swift, trace
from vision_models import smart_resize

PATCH = {"qwen2_vl": 14, "qwen2_5_vl": 14, "qwen3_vl": 16, "qwen3_5": 16}
WRITES_TIMES = ("qwen3_vl", "qwen3_5")
NO_THOUGHT = {"qwen3_5": "<think>\n\n</think>\n\n"}  # what its template starts an answer with
CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])


def utils_frames(paths, factor, low, high):
    """qwen_vl_utils' fetch_video of a list: each frame with twice the factor by Pillow, all together by torchvision."""
    frames = []
    for path in paths:
        image = Image.open(path).convert("RGB")
        h, w = smart_resize(image.height, image.width, 2 * factor, 4 * 4 * factor**2, 16384 * 4 * factor**2)
        frames.append(torch.from_numpy(np.array(image.resize((w, h)))).permute(2, 0, 1))
    frames += [frames[-1]] * (len(frames) % 2)
    video = torch.stack(frames)
    high = max(min(high, 128000 * factor**2 * 0.9 / len(frames) * 2), int(low * 1.05))
    size = smart_resize(*video.shape[2:], factor, low, high)
    if size == tuple(video.shape[2:]):
        return video.float()
    return torch.nn.functional.interpolate(video.float(), size, mode="bicubic", antialias=True).clamp(0, 255).round()


def video_patches(video, patch, family):
    """transformers' video processor without its resize: rescale and normalization in one, patches cell by cell."""
    mean, std = ([0.5] * 3, [0.5] * 3) if family in WRITES_TIMES else CLIP
    scale = 1.0 / (1 / 255)
    video = (video - (torch.tensor(mean) * scale).view(3, 1, 1)) / (torch.tensor(std) * scale).view(3, 1, 1)
    t, h, w = len(video) // 2, video.shape[2] // patch, video.shape[3] // patch
    rows = video.view(t, 2, 3, h // 2, 2, patch, w // 2, 2, patch).permute(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(t * h * w, -1)
    return rows, (t, h, w)


def write_frames(folder, count, width, height, seed):
    generator = np.random.default_rng(seed)
    paths = []
    for i in range(count):
        paths.append(folder / f"{seed}-{i}.png")
        Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(paths[-1])
    return [str(path) for path in paths]


def video_text(family, grid, fps):
    t, h, w = grid
    pads = "<|video_pad|>" * (h * w // 4)
    if family not in WRITES_TIMES:
        return f"<|vision_start|>{pads * t}<|vision_end|>"
    return "".join(f"<{(2 * i + 0.5) / fps:.1f} seconds><|vision_start|>{pads}<|vision_end|>" for i in range(t))


@pytest.mark.parametrize("family", PATCH)
@pytest.mark.parametrize("fps", [2.0, 3.0])
def test_rows_tokens_and_positions(folders, tmp_path, family, fps):
    """An image between two videos, one of an odd number of frames and one longer than it is wide."""
    folder, factor = folders(family), 2 * PATCH[family]
    low, high = 4 * factor**2, 30 * factor**2
    first, second = write_frames(tmp_path, 5, 150, 90, seed=1), write_frames(tmp_path, 12, 60, 61, seed=2)
    Image.new("RGB", (80, 70), (9, 99, 200)).save(tmp_path / "still.png")
    row = {"messages": [{"role": "user", "content": "See <video> and <image> or <video>?"}, {"role": "assistant", "content": "Yes."}],
           "images": [str(tmp_path / "still.png")], "videos": [first, second]}
    done, batch = trace(folder, tmp_path, [row], template=family, fps=fps, video_min_pixels=low, video_max_pixels=high)
    assert done.returncode == 0, done.stderr

    videos = [video_patches(utils_frames(paths, factor, low, high), PATCH[family], family) for paths in (first, second)]
    grids = [grid for _, grid in videos]
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModelForImageTextToText.from_pretrained(folder)
    still = batch["grids"][grids[0][0] if family in WRITES_TIMES else 1].tolist()
    shown = f"<|vision_start|>{'<|image_pad|>' * (math.prod(still) // 4)}<|vision_end|>"
    question = f"See {video_text(family, grids[0], fps)} and {shown} or {video_text(family, grids[1], fps)}?"
    text = tokenizer.decode(batch["tokens"])
    assert f"<|im_start|>user\n{question}<|im_end|>" in text
    ids = batch["tokens"][None]
    kinds = (ids == model.config.image_token_id).int() + 2 * (ids == model.config.video_token_id).int()
    more = {"second_per_grid_ts": torch.tensor([2 / fps] * 2)} if family == "qwen2_5_vl" else {}
    place, _ = model.model.get_rope_index(ids, mm_token_type_ids=kinds, image_grid_thw=torch.tensor([still]), video_grid_thw=torch.tensor(grids), **more)
    assert torch.equal(batch["positions"], place[-3:, 0])
    size = len(videos[0][0])
    assert torch.equal(batch["patches"][:size], videos[0][0])
    assert torch.equal(batch["patches"][size + math.prod(still):], videos[1][0])


def older_positions(tokens, video_token, grid, interval):
    """get_rope_index of transformers 4.57 for one video between texts: it spreads over time, height and width, and what follows begins behind its largest position."""
    first = tokens.index(video_token)
    t, h, w = grid[0], grid[1] // 2, grid[2] // 2
    cells = torch.stack([(torch.arange(t) * interval).repeat_interleave(h * w), torch.arange(h).repeat_interleave(w).repeat(t), torch.arange(w).repeat(t * h)]) + first
    behind = torch.arange(len(tokens) - first - t * h * w) + cells.max() + 1
    return torch.cat([torch.arange(first).expand(3, -1), cells, behind.expand(3, -1)], 1)


@pytest.mark.parametrize("family,fps,interval", [("qwen2_vl", 2.0, 1), ("qwen2_5_vl", 2.0, 2), ("qwen2_5_vl", 1.0, 4), ("qwen2_5_vl", 3.0, 0)])
def test_positions_of_older_transformers(folders, tmp_path, family, fps, interval):
    """4.57 cuts the seconds of a pair of frames to a whole number: at 3 frames a second to none."""
    frames = write_frames(tmp_path, 12, 60, 61, seed=2)
    row = {"messages": [{"role": "user", "content": "See <video>?"}, {"role": "assistant", "content": "Yes."}], "videos": [frames]}
    done, batch = trace(folders(family), tmp_path, [row], template=family, fps=fps, video_min_pixels=3136, video_max_pixels=6272, video_positions="4.57")
    assert done.returncode == 0, done.stderr
    video = transformers.AutoTokenizer.from_pretrained(folders(family)).convert_tokens_to_ids("<|video_pad|>")
    assert torch.equal(batch["positions"], older_positions(batch["tokens"].tolist(), video, batch["grids"][0].tolist(), interval))


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_answers_are_transformers(folders, tmp_path, family):
    folder, factor = folders(family), 2 * PATCH[family]
    frames = write_frames(tmp_path, 6, 90, 70, seed=3)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "<video>What?"}, {"role": "assistant", "content": ""}], "videos": [frames]}))
    limits = {"VIDEO_MIN_TOKEN_NUM": "4", "VIDEO_MAX_TOKEN_NUM": "30"}
    swift("infer", "--model", folder, "--val_dataset", tmp_path / "rows.jsonl", "--result_path", tmp_path / "out.jsonl", "--max_new_tokens", 8, "--temperature", 0,
          "--torch_dtype", "float32", "--system", "", **limits)
    rows, grid = video_patches(utils_frames(frames, factor, 4 * factor**2, 30 * factor**2), PATCH[family], family)
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    ids = tokenizer(f"<|im_start|>user\n{video_text(family, grid, 2.0)}What?<|im_end|>\n<|im_start|>assistant\n{NO_THOUGHT.get(family, '')}", return_tensors="pt").input_ids
    more = {"second_per_grid_ts": torch.tensor([1.0])} if family == "qwen2_5_vl" else {}
    generated = model.generate(input_ids=ids, pixel_values_videos=rows, video_grid_thw=torch.tensor([grid]), mm_token_type_ids=2 * (ids == model.config.video_token_id).int(),
                          max_new_tokens=8, do_sample=False, eos_token_id=[tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id], **more)[0, ids.shape[1]:]
    assert json.loads((tmp_path / "out.jsonl").read_text())["response"] == tokenizer.decode(generated, skip_special_tokens=True)


def test_what_is_no_video_is_a_bad_row(folders, tmp_path):
    for videos, message in ((["a.mp4"], "video a.mp4: no such file"), ([[]], "0 frames"), ([[1]], "paths of its frames"), ([[str(tmp_path / "no.png")]], "no.png")):
        row = {"messages": [{"role": "user", "content": "<video>"}, {"role": "assistant", "content": "a"}], "videos": videos}
        done, _ = trace(folders("qwen2_5_vl"), tmp_path, [row])
        assert done.returncode == 3 and message in done.stderr, done.stderr
