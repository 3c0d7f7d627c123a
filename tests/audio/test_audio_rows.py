"""Rows with audio as batches: spectrograms as transformers' extractor makes them, tokens, labels, and files that are not recordings."""
import base64
import json
import os

import numpy as np
import pytest
import torch
import transformers

import audio_files
from media_runs import run, trace
from omni_models import TOKENS, features, write_omni_model

FAMILIES = ["qwen2_5_omni", "qwen3_omni_moe"]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return {family: write_omni_model(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


def row(*audios, text="<audio>?"):
    return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "a"}], "audios": [str(audio) for audio in audios]}


CASES = [("wav", 1.0, 16000, 1), ("wav_float", 0.73, 44100, 2), ("flac", 2.5, 48000, 1), ("ogg", 1.2, 22050, 2), ("mp3", 1.3, 32000, 1),
         ("wav", 0.1001, 8000, 1)]


@pytest.mark.parametrize("family", FAMILIES)
def test_spectrograms_are_the_extractor_s(models, tmp_path, family):
    paths = [audio_files.write(tmp_path / f"{i}.bin", audio_files.chirp(seconds, rate, channels, seed=i), rate, kind)
             for i, (kind, seconds, rate, channels) in enumerate(CASES)]
    done, batch = trace(models[family], tmp_path, [row(path) for path in paths])
    assert done.returncode == 0, done.stderr
    wanted = [features(path, family) for path in paths]
    assert batch["lengths"].tolist() == [len(one) for one in wanted]
    assert (batch["frames"] - torch.cat(wanted)).abs().max() < 1e-5
    tokenizer = transformers.AutoTokenizer.from_pretrained(models[family])
    pad = tokenizer.convert_tokens_to_ids(TOKENS[family]["audio"])
    assert torch.equal(batch["audio_rows"], (batch["tokens"] == pad).nonzero()[:, 0])


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_and_labels(models, tmp_path, family):
    """As many placeholders as the family counts, between its own tokens; neither is learned, in answers neither."""
    path = audio_files.write(tmp_path / "a.wav", audio_files.chirp(5, 16000), 16000)
    messages = [{"role": "user", "content": "<audio>Which?"}, {"role": "assistant", "content": "This <audio> one"}]
    done, batch = trace(models[family], tmp_path, [{"messages": messages, "audios": [str(path), str(path)]}])
    assert done.returncode == 0, done.stderr
    tokenizer, names = transformers.AutoTokenizer.from_pretrained(models[family]), TOKENS[family]
    count = 125 if family == "qwen2_5_omni" else 65
    shown = names["audio_start"] + names["audio"] * count + names["audio_end"]
    system = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" if family == "qwen2_5_omni" else ""
    text = f"{system}<|im_start|>user\n{shown}Which?<|im_end|>\n<|im_start|>assistant\nThis {shown} one<|im_end|>"
    ids = batch["tokens"].tolist()
    assert tokenizer.decode(ids).startswith(text)
    learned = [token for token in batch["targets"].tolist() if token >= 0]
    assert not set(learned) & {tokenizer.convert_tokens_to_ids(names[kind]) for kind in ("audio", "audio_start", "audio_end")}
    assert tokenizer.decode(learned).startswith("This  one<|im_end|>")
    assert batch["positions"].tolist() == list(range(len(ids)))


def test_positions_with_images_and_videos_are_time_aligned(models, tmp_path):
    """Text continues after the last time of a video: two frames a second, so that every pair of them takes a second, 25 positions."""
    from PIL import Image
    frames = []
    for i in range(4):
        Image.new("RGB", (56, 84), (40 * i, 0, 9)).save(tmp_path / f"{i}.png")
        frames.append(str(tmp_path / f"{i}.png"))
    path = audio_files.write(tmp_path / "a.wav", audio_files.chirp(0.5, 16000), 16000)
    asked = {"messages": [{"role": "user", "content": "<video><audio>?"}, {"role": "assistant", "content": "a"}], "audios": [str(path)], "videos": [frames]}
    done, batch = trace(models["qwen2_5_omni"], tmp_path, [asked], video_min_pixels=784, video_max_pixels=4704)
    assert done.returncode == 0, done.stderr
    first, time = int(batch["rows"][0]), batch["positions"][0]
    cells = int(batch["grids"][0, 1] * batch["grids"][0, 2] // 4)
    assert time[first:first + cells].tolist() == [first] * cells and time[first + cells].item() == first + 25
    behind = first + 2 * cells
    assert batch["positions"][:, behind].tolist() == [first + 26] * 3
    assert (batch["positions"][0, behind:] == torch.arange(first + 26, first + 26 + batch["positions"].shape[1] - behind)).all()


def test_data_uris_base64_and_missing_tags(models, tmp_path):
    path = audio_files.write(tmp_path / "a.flac", audio_files.chirp(0.5, 24000), 24000, "flac")
    data = base64.b64encode(path.read_bytes()).decode()
    rows = [row(path), {**row(text="?"), "audios": ["data:audio/flac;base64," + data]}, {**row(), "audios": [data]}]
    done, batch = trace(models["qwen2_5_omni"], tmp_path, rows)
    assert done.returncode == 0, done.stderr
    one, two, three = batch["frames"].split(batch["lengths"].tolist())
    assert torch.equal(one, two) and torch.equal(one, three)
    assert batch["tokens"].unfold(0, 3, 1).tolist() != []


def test_factory_wants_as_many_tags(models, tmp_path):
    path = audio_files.write(tmp_path / "a.wav", audio_files.chirp(0.5, 16000), 16000)
    done, _ = trace(models["qwen2_5_omni"], tmp_path, [row(path, text="none")], dialect="factory", template="qwen2_omni")
    assert done.returncode != 0 and "0 tags <audio> for 1 audio; expected as many" in done.stderr


def test_what_is_no_recording_is_a_bad_row(models, tmp_path):
    """Every one is refused when rows are read, with its name and the reason."""
    good = audio_files.write(tmp_path / "good.wav", audio_files.chirp(1, 16000), 16000).read_bytes()
    flac = audio_files.write(tmp_path / "good.flac", audio_files.chirp(1, 16000), 16000, "flac").read_bytes()
    lying = bytearray(good)
    lying[24:28] = (0).to_bytes(4, "little")
    many = bytearray(good)
    many[22:24] = (900).to_bytes(2, "little")
    short = audio_files.write(tmp_path / "short.wav", audio_files.chirp(0.01, 16000), 16000).read_bytes()
    hostile = {"empty.wav": (b"", "0 bytes"), "text.wav": (b"RIFF, not really", "expected WAV, FLAC, OGG, MP3, M4A, WebM or Matroska"), "picture.mp3": (b"\x89PNG\r\n\x1a\n" + b"0" * 64, "a picture"),
               "video.wav": (b"\0\0\0\x18ftypmp42" + b"0" * 64, "an MP4 or MOV file without its index"), "rate.wav": (bytes(lying), ""), "channels.wav": (bytes(many), ""),
               "header.wav": (good[:40], ""), "cut.flac": (flac[:60], ""), "short.wav": (short, "too short for a token"), "noise.ogg": (b"OggS" + os.urandom(400), ""),
               "page.mp3": (b"<!doctype html>", "markup"), "lfs.flac": (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer")}
    for name, (content, reason) in hostile.items():
        (tmp_path / name).write_bytes(content)
        done, _ = trace(models["qwen2_5_omni"], tmp_path, [row(tmp_path / name)])
        assert done.returncode not in (0, -6, -11, 134, 139), (name, done.stderr)
        assert name in done.stderr and reason in done.stderr, done.stderr
    done, _ = trace(models["qwen2_5_omni"], tmp_path, [row(tmp_path / "none.wav")])
    assert done.returncode != 0 and "no such file" in done.stderr


def test_a_recording_whose_power_is_infinite_is_not_learned(models, tmp_path):
    """A model would compute NaN of it."""
    loud = audio_files.write(tmp_path / "loud.wav", audio_files.chirp(1, 16000) * np.float32(1e30), 16000, "wav_float")
    done, _ = trace(models["qwen2_5_omni"], tmp_path, [row(loud)])
    assert "not learned" in done.stderr and "loud.wav: samples that are not numbers, or beyond 1e+12" in done.stderr, done.stderr


def test_preview_shows_seconds_and_tokens(models, tmp_path):
    path = audio_files.write(tmp_path / "a.wav", audio_files.chirp(1.5, 16000), 16000)
    (tmp_path / "rows.jsonl").write_text(json.dumps(row(path)) + "\n")
    output = run("hone", "preview", "--model", models["qwen2_5_omni"], "--dataset", tmp_path / "rows.jsonl")
    assert f"audio {path}: 1.5 seconds at 16000 Hz, 150 frames, 37 tokens" in output
    assert "<|AUDIO|>×37" in output
