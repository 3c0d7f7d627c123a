"""Runs of Omni models: training with ranks without audio, trained and carried weights, adapters, generation and the server."""
import base64
import json
import re
import subprocess
import time
import urllib.request

import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import audio_files
import workers
from media_runs import HONE, swift, write_rows
from media_runs import sft as plain_sft
from omni_models import SPEAKS, TOKENS, features, thinker_of, write_omni_model

TONES = {"low": 220, "high": 1760}
FAMILIES = ["qwen2_5_omni", "qwen3_omni_moe"]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """By family: a model, and rows with an audio, with text alone, and with both kinds of media."""
    made = {}

    def make(family):
        if family not in made:
            folder = tmp_path_factory.mktemp("omni") / family
            folder.mkdir()
            write_omni_model(folder, family)
            rows = []
            for name, pitch in TONES.items():
                samples = audio_files.chirp(1.3, 16000, seed=pitch)
                path = audio_files.write(folder.parent / f"{name}.wav", samples, 16000)
                rows.append({"messages": [{"role": "user", "content": "<audio>Tone?"}, {"role": "assistant", "content": name}], "audios": [str(path)]})
                rows.append({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]})
            Image.new("RGB", (60, 90), (200, 20, 20)).save(folder.parent / "red.png")
            rows.append({"messages": [{"role": "user", "content": "<image>and <audio>?"}, {"role": "assistant", "content": "both"}],
                         "audios": [str(folder.parent / "low.wav")], "images": [str(folder.parent / "red.png")]})
            rows.append(rows[1])
            made[family] = folder, write_rows(folder.parent / "rows.jsonl", rows), rows
        return made[family]

    return make


def sft(made, out, *words, **variables):
    return plain_sft(made, out, "--template", "qwen2_5_omni", *words, **variables)


def test_ranks_without_audio_wait_for_nobody(models, tmp_path):
    made = models("qwen2_5_omni")
    whole = ("--tuner_type", "full", "--freeze_vit", "false", "--freeze_aligner", "false", "--save_strategy", "no", "--gradient_accumulation_steps")
    losses = [[float(loss) for loss in re.findall(r"'loss': ([\d.]+)", text)] for text in (
        sft(made, tmp_path / "one", *whole, 2), sft(made, tmp_path / "sharded", *whole, 1, "--deepspeed", "zero3", NPROC_PER_NODE="2"))]
    assert len(losses[0]) == 3
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_full_training_keeps_what_speaks(models, tmp_path, family):
    """The aligner trains, the towers do not, the talker is written as it was read."""
    folder = models(family)[0]
    sft(models(family), tmp_path / "run", "--tuner_type", "full", "--freeze_aligner", "false", "--gradient_accumulation_steps", 2, "--weight_decay", 0)
    checkpoint = tmp_path / "run" / "checkpoint-3"
    before, after = load_file(folder / "model.safetensors"), load_file(checkpoint / "model.safetensors")
    assert set(before) == set(after)
    thinker_of(checkpoint)
    mergers = ("thinker.visual.merger", "thinker.audio_tower.proj")
    for name, value in after.items():
        frozen = name in SPEAKS[family] or (name.startswith(("thinker.visual.", "thinker.audio_tower.")) and not name.startswith(mergers))
        assert value.dtype == before[name].dtype, name
        assert torch.equal(value, before[name]) == frozen or ".experts." in name or "embed_tokens" in name, name
    assert (checkpoint / "spk_dict.pt").read_bytes() == b"voices"


PARTS = {"qwen2_5_omni": ("thinker.model.layers.0.self_attn.q_proj", "thinker.visual.blocks.0.attn.q.", "thinker.visual.merger.mlp.0",
                          "thinker.audio_tower.layers.1.fc1", "thinker.audio_tower.proj."),
         "qwen3_omni_moe": ("thinker.model.layers.0.self_attn.q_proj", "thinker.visual.blocks.0.attn.qkv", "thinker.visual.merger_list.0.mlp.2",
                            "thinker.audio_tower.conv_out", "thinker.audio_tower.proj2")}


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_of_all_parts_merges(models, tmp_path, family):
    """PEFT's sum of both matrices, under ms-swift's names; the base's other tensors stay."""
    folder = models(family)[0]
    sft(models(family), tmp_path / "run", "--tuner_type", "lora", "--freeze_vit", "false", "--freeze_aligner", "false", "--gradient_accumulation_steps", 2)
    adapter = tmp_path / "run" / "checkpoint-3"
    saved, config = load_file(adapter / "adapter_model.safetensors"), json.loads((adapter / "adapter_config.json").read_text())
    for part in PARTS[family]:
        assert any(name.startswith("base_model.model." + part) for name in saved), part
    assert not any(name.startswith("base_model.model.talker") for name in saved)
    targets = re.compile(config["target_modules"])
    swift("export", "--model", folder, "--adapters", adapter, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "merged" / "model.safetensors")
    assert set(before) == set(after)
    for name, value in after.items():
        module = name.removesuffix(".weight")
        a = saved.get(f"base_model.model.{module}.lora_A.weight")
        assert (a is not None) == bool(targets.fullmatch(module)) or not name.endswith(".weight") or value.ndim != 2, name
        wanted = before[name] if a is None else before[name] + config["lora_alpha"] / config["r"] * saved[f"base_model.model.{module}.lora_B.weight"] @ a
        assert torch.allclose(value, wanted, atol=1e-6), name
    assert (tmp_path / "merged" / "spk_dict.pt").exists()


def asked(family, row, tokenizer, config):
    """A row's question as transformers reads it."""
    names, inputs, text = TOKENS[family], {}, row["messages"][0]["content"]
    if "audios" in row:
        frames = features(row["audios"][0], family)
        inputs |= {"input_features": frames.T[None], "feature_attention_mask": torch.ones(1, len(frames), dtype=torch.long)}
        count = ((len(frames) - 1) // 2 + 1) // 2 if family == "qwen2_5_omni" else len(frames) // 100 * 13 + (((len(frames) % 100 - 1) // 2) // 2) // 2 + 1
        text = text.replace("<audio>", names["audio_start"] + names["audio"] * count + names["audio_end"])
    if "images" in row:
        processor = Qwen2VLImageProcessorPil(**({"min_pixels": 3136, "max_pixels": 12845056} if family == "qwen2_5_omni" else
                                                {"min_pixels": 4096, "max_pixels": 16777216, "patch_size": 16, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
        inputs |= dict(processor(images=Image.open(row["images"][0]).convert("RGB"), return_tensors="pt"))
        text = text.replace("<image>", names["vision_start"] + names["image"] * (int(inputs["image_grid_thw"].prod()) // 4) + names["vision_end"])
    prompt = f"<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    inputs["input_ids"] = tokenizer(prompt, return_tensors="pt").input_ids
    return {**inputs, "attention_mask": torch.ones_like(inputs["input_ids"])}


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_transformers(models, tmp_path, family):
    folder, path, rows = models(family)
    swift("infer", "--model", folder, "--val_dataset", path, "--result_path", tmp_path / "out.jsonl", "--max_new_tokens", 8, "--temperature", 0,
          "--torch_dtype", "float32", "--template", "qwen2_5_omni")
    model, tokenizer = thinker_of(folder), transformers.AutoTokenizer.from_pretrained(folder)
    ends = [tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id]
    for row, line in zip(rows, (tmp_path / "out.jsonl").read_text().splitlines()):
        inputs = asked(family, row, tokenizer, model.config)
        generated = model.generate(**inputs, max_new_tokens=8, do_sample=False, eos_token_id=ends, pad_token_id=0)[0, inputs["input_ids"].shape[1]:]
        assert json.loads(line)["response"] == tokenizer.decode(generated, skip_special_tokens=True)


def test_the_server_hears(models, tmp_path):
    """input_audio and audio_url are the row's own answer; an address and speech as an answer are refused with a sentence."""
    folder, _, rows = models("qwen2_5_omni")
    port = workers.free_port()
    server = subprocess.Popen([HONE.with_name("swift"), "deploy", "--model", folder, "--port", str(port), "--host", "127.0.0.1", "--torch_dtype", "float32",
                               "--served_model_name", "m", "--template", "qwen2_5_omni"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def ask(content, **more):
            body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 8, "temperature": 0, **more}
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
            try:
                return json.loads(urllib.request.urlopen(request, timeout=60).read())
            except urllib.error.HTTPError as refused:
                return json.loads(refused.read())

        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        data = base64.b64encode(open(rows[0]["audios"][0], "rb").read()).decode()
        question = {"type": "text", "text": "Tone?"}
        one = ask([{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}, question])
        two = ask([{"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64," + data}}, question])
        content = one["choices"][0]["message"]["content"]
        model, tokenizer = thinker_of(folder), transformers.AutoTokenizer.from_pretrained(folder)
        inputs = asked("qwen2_5_omni", rows[0], tokenizer, model.config)
        ends = [tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id]
        wanted = model.generate(**inputs, max_new_tokens=8, do_sample=False, eos_token_id=ends, pad_token_id=0)[0, inputs["input_ids"].shape[1]:]
        assert content == two["choices"][0]["message"]["content"] == tokenizer.decode(wanted, skip_special_tokens=True)
        assert one["usage"]["prompt_tokens"] == inputs["input_ids"].shape[1]
        assert "not fetched" in ask([{"type": "audio_url", "audio_url": {"url": "http://a/b.wav"}}])["error"]["message"]
        assert "only text output" in ask("hi", modalities=["text", "audio"], audio={"voice": "any", "format": "wav"})["error"]["message"]
        assert "expected WAV" in ask([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}])["error"]["message"]
    finally:
        server.terminate()
        server.wait()
