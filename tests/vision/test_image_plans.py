"""Images before a run: the planner's estimates, and the preview in terminals."""
import json
import os
import pty
import re
import subprocess

import numpy as np
import pytest
from media_runs import HONE, run, write_rows
from PIL import Image


def shape(tmp_path):
    """Qwen2.5-VL-3B, of which config.json is enough."""
    (tmp_path / "Qwen2.5-VL-3B").mkdir()
    (tmp_path / "Qwen2.5-VL-3B" / "config.json").write_text(json.dumps({
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
        "num_key_value_heads": 2, "intermediate_size": 11008, "max_position_embeddings": 128000, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "image_token_id": 151655,
        "vision_config": {"depth": 32, "hidden_size": 1280, "out_hidden_size": 2048, "intermediate_size": 3420, "num_heads": 16, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
                          "hidden_act": "silu", "patch_size": 14, "spatial_merge_size": 2, "tokens_per_second": 2}}))
    return tmp_path / "Qwen2.5-VL-3B"


def planned(model, *words, **variables):
    return json.loads(run("hone", "plan", "--format", "json", "--target_device", "910B3", "swift", "sft", "--model", model, "--dataset", "rows.jsonl", "--max_length", 16384,
                          "--tuner_type", "lora", *words, **variables))


def test_a_plan_counts_images(tmp_path):
    model = shape(tmp_path)
    small, large = planned(model, MAX_PIXELS="1003520"), planned(model)
    assert (small["image_tokens"], large["image_tokens"]) == (1280, 16384) and small["parameters"] > 3.5e9  # the tower among them
    trains = ["--freeze_vit", "false", "--vit_gradient_checkpointing", "false"]
    tower = planned(model, *trains, MAX_PIXELS="1003520")
    # What 32 blocks of a tower that trains keep of 5120 patches.
    assert tower["asked"]["activations"] - small["asked"]["activations"] > 32 * 5120 * 1280 * 2 * 8
    output = run("hone", "plan", "--target_device", "910B3", "swift", "sft", "--model", model, "--dataset", "rows.jsonl", "--max_length", 16384, "--tuner_type", "lora",
               "--per_device_train_batch_size", 1, *trains)
    assert "does not fit" in output and "with smaller images it would: MAX_PIXELS=" in output, output
    fits = int(output.split("MAX_PIXELS=")[1].split()[0])
    assert planned(model, "--per_device_train_batch_size", 1, *trains, MAX_PIXELS=str(fits))["asked"]["fits"]
    assert not planned(model, "--per_device_train_batch_size", 1, *trains, MAX_PIXELS=str(fits + 784))["asked"]["fits"]


# What the environment says of a terminal, what it answers when it is asked, and what it is shown.
TERMINALS = {"truecolor": ({"COLORTERM": "truecolor"}, b"\x1b[?62;22c", "\x1b[38;2;220;30;30;48;2;220;30;30m▀"), "kitty": ({"TERM": "xterm-kitty"}, b"", "\x1b_Ga=T,f=24,"),
             "iterm": ({"TERM_PROGRAM": "iTerm.app"}, b"", "\x1b]1337;File=inline=1;"), "plain": ({}, b"\x1b[?6c", ""), "silent": ({}, b"", ""),
             "sixel": ({"COLORTERM": "truecolor"}, b"\x1b[?62;4;22c", "\x1bP0;1;0q"), "foot": ({"TERM": "foot"}, b"", "\x1bP0;1;0q")}


def preview_in(settings, answer, folder, image, tmp_path):
    """What `hone preview` writes of a row with an image to a terminal."""
    write_rows(tmp_path / "rows.jsonl", [{"messages": [{"role": "user", "content": "<image>?"}, {"role": "assistant", "content": "red"}], "images": [str(image)]}])
    outside, inside = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "TERM_PROGRAM", "KITTY_WINDOW_ID")}
    shown = subprocess.Popen([HONE, "preview", "--model", folder, "--dataset", tmp_path / "rows.jsonl"], stdout=inside, stderr=subprocess.DEVNULL,
                             env={**plain, "TERM": "xterm-256color", **settings})
    os.close(inside)
    text = b""
    try:
        while piece := os.read(outside, 65536):
            text += piece
            if answer and b"\x1b[c" in text:
                os.write(outside, answer)
                answer = b""
    except OSError:  # the other end is closed
        pass
    assert shown.wait() == 0
    return text.decode()


@pytest.mark.parametrize("terminal", TERMINALS)
def test_thumbnails(folders, tmp_path, terminal):
    settings, answer, mark = TERMINALS[terminal]
    Image.new("RGB", (90, 60), (220, 30, 30)).save(tmp_path / "red.png")
    text = preview_in(settings, answer, folders("qwen2_5_vl"), tmp_path / "red.png", tmp_path)
    assert "90 x 60 pixels, read as 84 x 56, 6 tokens" in text
    assert [other for other in {other for _, _, other in TERMINALS.values() if other} if other in text] == ([mark] if mark else [])


def decode_sixel(text):
    """The picture of a sixel image, [height, width, 3]; what it does not paint is -1."""
    size, body = re.match(r'\x1bP0;1;0q"1;1;(\d+;\d+)(.*?)\x1b\\', text, re.S).groups()
    width, height = map(int, size.split(";"))
    pixels, palette, colour, x, y = np.full((height, width, 3), -1), {}, None, 0, 0
    for register, share, count, cell, end in re.findall(r"#(\d+)((?:;\d+){4})?|(?:!(\d+))?([?-~])|([$-])", body):
        if share:
            kind, *shares = map(int, share[1:].split(";"))
            assert kind == 2 and max(shares) <= 100
            palette[register] = [round(255 * part / 100) for part in shares]
        elif register:
            colour = palette[register]
        elif end:
            x, y = 0, y + (6 if end == "-" else 0)
        else:
            for row in range(6):
                if ord(cell) - 63 >> row & 1:
                    pixels[y + row, x:x + int(count or 1)] = colour
            x += int(count or 1)
    return pixels


def test_sixel_thumbnails_show_the_image(folders, tmp_path):
    """What is written decodes to the image in the thumbnail's size: every pixel is painted, and any eight by eight have its colour."""
    across, down = np.meshgrid(np.linspace(0, 255, 90), np.linspace(0, 255, 61))
    Image.fromarray(np.stack([across, down, 255 - across], -1).astype(np.uint8)).save(tmp_path / "colours.png")
    text = preview_in({}, b"\x1b[?62;4;22c", folders("qwen2_5_vl"), tmp_path / "colours.png", tmp_path)
    found = decode_sixel(text[text.index("\x1bP"):])
    height, width = found.shape[:2]
    wanted = np.asarray(Image.open(tmp_path / "colours.png").resize((width, height), Image.Resampling.BILINEAR)).astype(float)
    assert 300 <= width <= 400 and abs(width / height - 90 / 61) < 0.02 and found.min() >= 0  # 40 cells of ten pixels, 12 of twenty
    squares = lambda pixels: pixels[:height // 8 * 8, :width // 8 * 8].reshape(height // 8, 8, width // 8, 8, 3).mean((1, 3))
    assert np.abs(squares(found) - squares(wanted)).max() < 12
