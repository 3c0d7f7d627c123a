"""Video files: frames chosen as qwen_vl_utils and LLaMA-Factory choose them, rows, tokens, times and positions; bad files are bad rows."""
import base64
import json
import math
import subprocess
import sys

import numpy as np
import openai
import pytest
import torch
import transformers
from PIL import Image
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

from test_images import factory_regular, squares
from test_videos import PATCH, video_patches
from media_runs import swift, trace, write_rows
from vision_models import INTERN_PROCESSOR, ROOT, smart_resize

sys.path.insert(0, str(ROOT / "tests" / "serve"))
from serve_testing import Server  # noqa: E402

# By name: frames a second, frames, and how ffmpeg writes it. With B-frames and several groups of pictures, with and without an index.
VIDEOS = {"long.mp4": (24, 100, ["-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-g", "12", "-pix_fmt", "yuv420p"]),
          "short.webm": (10, 7, ["-c:v", "libvpx", "-deadline", "realtime", "-b:v", "200k"]),
          "old.avi": (15, 40, ["-c:v", "mpeg4", "-bf", "2", "-g", "10", "-q:v", "4"])}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Videos that ffmpeg writes, and the frames that it reads out of them."""
    place, frames = tmp_path_factory.mktemp("videos"), {}
    for name, (fps, count, how) in VIDEOS.items():
        source = f"testsrc2=size=150x90:rate={fps}:duration={count / fps + 0.5 / fps}"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, "-frames:v", str(count), *how, place / name], check=True)
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", place / name, "-vf", "scale=flags=bilinear,format=rgb24", "-vsync", "0", "-f", "rawvideo", "-"],
                             capture_output=True, check=True).stdout
        frames[name] = torch.from_numpy(np.frombuffer(raw, np.uint8).reshape(-1, 90, 150, 3).copy()).permute(0, 3, 1, 2)
        assert len(frames[name]) == count
    return place, frames


def utils_choice(total, fps, wanted, most):
    """qwen_vl_utils' smart_nframes, and where the frames lie."""
    count = min(max(total / fps * wanted, 4), min(most, total) // 2 * 2, total)
    count = math.floor(count / 2) * 2
    return torch.linspace(0, total - 1, count).round().long(), count / total * fps


def row_of(names, place):
    return {"messages": [{"role": "user", "content": "See " + " and ".join(["<video>"] * len(names)) + "?"}, {"role": "assistant", "content": "Yes."}],
            "videos": [str(place / name) for name in names]}


def time_text(times, grid):
    pads = "<|video_pad|>" * (grid[1] * grid[2] // 4)
    return "".join(f"<{(times[i] + times[i + 1]) / 2:.1f} seconds><|vision_start|>{pads}<|vision_end|>" for i in range(0, len(times), 2))


def check_places(batch, folder, family, grids, texts, rates):
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModelForImageTextToText.from_pretrained(folder)
    assert f"See {' and '.join(texts)}?" in tokenizer.decode(batch["tokens"])
    ids = batch["tokens"][None]
    more = {"second_per_grid_ts": torch.tensor([2 / rate for rate in rates])} if family == "qwen2_5_vl" else {}
    place, _ = model.model.get_rope_index(ids, mm_token_type_ids=2 * (ids == model.config.video_token_id).int(), video_grid_thw=torch.tensor(grids), **more)
    assert torch.equal(batch["positions"], place[-3:, 0])


@pytest.mark.parametrize("family,most", [("qwen2_5_vl", 768), ("qwen3_vl", 8)])
def test_files_as_qwen_vl_utils_reads_them(place, folders, tmp_path, family, most):
    videos, frames = place
    factor, names = 2 * PATCH[family], list(VIDEOS)
    low, high = 4 * factor**2, 12 * factor**2
    done, batch = trace(folders(family), tmp_path, [row_of(names, videos)], template=family, video_min_pixels=low, video_max_pixels=high, max_frames=most)
    assert done.returncode == 0, done.stderr
    rows, grids, texts, rates = [], [], [], []
    for name in names:
        fps, total, _ = VIDEOS[name]
        numbers, rate = utils_choice(total, fps, 2.0, most)
        size = smart_resize(90, 150, factor, low, max(high, int(low * 1.05)))
        chosen = torch.nn.functional.interpolate(frames[name][numbers].float(), size, mode="bicubic", antialias=True).clamp(0, 255).round()
        own, grid = video_patches(chosen, PATCH[family], family)
        rows.append(own), grids.append(grid), rates.append(rate)
        pads = "<|video_pad|>" * (math.prod(grid) // 4)
        texts.append(time_text([n / fps for n in numbers.tolist()], grid) if family == "qwen3_vl" else f"<|vision_start|>{pads}<|vision_end|>")
    check_places(batch, folders(family), family, grids, texts, rates)
    assert torch.equal(batch["patches"], torch.cat(rows))


def factory_frame(image, low, high):
    """LLaMA-Factory's regularization of one frame."""
    for limit, wrong in ((high, image.width * image.height > high), (low, image.width * image.height < low)):
        if wrong:
            scale = math.sqrt(limit / (image.width * image.height))
            image = image.resize((int(image.width * scale), int(image.height * scale)))
    if min(image.size) < 28:
        image = image.resize((max(image.width, 28), max(image.height, 28)))
    return image


def volume_size(count, height, width, factor, low, high):
    """Qwen3-VL's video processor in transformers."""
    if min(height, width) < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    h, w = round(height / factor) * factor, round(width / factor) * factor
    if count * h * w > high:
        beta = math.sqrt(count * height * width / high)
        return max(factor, math.floor(height / beta / factor) * factor), max(factor, math.floor(width / beta / factor) * factor)
    if count * h * w < low:
        beta = math.sqrt(low / (count * height * width))
        return math.ceil(height * beta / factor) * factor, math.ceil(width * beta / factor) * factor
    return h, w


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_files_as_llama_factory_reads_them(place, folders, tmp_path, family):
    """Two frames a second, rounded down, of which the last is repeated; resized by Pillow, then in bytes by transformers' processor."""
    videos, frames = place
    folder, factor = folders(family), 2 * PATCH[family]
    if family == "qwen3_vl":  # as the hub's folder has it
        (folder / "video_preprocessor_config.json").write_text(json.dumps({"size": {"longest_edge": 25165824, "shortest_edge": 4096}}))
    names = ["long.mp4", "old.avi"]
    done, batch = trace(folder, tmp_path, [row_of(names, videos)], dialect="factory", template="qwen2_vl" if family == "qwen2_5_vl" else family,
                 video_min_pixels=256, video_max_pixels=8000, max_frames=7)
    assert done.returncode == 0, done.stderr
    rows, grids, texts, rates = [], [], [], []
    for name in names:
        fps, total, _ = VIDEOS[name]
        count = min(total, 7, max(1, math.floor(total / fps * 2.0)))
        numbers = np.linspace(0, total - 1, count).astype(np.int32).tolist()
        rates.append(count / (total / fps))
        numbers += numbers[-1:] * (count % 2)
        images = [factory_frame(Image.fromarray(frames[name][n].permute(1, 2, 0).numpy()), 256, 8000) for n in numbers]
        video = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images])
        bounds = (factor, 4096, 25165824) if family == "qwen3_vl" else (factor, 3136, 12845056)
        size = volume_size(len(video), *video.shape[2:], *bounds) if family == "qwen3_vl" else smart_resize(*video.shape[2:], *bounds)
        video = torch.nn.functional.interpolate(video, size, mode="bicubic", antialias=True).float()
        own, grid = video_patches(video, PATCH[family], family)
        rows.append(own), grids.append(grid)
        pads = "<|video_pad|>" * (math.prod(grid) // 4)
        texts.append(time_text([n / fps * 2.0 / 2.0 for n in numbers], grid) if family == "qwen3_vl" else f"<|vision_start|>{pads}<|vision_end|>")
    check_places(batch, folder, family, grids, texts, rates)
    assert torch.equal(batch["patches"], torch.cat(rows))


def test_bad_files_are_bad_rows(place, folders, tmp_path):
    """Every one is named with a reason, the good one among them is learned from, and a name's ending says nothing."""
    videos, _ = place
    whole = (videos / "long.mp4").read_bytes()
    (tmp_path / "good.txt").write_bytes(whole)
    bad = {"cut.mp4": (whole[:3000], "without its index"), "empty.mp4": (b"", "0 bytes"), "page.mp4": (b"<html>not found</html>", "not a video"),
           "picture.mp4": (b"\x89PNG\r\n\x1a\n" + bytes(50), "not a video")}
    for name, (data, _) in bad.items():
        (tmp_path / name).write_bytes(data)
    names = ["good.txt", *bad, "missing.mp4"]
    write_rows(tmp_path / "rows.jsonl", [row_of([name], tmp_path) for name in names])
    output = swift("sft", "--model", folders("qwen2_5_vl"), "--dataset", tmp_path / "rows.jsonl", "--max_steps", 1, "--split_dataset_ratio", 0, "--torch_dtype", "float32",
                 "--save_strategy", "no", "--add_version", "false", "--output_dir", tmp_path / "out", "--per_device_train_batch_size", 1, "--gradient_accumulation_steps", 1,
                 FPS_MAX_FRAMES="4", VIDEO_MAX_TOKEN_NUM="8", VIDEO_MIN_TOKEN_NUM="4")
    assert "skipped 5 of 6 rows (media: 5)" in output, output[-3000:]
    for name, (_, reason) in bad.items():
        assert any(name in line and reason in line for line in output.splitlines()), (name, output[-3000:])


def test_requests_bring_videos(place, folders):
    """As a file in a data: URI and as its frames; an address is not fetched, and the text cannot name a video."""
    videos, _ = place
    server = Server("--torch_dtype", "float32", "--served_model_name", "eyes", model=folders("qwen3_vl"))
    try:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")

        def ask(part):
            return client.chat.completions.create(model="eyes", temperature=0, max_tokens=8, messages=[{"role": "user", "content": [part, {"type": "text", "text": "<video>What?"}]}])

        files = {name: base64.b64encode((videos / name).read_bytes()).decode() for name in ("short.webm", "long.mp4")}
        answers = {name: ask({"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{data}"}}) for name, data in files.items()}
        assert answers["long.mp4"].usage.prompt_tokens > answers["short.webm"].usage.prompt_tokens  # 8 frames and 4
        for part, reason in (({"type": "video_url", "video_url": {"url": "http://127.0.0.1/a.mp4"}}, "not fetched"),
                             ({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}, "video"),
                             ({"type": "video_url", "video_url": {"url": str(videos / "short.webm")}}, "data:video")):
            with pytest.raises(openai.BadRequestError, match=reason):
                ask(part)
    finally:
        server.stop()


def intern_processor():
    return GotOcr2ImageProcessorPil(**{name: value for name, value in INTERN_PROCESSOR.items() if name != "image_processor_type"})


def test_internvl_reads_frames_as_images(place, folders, tmp_path):
    """Eight from the middles of equal segments, each one tile with its number before it; an image beside them is one tile too. A list is shown whole."""
    videos, frames = place
    Image.new("RGB", (200, 90), (40, 200, 90)).save(tmp_path / "wide.png")
    listed = []
    for number in (3, 50):
        listed.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(frames["long.mp4"][number].permute(1, 2, 0).numpy()).save(listed[-1])
    row = {"messages": [{"role": "user", "content": "<image><video>or<video>?"}, {"role": "assistant", "content": "a"}],
           "images": [str(tmp_path / "wide.png")], "videos": [str(videos / "long.mp4"), listed]}
    done, batch = trace(folders("internvl"), tmp_path, [row])
    assert done.returncode == 0, done.stderr
    size = 99 / 8
    numbers = [int(size / 2 + np.round(size * i)) for i in range(8)]
    shown = [Image.open(tmp_path / "wide.png"), *(Image.fromarray(frames["long.mp4"][i].permute(1, 2, 0).numpy()) for i in numbers), *map(Image.open, listed)]
    processor = intern_processor()
    assert batch["grids"].tolist() == [[1, 4, 4]] * 11
    assert torch.equal(squares(batch["patches"]), torch.cat([processor(images=image, return_tensors="pt")["pixel_values"] for image in shown]))
    text = transformers.AutoTokenizer.from_pretrained(folders("internvl")).decode(batch["tokens"])
    tile = f"<img>{'<IMG_CONTEXT>' * 4}</img>\n"
    file, names = ("".join(f"Frame{i + 1}: {tile}" for i in range(count)) for count in (8, 2))
    assert f"{tile}{file}or{names}?" in text
    done, batch = trace(folders("internvl"), tmp_path, [row], video_max_tiles=4)
    assert done.returncode == 0, done.stderr
    tiles = [processor(images=image, return_tensors="pt", crop_to_patches=True, min_patches=1, max_patches=4)["pixel_values"] for image in shown]
    assert batch["grids"].tolist() == [[len(own), 4, 4] for own in tiles] and torch.equal(squares(batch["patches"]), torch.cat(tiles))


def test_internvl_as_llama_factory_reads_it(place, folders, tmp_path):
    """Two frames a second, also an odd number, resized as its images are and then one tile; an image beside them may have several."""
    (videos, frames), processor = place, intern_processor()
    Image.new("RGB", (200, 90), (40, 200, 90)).save(tmp_path / "wide.png")
    listed = []
    for number in (3, 50, 60):
        listed.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(frames["long.mp4"][number].permute(1, 2, 0).numpy()).resize((60 + number, 50)).save(listed[-1])
    row = {"messages": [{"role": "user", "content": "<image><video>or<video>and<video>?"}, {"role": "assistant", "content": "a"}],
           "images": [str(tmp_path / "wide.png")], "videos": [str(videos / "long.mp4"), str(videos / "old.avi"), listed]}
    done, batch = trace(folders("internvl"), tmp_path, [row], dialect="factory", template="intern_vl", video_max_pixels=8000, image_max_pixels=15000, max_frames=7, crop_to_patches=True)
    assert done.returncode == 0, done.stderr
    regular = lambda image, high: factory_regular(image, 256 if high == 8000 else 1024, high)
    shown = [[Image.fromarray(frames[name][n].permute(1, 2, 0).numpy()) for n in np.linspace(0, VIDEOS[name][1] - 1, count).astype(np.int32)]
             for name, count in (("long.mp4", 7), ("old.avi", 5))] + [list(map(Image.open, listed))]
    picture = processor(images=regular(Image.open(tmp_path / "wide.png"), 15000), return_tensors="pt", crop_to_patches=True, min_patches=1, max_patches=12)["pixel_values"]
    stills = [processor(images=regular(image, 8000), return_tensors="pt", crop_to_patches=False)["pixel_values"] for video in shown for image in video]
    assert batch["grids"].tolist() == [[len(picture), 4, 4]] + [[1, 4, 4]] * 15
    assert torch.equal(squares(batch["patches"]), torch.cat([picture, *stills]))
    tile = lambda count: f"<img>{'<IMG_CONTEXT>' * (4 * count)}</img>"
    seven, five, three = ("\n".join(f"Frame{i + 1}: {tile(1)}" for i in range(count)) for count in (7, 5, 3))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders("internvl"))
    question = f"<|im_start|>user\n{tile(len(picture))}{seven}or{five}and{three}?<|im_end|>\n<|im_start|>assistant\n"
    ids, asked = batch["tokens"].tolist(), tokenizer(question, add_special_tokens=False).input_ids
    assert any(ids[i:i + len(asked)] == asked for i in range(len(ids)))
    learned = tokenizer("a<|im_end|>\n", add_special_tokens=False).input_ids
    assert batch["targets"].tolist() == [-100] * (len(ids) - len(learned) - 1) + learned + [-100]
