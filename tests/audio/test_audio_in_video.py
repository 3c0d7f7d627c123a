"""Videos with audio: samples compared with ffmpeg and librosa, tokens and positions with transformers, generation and the server."""
import base64
import json
import subprocess
import sys
import types

import numpy as np
import openai
import pytest
import torch
import transformers
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import Qwen2_5OmniProcessor
from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import Qwen3OmniMoeProcessor, _get_feat_extract_output_lengths

import audio_files
from media_runs import losses, run, sft, swift, trace, write_rows
from omni_models import ROOT, TOKENS, features_of, thinker_of, write_omni_model

sys.path.insert(0, str(ROOT / "tests" / "serve"))
from serve_testing import Server  # noqa: E402

FAMILIES = ["qwen2_5_omni", "qwen3_omni_moe"]
PROCESSORS = {"qwen2_5_omni": (Qwen2_5OmniProcessor, 25), "qwen3_omni_moe": (Qwen3OmniMoeProcessor, 13.0)}
SMALL = {"VIDEO_MIN_PIXELS": "3136", "VIDEO_MAX_PIXELS": "6272", "USE_AUDIO_IN_VIDEO": "true"}
# By name: frames a second, seconds, and how ffmpeg writes pictures and sound. An index that counts samples, and containers without one.
VIDEOS = {"aac.mp4": (24, 5, ["-c:v", "mpeg4", "-c:a", "aac", "-ar", "44100", "-ac", "2"]),
          "opus.mkv": (10, 7.5, ["-c:v", "mpeg4", "-c:a", "libopus", "-ar", "48000", "-ac", "1"]),
          "mp3.avi": (15, 3, ["-c:v", "mpeg4", "-c:a", "libmp3lame", "-ar", "32000", "-ac", "2"]),
          "pcm.mov": (12, 2.5, ["-c:v", "mpeg4", "-c:a", "pcm_s16le", "-ar", "16000", "-ac", "1"])}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return {family: write_omni_model(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    place = tmp_path_factory.mktemp("sounding")
    for name, (fps, seconds, how) in VIDEOS.items():
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=size=90x60:rate={fps}:duration={seconds}", "-f", "lavfi", "-i",
                        f"aevalsrc=0.4*sin(2*PI*t*(200+90*t))|0.2*sin(2*PI*t*440):s=48000:d={seconds + 0.3}", *how, place / name], check=True)
    return place


def samples_of(path):
    """librosa's way with a container: what ffmpeg decodes as 16 bits, the channels' mean, soxr. Rounded here as libswresample's own C does: on Arm its vectors cut two channels off instead."""
    probe = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "a", "-show_entries", "stream=sample_rate,channels", "-of", "csv=p=0", path], capture_output=True, text=True, check=True)
    rate, channels = map(int, probe.stdout.strip().split(","))
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-map", "0:a", "-f", "f32le", "-c:a", "pcm_f32le", "-"], capture_output=True, check=True).stdout
    samples = np.clip(np.rint(np.frombuffer(raw, np.float32) * np.float32(32768)), -32768, 32767).reshape(-1, channels) / np.float32(32768)
    return audio_files.resample(samples.mean(1, dtype=np.float32) if channels > 1 else samples[:, 0], rate)


def row_of(*paths, text=None):
    return {"messages": [{"role": "user", "content": text or "See " + " and ".join(["<video>"] * len(paths)) + "?"}, {"role": "assistant", "content": "Yes."}],
            "videos": [str(path) for path in paths]}


def mixed_text(family, grids, lengths, rates):
    """What transformers' processor makes of "See <video> and …?" for these grids and sounds."""
    kind, positions = PROCESSORS[family]
    names = {f"{name.replace('_start', '_bos').replace('_end', '_eos')}_token": token for name, token in TOKENS[family].items()}
    sizes = types.SimpleNamespace(merge_size=2)
    own = types.SimpleNamespace(**names, image_processor=sizes, video_processor=sizes, get_chunked_index=lambda *words: kind.get_chunked_index(None, *words))
    bare = TOKENS[family]["vision_start"] + TOKENS[family]["video"] + TOKENS[family]["vision_end"]
    return kind.replace_multimodal_special_tokens(
        own, ["See " + " and ".join([bare] * len(grids)) + "?"], iter(lengths), iter([]), iter([np.array(grid) for grid in grids]), iter([2 / rate for rate in rates]),
        use_audio_in_video=True, position_id_per_seconds=positions, seconds_per_chunk=2.0)[0]


def sampled_fps(name):
    fps, seconds, _ = VIDEOS[name]
    total = round(fps * seconds)
    count = int(min(max(seconds * 2, 4), total // 2 * 2)) // 2 * 2
    return count / total * fps


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_tokens_and_positions(models, videos, tmp_path, family):
    names = list(VIDEOS)
    done, batch = trace(models[family], tmp_path, [row_of(*(videos / name for name in names))], audio_in_video=True, video_min_pixels=3136, video_max_pixels=6272)
    assert done.returncode == 0, done.stderr
    wanted = [features_of(samples_of(videos / name), family) for name in names]
    assert batch["lengths"].tolist() == [len(one) for one in wanted]
    assert (batch["frames"] - torch.cat(wanted)).abs().max() < 1e-5
    model, tokenizer, rates = thinker_of(models[family]), transformers.AutoTokenizer.from_pretrained(models[family]), [sampled_fps(name) for name in names]
    grids = batch["grids"].tolist()
    pads = {kind: tokenizer.convert_tokens_to_ids(TOKENS[family][kind]) for kind in ("audio", "video")}
    assert mixed_text(family, grids, [count_of(len(one), family) for one in wanted], rates) in tokenizer.decode(batch["tokens"])
    assert torch.equal(batch["audio_rows"], (batch["tokens"] == pads["audio"]).nonzero()[:, 0])
    assert torch.equal(batch["rows"], (batch["tokens"] == pads["video"]).nonzero()[:, 0])
    assert not set(batch["targets"].tolist()) & {tokenizer.convert_tokens_to_ids(token) for token in TOKENS[family].values()}
    ids = batch["tokens"][None]
    place, _ = get_rope_index(model)(ids, None, batch["grids"], torch.ones_like(ids), True, batch["lengths"], torch.tensor([2 / rate for rate in rates]))
    assert torch.equal(batch["positions"][0], place[0, 0].long())
    assert (batch["positions"] - place[:, 0]).abs().max() <= 1  # Qwen3-Omni's own are fractions, which ms-swift cuts to whole numbers


def get_rope_index(model):
    return getattr(model, "get_rope_index", None) or model.model.get_rope_index


def count_of(frames, family):
    """Tokens of a number of frames, as the processors count them."""
    return ((frames - 1) // 2 + 1 - 2) // 2 + 1 if family == "qwen2_5_omni" else int(_get_feat_extract_output_lengths(torch.tensor(frames)))


def asked(family, name, tokenizer, batch, samples):
    """A question as transformers reads it."""
    prompt = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    frames = features_of(samples, family)
    text = mixed_text(family, batch["grids"].tolist(), [count_of(len(frames), family)], [sampled_fps(name)])
    ids = tokenizer(prompt.format(text), return_tensors="pt").input_ids
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values_videos": batch["patches"], "video_grid_thw": batch["grids"],
            "video_second_per_grid": torch.tensor([2 / sampled_fps(name)]), "use_audio_in_video": True,
            "input_features": frames.T[None], "feature_attention_mask": torch.ones(1, len(frames), dtype=torch.long)}


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_training_and_the_server(models, videos, tmp_path, family):
    """The engine's answer is transformers'; a run learns from such rows; the server reads the sound of a video_url."""
    folder, name = models[family], "aac.mp4"
    row = row_of(videos / name)
    _, batch = trace(folder, tmp_path, [row], audio_in_video=True, video_min_pixels=3136, video_max_pixels=6272)
    rows = write_rows(tmp_path / "rows.jsonl", [row])
    swift("infer", "--model", folder, "--val_dataset", rows, "--result_path", tmp_path / "out.jsonl", "--max_new_tokens", 8, "--temperature", 0, "--torch_dtype", "float32",
          "--template", "qwen2_5_omni", **SMALL)
    model, tokenizer = thinker_of(folder), transformers.AutoTokenizer.from_pretrained(folder)
    inputs = asked(family, name, tokenizer, batch, samples_of(videos / name))
    ends = [tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id]
    response = tokenizer.decode(model.generate(**inputs, max_new_tokens=8, do_sample=False, eos_token_id=ends, pad_token_id=0)[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True)
    assert json.loads((tmp_path / "out.jsonl").read_text())["response"] == response
    sft((folder, rows, [row]), tmp_path / "run", "--template", "qwen2_5_omni", "--max_steps", 2, "--save_strategy", "no", **SMALL)
    assert len(losses(tmp_path / "run")) == 2
    if family == "qwen3_omni_moe":
        return
    server = Server("--torch_dtype", "float32", "--template", "qwen2_5_omni", "--served_model_name", "m", model=folder, env=SMALL)
    try:
        data = "data:video/mp4;base64," + base64.b64encode((videos / name).read_bytes()).decode()
        answer = openai.OpenAI(base_url=server.url + "/v1", api_key="x").chat.completions.create(model="m", max_tokens=8, temperature=0, messages=[{
            "role": "user", "content": [{"type": "text", "text": "See "}, {"type": "video_url", "video_url": {"url": data}}, {"type": "text", "text": "?"}]}])
        assert answer.usage.prompt_tokens == inputs["input_ids"].shape[1] and answer.choices[0].message.content == response
    finally:
        server.stop()


def test_llama_factory_gives_the_sound_itself(models, videos, tmp_path):
    """<audio> after <video> is the video's sound: the same tokens as ms-swift's for the same samples."""
    audio_files.write(tmp_path / "sound.wav", samples_of(videos / "pcm.mov"), 16000)
    row = {**row_of(videos / "pcm.mov", text="See <video><audio>?"), "audios": [str(tmp_path / "sound.wav")]}
    more = {"dialect": "factory", "template": "qwen2_omni", "audio_in_video": True}
    done, batch = trace(models["qwen2_5_omni"], tmp_path, [row], **more)
    assert done.returncode == 0, done.stderr
    tokenizer = transformers.AutoTokenizer.from_pretrained(models["qwen2_5_omni"])
    text = mixed_text("qwen2_5_omni", batch["grids"].tolist(), [len(batch["audio_rows"])], [int(VIDEOS["pcm.mov"][1] * 2) / VIDEOS["pcm.mov"][1]])
    assert text in tokenizer.decode(batch["tokens"])
    for wrong, reason in (({**row, "audios": []}, "1 video and 0 audios"), ({**row, **row_of(videos / "pcm.mov", text="<audio>See <video>?")}, "without an <audio> after it")):
        done, _ = trace(models["qwen2_5_omni"], tmp_path, [wrong], **more)
        assert done.returncode != 0 and reason in done.stderr, done.stderr


def test_recordings_in_containers_and_what_has_no_sound(models, videos, tmp_path):
    """M4A and Matroska as `audios`; a video without sound and a list of frames are bad rows; preview shows both parts."""
    for name, codec in (("a.m4a", "aac"), ("a.mka", "libvorbis")):
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=frequency=330:duration=1.7", "-c:a", codec, tmp_path / name], check=True)
        done, batch = trace(models["qwen2_5_omni"], tmp_path, [{"messages": [{"role": "user", "content": "<audio>"}, {"role": "assistant", "content": "a"}], "audios": [str(tmp_path / name)]}])
        assert done.returncode == 0, done.stderr
        assert (batch["frames"] - features_of(samples_of(tmp_path / name), "qwen2_5_omni")).abs().max() < 1e-5
    silent = tmp_path / "silent.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-i", videos / "aac.mp4", "-an", "-c:v", "copy", silent], check=True)
    for row, reason in ((row_of(silent), "without sound"), ({**row_of(silent), "videos": [["a.png", "b.png"]]}, "")):
        done, _ = trace(models["qwen2_5_omni"], tmp_path, [row], audio_in_video=True)
        assert done.returncode == 3 and reason in done.stderr, done.stderr
    output = run("hone", "preview", "--model", models["qwen2_5_omni"], "--dataset", write_rows(tmp_path / "rows.jsonl", [row_of(videos / "pcm.mov")]), **SMALL)
    assert f"audio {videos / 'pcm.mov'}" in output and "<|VIDEO|>×" in output and "<|AUDIO|>×70" in output
