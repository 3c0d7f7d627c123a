"""Tiny vision models with a real tokenizer, written by transformers."""
import json
import pathlib
import runpy

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
make_model = runpy.run_path(str(ROOT / "tools" / "make_model.py"))["main"]

TEXT = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
        "max_position_embeddings": 2048, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}}
TOWERS = {
    "qwen2_vl": {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2},
    "qwen2_5_vl": {"depth": 4, "hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_heads": 2, "window_size": 56,
                   "fullatt_block_indexes": [1, 3], "tokens_per_second": 2},
}
CLASSES = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL"}
# What a processor of the hub says.
PROCESSOR = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
             "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
             "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor"}


def write_vision_model(folder, family, tie=False, text=None, tower=None):
    """A folder under the names of the hub: tokenizer, preprocessor_config.json, random weights of which none is constant."""
    make_model(["--family", "qwen2", "--vocab", "small", "--out", str(folder)])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]})
    tokenizer.save_pretrained(folder)
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in (
        ("image_token_id", "<|image_pad|>"), ("video_token_id", "<|video_pad|>"), ("vision_start_token_id", "<|vision_start|>"),
        ("vision_end_token_id", "<|vision_end|>"))}
    config = getattr(transformers, CLASSES[family] + "Config")(
        text_config={**TEXT, "vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, **(text or {})},
        vision_config={**TOWERS[family], **(tower or {})}, tie_word_embeddings=tie, **ids)
    torch.manual_seed(0)
    model = getattr(transformers, CLASSES[family] + "ForConditionalGeneration")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2) if parameter.ndim == 1 else parameter.mul_(3)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return folder
