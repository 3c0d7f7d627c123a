"""Tiny Omni models under the hub's names, and the thinkers of transformers with the same weights."""
import json
import pathlib
import re

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import audio_files
from tiny_models import tiny_model

ROOT = pathlib.Path(__file__).resolve().parents[2]

TEXT = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
        "max_position_embeddings": 2048, "tie_word_embeddings": False}
ROPE = {"rope_type": "default", "rope_theta": 1e6}
TEXTS = {"qwen2_5_omni": {"rope_parameters": {**ROPE, "mrope_section": [2, 3, 3]}},
         "qwen3_omni_moe": {"head_dim": 16, "rope_parameters": {**ROPE, "mrope_section": [4, 2, 2], "mrope_interleaved": True}, "num_experts": 4,
                            "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True}}
TOWERS = {"qwen2_5_omni": {"depth": 2, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_heads": 2, "window_size": 56,
                           "fullatt_block_indexes": [1]},
          "qwen3_omni_moe": {"depth": 3, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_heads": 2, "patch_size": 16,
                             "num_position_embeddings": 36, "deepstack_visual_indexes": [0, 1]}}
AUDIO = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64, "num_mel_bins": 128, "output_dim": 64}
AUDIOS = {"qwen2_5_omni": {**AUDIO, "n_window": 100},
          "qwen3_omni_moe": {**AUDIO, "n_window": 50, "n_window_infer": 200, "conv_chunksize": 2, "downsample_hidden_size": 8}}
CLASSES = {"qwen2_5_omni": "Qwen2_5OmniThinker", "qwen3_omni_moe": "Qwen3OmniMoeThinker"}
ARCHITECTURES = {"qwen2_5_omni": "Qwen2_5OmniModel", "qwen3_omni_moe": "Qwen3OmniMoeForConditionalGeneration"}
TOKENS = {"qwen2_5_omni": {"image": "<|IMAGE|>", "video": "<|VIDEO|>", "audio": "<|AUDIO|>", "vision_start": "<|vision_bos|>",
                           "vision_end": "<|vision_eos|>", "audio_start": "<|audio_bos|>", "audio_end": "<|audio_eos|>"},
          "qwen3_omni_moe": {"image": "<|image_pad|>", "video": "<|video_pad|>", "audio": "<|audio_pad|>", "vision_start": "<|vision_start|>",
                             "vision_end": "<|vision_end|>", "audio_start": "<|audio_start|>", "audio_end": "<|audio_end|>"}}
PROCESSORS = {"qwen2_5_omni": {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
                               "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
                               "chunk_length": 300, "feature_size": 128, "n_fft": 400, "hop_length": 160, "sampling_rate": 16000},
              "qwen3_omni_moe": {"size": {"longest_edge": 12845056, "shortest_edge": 3136}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2,
                                 "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "feature_size": 128, "sampling_rate": 16000}}
# What speaks: names of the hub, shapes of nothing.
SPEAKS = {"qwen2_5_omni": {"talker.model.embed_tokens.weight": (7, 3), "token2wav.code2wav_dit_model.proj_out.bias": (5,)},
          "qwen3_omni_moe": {**{f"talker.model.layers.0.mlp.experts.{k}.{part}_proj.weight": (3, 5) if part != "down" else (5, 3)
                                for k in range(2) for part in ("gate", "up", "down")}, "code2wav.decoder.0.conv.bias": (4,)}}


def hub_names(tensors):
    """Tensors of transformers' thinker (its module tree) under the names of the hub's files."""
    named = {}
    for name, value in tensors.items():
        name = name.replace("model.language_model.", "model.") if name.startswith("model.language_model.") else name.removeprefix("model.")
        if match := re.fullmatch(r"(.*\.experts)\.(gate_up_proj|down_proj)", name):
            for k, one in enumerate(value):
                parts = {"down_proj": one} if match[2] == "down_proj" else dict(zip(("gate_proj", "up_proj"), one.chunk(2)))
                named |= {f"thinker.{match[1]}.{k}.{part}.weight": weight for part, weight in parts.items()}
        else:
            named["thinker." + name] = value
    return named


def write_omni_model(folder, family):
    """tokenizer, preprocessor_config.json, random weights of which none is constant, and those of the talker."""
    tiny_model(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": list(TOKENS[family].values())})
    tokenizer.save_pretrained(folder)
    ids = {kind: tokenizer.convert_tokens_to_ids(token) for kind, token in TOKENS[family].items()}
    suffix = "index" if family == "qwen2_5_omni" else "id"
    config = getattr(transformers, CLASSES[family] + "Config")(
        text_config={**TEXT, **TEXTS[family], "vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id},
        vision_config=TOWERS[family], audio_config=AUDIOS[family], position_id_per_seconds=25 if family == "qwen2_5_omni" else 13,
        **{f"{kind}_token_{suffix}": ids[kind] for kind in ("image", "video", "audio")},
        **{f"{kind}_token_id": ids[kind] for kind in ("vision_start", "vision_end", "audio_start", "audio_end")})
    torch.manual_seed(0)
    model = getattr(transformers, CLASSES[family] + "ForConditionalGeneration")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2) if parameter.ndim == 1 else parameter.mul_(3)
    speaks = {name: torch.randn(shape).bfloat16() for name, shape in SPEAKS[family].items()}
    save_file({name: value.contiguous() for name, value in {**hub_names(model.state_dict()), **speaks}.items()}, folder / "model.safetensors",
              {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": [ARCHITECTURES[family]], "model_type": family, "thinker_config": config.to_dict(), "talker_config": {"model_type": "x"},
        "enable_audio_output": True, "dtype": "float32"}))
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSORS[family]))
    (folder / "spk_dict.pt").write_bytes(b"voices")
    return folder


def thinker_of(folder):
    """transformers' thinker with the weights of a folder, of which none is missing or left."""
    config = json.loads((folder / "config.json").read_text())
    family, thinker = config["model_type"], config["thinker_config"]
    own = getattr(transformers, CLASSES[family] + "Config")(**thinker)
    own._attn_implementation = "eager"
    model = getattr(transformers, CLASSES[family] + "ForConditionalGeneration")._from_config(own, dtype=torch.float32, attn_implementation="eager")
    stored = load_file(folder / "model.safetensors")
    state, used = {}, set()
    for name, value in model.state_dict().items():
        parts = hub_names({name: value})
        used |= set(parts)
        if ".experts." in name:
            block = hub_names({name: torch.zeros_like(value)})
            prefix = next(iter(block)).split(".experts.")[0] + ".experts."
            one = lambda k: (torch.cat([stored[f"{prefix}{k}.{part}_proj.weight"] for part in ("gate", "up")]) if name.endswith("gate_up_proj")
                             else stored[f"{prefix}{k}.down_proj.weight"])
            state[name] = torch.stack([one(k) for k in range(value.shape[0])])
        else:
            state[name] = stored[next(iter(parts))]
    assert used | set(SPEAKS[family]) == set(stored), used ^ set(stored)
    model.load_state_dict({name: value.float() for name, value in state.items()}, strict=True)
    return model.eval()


def features(path, family):
    """What ms-swift hands to WhisperFeatureExtractor, and what that makes of it."""
    samples, rate = audio_files.read(path)
    return features_of(audio_files.resample(samples.mean(1, dtype=np.float32) if samples.shape[1] > 1 else samples[:, 0], rate), family)


def features_of(mono, family):
    if family == "qwen2_5_omni":
        extractor = transformers.WhisperFeatureExtractor(feature_size=128, chunk_length=300)
        made = extractor(mono, sampling_rate=16000, padding="max_length", return_attention_mask=True, return_tensors="pt")
    else:
        extractor = transformers.WhisperFeatureExtractor(feature_size=128)
        mono = mono[:len(mono) // 160 * 160]
        made = extractor(mono, sampling_rate=16000, padding=True, truncation=False, return_attention_mask=True, return_tensors="pt")
    return made["input_features"][0].T[:int(made["attention_mask"].sum())]
