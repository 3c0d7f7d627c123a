#!/usr/bin/env python3
"""Writes a tiny model that hears and rows of tones: out/model, out/train.jsonl, out/val.jsonl.

    python3 cookbook/vision/make_tones.py output/tones

The model is the thinker of Qwen2.5-Omni's architecture with random weights: it knows neither tones nor words before it is trained."""
import array
import json
import math
import pathlib
import random
import runpy
import sys
import wave

import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATE, SECONDS = 16000, 0.4
TONES = {"deep": 150, "low": 300, "middle": 600, "high": 1200, "shrill": 2400, "piercing": 4800}
TOKENS = {"image": "<|IMAGE|>", "video": "<|VIDEO|>", "audio": "<|AUDIO|>", "vision_start": "<|vision_bos|>", "vision_end": "<|vision_eos|>",
          "audio_start": "<|audio_bos|>", "audio_end": "<|audio_eos|>"}


def hub_name(name):
    """A name of transformers' module tree as the hub's files have it."""
    return "thinker." + (name.replace("model.language_model.", "model.") if name.startswith("model.language_model.") else name.removeprefix("model."))


def write_model(folder):
    runpy.run_path(str(ROOT / "tools" / "make_model.py"))["main"](["--family", "qwen2", "--vocab", "small", "--out", str(folder)])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": list(TOKENS.values())})
    tokenizer.save_pretrained(folder)
    ids = {kind: tokenizer.convert_tokens_to_ids(token) for kind, token in TOKENS.items()}
    config = transformers.Qwen2_5OmniThinkerConfig(
        text_config={"vocab_size": len(tokenizer), "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 256,
                     "max_position_embeddings": 512, "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "tie_word_embeddings": False,
                     "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 4, 4]}},
        vision_config={"depth": 1, "hidden_size": 32, "out_hidden_size": 96, "intermediate_size": 64, "num_heads": 2, "window_size": 56, "fullatt_block_indexes": [0]},
        audio_config={"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 128, "num_mel_bins": 128, "output_dim": 96, "n_window": 100},
        **{f"{kind}_token_index": ids[kind] for kind in ("image", "video", "audio")},
        **{f"{kind}_token_id": ids[kind] for kind in ("vision_start", "vision_end", "audio_start", "audio_end")})
    torch.manual_seed(0)
    model = transformers.Qwen2_5OmniThinkerForConditionalGeneration(config)
    save_file({hub_name(name): value.contiguous() for name, value in model.state_dict().items()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"architectures": ["Qwen2_5OmniModel"], "model_type": "qwen2_5_omni", "thinker_config": config.to_dict(), "dtype": "float32"}))
    (folder / "preprocessor_config.json").write_text(json.dumps({"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
                                                                 "chunk_length": 300, "feature_size": 128, "sampling_rate": RATE}))


def write_rows(folder, name, count, seed):
    draw, rows = random.Random(seed), []
    (folder / name).mkdir(exist_ok=True)
    for number in range(count):
        tone = draw.choice(sorted(TONES))
        pitch, loud, phase = TONES[tone] * draw.uniform(0.9, 1.1), draw.uniform(0.2, 0.8), draw.uniform(0, 6)
        samples = array.array("h", (int(32767 * (loud * math.sin(2 * math.pi * pitch * i / RATE + phase) + draw.uniform(-0.02, 0.02))) for i in range(int(RATE * SECONDS))))
        path = folder / name / f"{number}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1), file.setsampwidth(2), file.setframerate(RATE)
            file.writeframes(samples.tobytes())
        rows.append({"messages": [{"role": "user", "content": "<audio>Tone?"}, {"role": "assistant", "content": tone}], "audios": [str(path)]})
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    (out / "model").mkdir(parents=True, exist_ok=True)
    write_model(out / "model")
    write_rows(out, "train", 384, seed=1)
    write_rows(out, "val", 48, seed=2)
