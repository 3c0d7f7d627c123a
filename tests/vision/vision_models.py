"""Tiny vision models with a real tokenizer, written by transformers."""
import json
import math
import pathlib

import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_models import tiny_model

ROOT = pathlib.Path(__file__).resolve().parents[2]

TEXT = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
        "max_position_embeddings": 2048, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}}
QWEN3 = {"head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2], "mrope_interleaved": True}}
HYBRID = {"head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
          "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1], "mrope_interleaved": True}}
TEXTS = {"qwen3_5": HYBRID, "qwen3_5_moe": {**HYBRID, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40},
         "qwen3_vl": QWEN3, "qwen3_vl_moe": {**QWEN3, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
         "internvl": {"model_type": "qwen2", "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
         # A window narrower than a picture: its rows see what follows in it, and not all that is before.
         "gemma3": {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"] * 2, "rope_parameters": {
             "full_attention": {"rope_type": "default", "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}}
QWEN3_TOWER = {"depth": 4, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_heads": 2, "patch_size": 16,
               "num_position_embeddings": 36, "deepstack_visual_indexes": [0, 2]}
QWEN3_5_TOWER = {key: value for key, value in QWEN3_TOWER.items() if key != "deepstack_visual_indexes"}
TOWERS = {
    "qwen3_5": QWEN3_5_TOWER,
    "qwen3_5_moe": QWEN3_5_TOWER,
    "qwen2_vl": {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2},
    "qwen2_5_vl": {"depth": 4, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_heads": 2, "window_size": 56,
                   "fullatt_block_indexes": [1, 3], "tokens_per_second": 2},
    "qwen3_vl": QWEN3_TOWER,
    "qwen3_vl_moe": QWEN3_TOWER,
    "internvl": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "image_size": [56, 56],
                 "patch_size": [14, 14], "attention_bias": True},
    "gemma3": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "image_size": 56, "patch_size": 14, "vision_use_head": False},
}
CLASSES = {"qwen3_5": "Qwen3_5", "qwen3_5_moe": "Qwen3_5Moe", "qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL", "qwen3_vl_moe": "Qwen3VLMoe", "internvl": "InternVL", "gemma3": "Gemma3"}
# What a processor of the hub says.
PROCESSOR = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
             "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
             "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor"}
QWEN3_PROCESSOR = {"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2,
                   "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "image_processor_type": "Qwen2VLImageProcessorFast"}
INTERN_PROCESSOR = {"size": {"height": 56, "width": 56}, "crop_to_patches": False, "min_patches": 1, "max_patches": 12,
                    "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "image_processor_type": "GotOcr2ImageProcessorFast"}
GEMMA_PROCESSOR = {"size": {"height": 56, "width": 56}, "resample": 2, "do_pan_and_scan": None, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "image_seq_length": 4,
                   "image_processor_type": "Gemma3ImageProcessor", "processor_class": "Gemma3Processor"}
PROCESSORS = {"qwen3_5": QWEN3_PROCESSOR, "qwen3_5_moe": QWEN3_PROCESSOR, "qwen3_vl": QWEN3_PROCESSOR, "qwen3_vl_moe": QWEN3_PROCESSOR, "internvl": INTERN_PROCESSOR, "gemma3": GEMMA_PROCESSOR}
QWEN_TOKENS = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>", "vision_start_token_id": "<|vision_start|>",
               "vision_end_token_id": "<|vision_end|>"}
TOKENS = {"internvl": {"image_token_id": "<IMG_CONTEXT>"},
          "gemma3": {"image_token_index": "<image_soft_token>", "boi_token_index": "<start_of_image>", "eoi_token_index": "<end_of_image>"}}
OTHER_TOKENS = {"internvl": ["<img>", "</img>"], "gemma3": ["<bos>", "<start_of_turn>", "<end_of_turn>"]}
SEQUENCE = {"internvl": {"image_seq_length": 4}, "gemma3": {"mm_tokens_per_image": 4}}


def smart_resize(height, width, factor, low, high):
    """qwen_vl_utils' function of that name: sides that `factor` divides, with `low` to `high` pixels."""
    h, w = max(factor, round(height / factor) * factor), max(factor, round(width / factor) * factor)
    if h * w > high:
        beta = math.sqrt(height * width / high)
        h, w = math.floor(height / beta / factor) * factor, math.floor(width / beta / factor) * factor
    elif h * w < low:
        beta = math.sqrt(low / (height * width))
        h, w = math.ceil(height * beta / factor) * factor, math.ceil(width * beta / factor) * factor
    return h, w


def write_vision_model(folder, family, tie=False, text=None, tower=None):
    """A folder under the names of the hub: tokenizer, preprocessor_config.json, random weights of which none is constant."""
    tiny_model(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    named = TOKENS.get(family, QWEN_TOKENS)
    tokenizer.add_special_tokens({"additional_special_tokens": [*named.values(), *OTHER_TOKENS.get(family, [])]})
    tokenizer.save_pretrained(folder)
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in named.items()}
    config = getattr(transformers, CLASSES[family] + "Config")(
        text_config={**TEXT, **TEXTS.get(family, {}), "vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id,
                     **(text or {})},
        vision_config={**TOWERS[family], **(tower or {})}, tie_word_embeddings=tie, **SEQUENCE.get(family, {}), **ids)
    torch.manual_seed(0)
    model = getattr(transformers, CLASSES[family] + "ForConditionalGeneration")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2) if parameter.ndim == 1 or parameter.shape[0] == 1 else parameter.mul_(3)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSORS.get(family, PROCESSOR)))
    return folder


def as_hub_experts(folder):
    """Qwen3-VL's experts as its hub files have them, [in, out] for each."""
    tensors = load_file(folder / "model.safetensors")
    save_file({name: value.transpose(1, 2).contiguous() if ".experts." in name else value for name, value in tensors.items()},
              folder / "model.safetensors", {"format": "pt"})


def chat_names(tensors):
    """Tensors of transformers' InternVL (its module tree) under the names of OpenGVLab's own class."""
    renamed, parts = {}, {}
    for name, value in tensors.items():
        for old, new in (("model.vision_tower.embeddings.cls_token", "vision_model.embeddings.class_embedding"),
                         ("model.vision_tower.embeddings.position_embeddings", "vision_model.embeddings.position_embedding"),
                         ("model.vision_tower.embeddings.patch_embeddings.projection", "vision_model.embeddings.patch_embedding"),
                         ("model.vision_tower.encoder.layer.", "vision_model.encoder.layers."), (".attention.projection_layer", ".attn.proj"),
                         (".layernorm_before", ".norm1"), (".layernorm_after", ".norm2"), (".lambda_1", ".ls1"), (".lambda_2", ".ls2"),
                         ("model.multi_modal_projector.layer_norm", "mlp1.0"), ("model.multi_modal_projector.linear_1", "mlp1.1"),
                         ("model.multi_modal_projector.linear_2", "mlp1.3"), ("model.language_model.", "language_model.model.")):
            name = name.replace(old, new)
        name = "language_model." + name if name.startswith("lm_head.") else name
        if ".attention." in name:
            layer, kind = name.split(".attention.")
            parts.setdefault(f"{layer}.attn.qkv.{kind.split('.')[1]}", {})[kind[0]] = value
        else:
            renamed[name] = value
    return {**renamed, **{name: torch.cat([own[kind] for kind in "qkv"]) for name, own in parts.items()}}


def as_chat_model(source, folder):
    """The folder of an InternVL of transformers in the spelling of OpenGVLab's."""
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes()) if not file.name.startswith("model") else None
    config = json.loads((source / "config.json").read_text())
    vision = {**config["vision_config"], "image_size": 56, "patch_size": 14, "qkv_bias": True, "qk_normalization": False}
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "llm_config": {**config["text_config"], "architectures": ["Qwen2ForCausalLM"]},
        "vision_config": vision, "downsample_ratio": 0.5, "ps_version": "v2", "select_layer": -1, "force_image_size": 56, "dtype": "float32"}))
    model = transformers.AutoModelForImageTextToText.from_pretrained(source, dtype=torch.float32)
    tensors = {name: value.contiguous() for name, value in chat_names(model.state_dict()).items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder
