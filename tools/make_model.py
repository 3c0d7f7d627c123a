#!/usr/bin/env python3
"""Write a Hugging Face model folder with random weights and a real tokenizer, for parity tests and benchmarks.

    pip install transformers tokenizers safetensors dashscope llama-models torch==2.13.0
    make_model.py --family qwen2 --size tiny --out models/qwen2-tiny
    make_model.py --family mistral --vocab small --config '{"sliding_window": 8}' --out models/mistral-tiny

Families: qwen2 (Qwen2.5), qwen3, llama3, mistral, seed_oss, gemma3 (text), granite, and with experts qwen2_moe, qwen3_moe, mixtral; with layers of linear attention qwen3_next, qwen3_5 and qwen3_5_moe (text). Sizes: tiny (CPU tests), and the shape of a real model (0.5b, 1.5b, 7b, ...).
The vocabulary comes from the packages `dashscope` (Qwen, also given to Mistral) and `llama-models` (Llama 3), which ship it;
`--vocab small` is one of bytes and a few pairs, so that a test's model is made and run in an instant.
The weights are random (normal, std 0.02, fixed seed), so outputs mean nothing: compare numbers, not text.
"""
import argparse, base64, json, pathlib
from importlib.resources import files

QWEN_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA_SPLIT = QWEN_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
                "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
                "<|image_pad|>", "<|video_pad|>"]
QWEN_PLAIN = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
              "<|repo_name|>", "<|file_sep|>"]
CHATML = ("{%- for m in messages -%}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor -%}"
          "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}")
LLAMA_CHAT = ("{{ bos_token }}{%- for m in messages -%}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
              "{{ m['content'] | trim }}<|eot_id|>{%- endfor -%}"
              "{%- if add_generation_prompt -%}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif -%}")

SHAPES = {  # hidden, intermediate, layers, heads, kv heads, head_dim, tied
    "qwen2": {"tiny": (64, 160, 3, 4, 2, 16, True), "0.5b": (896, 4864, 24, 14, 2, 64, True),
              "1.5b": (1536, 8960, 28, 12, 2, 128, True), "7b": (3584, 18944, 28, 28, 4, 128, False)},
    "qwen3": {"tiny": (64, 160, 3, 4, 2, 32, True), "0.6b": (1024, 3072, 28, 16, 8, 128, True),
              "8b": (4096, 12288, 36, 32, 8, 128, False)},
    "llama3": {"tiny": (64, 160, 3, 4, 2, 16, False), "1b": (2048, 8192, 16, 32, 8, 64, True),
               "8b": (4096, 14336, 32, 32, 8, 128, False)},
    "mistral": {"tiny": (64, 160, 3, 4, 2, 16, False), "7b": (4096, 14336, 32, 32, 8, 128, False)},
    "qwen2_moe": {"tiny": (64, 160, 3, 4, 2, 16, False), "a2.7b": (2048, 5632, 24, 16, 16, 128, False)},
    "qwen3_moe": {"tiny": (64, 160, 3, 4, 2, 32, False), "30b-a3b": (2048, 6144, 48, 32, 4, 128, False)},
    "seed_oss": {"tiny": (64, 160, 3, 4, 2, 32, False), "36b": (5120, 27648, 64, 80, 8, 128, False)},
    "granite": {"tiny": (64, 160, 3, 4, 2, 16, True), "2b": (2048, 8192, 40, 32, 8, 64, True)},
    "gemma3": {"tiny": (64, 160, 3, 4, 2, 32, True), "1b": (1152, 6912, 26, 4, 1, 256, True)},
    "qwen3_next": {"tiny": (64, 160, 4, 4, 2, 32, False), "80b-a3b": (2048, 5120, 48, 16, 2, 256, False)},
    "qwen3_5": {"tiny": (64, 160, 4, 4, 2, 32, True), "9b": (4096, 12288, 32, 16, 4, 256, False)},
    "qwen3_5_moe": {"tiny": (64, 160, 4, 4, 2, 32, False), "35b-a3b": (2048, 512, 40, 16, 2, 256, False)},
    "mixtral": {"tiny": (64, 160, 3, 4, 2, 16, False), "8x7b": (4096, 14336, 32, 32, 8, 128, False)},
}
EXPERTS = {  # experts, experts of a token, width of each, width of the shared one
    "qwen2_moe": {"tiny": (6, 2, 48, 80), "a2.7b": (60, 4, 1408, 5632)},
    "qwen3_moe": {"tiny": (8, 3, 48, 0), "30b-a3b": (128, 8, 768, 0)},
    "qwen3_next": {"tiny": (8, 3, 48, 40), "80b-a3b": (512, 10, 512, 512)},
    "qwen3_5_moe": {"tiny": (8, 3, 48, 40), "35b-a3b": (256, 8, 512, 512)},
    "mixtral": {"tiny": (4, 2, 160, 0), "8x7b": (8, 2, 14336, 0)},
}
LINEAR_ATTENTION = {"qwen3_next", "qwen3_5", "qwen3_5_moe"}
SMALL_PAIRS = [b"th", b"he", b"in", b"er", b"an", b" t", b" a", b"the", b"ing", b" the", b"re", b"on"]


def byte_alphabet():
    """GPT-2's map from bytes to printable characters."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, extra = {}, 0
    for b in range(256):
        out[b] = chr(b) if b in keep else chr(256 + extra)
        extra += b not in keep
    return out


def merges_of(ranks):
    """Recover the merge list of a rank-ordered (tiktoken) vocabulary: for each token, the split BPE makes below its own rank."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda kv: kv[1]):
        if len(token) == 1:
            continue
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            best = min(((ranks.get(a + b, 1 << 60), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))))
            if best[0] >= rank:
                break
            i = best[1]
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append(tuple(parts))
    return merges


def write_tokenizer(out, ranks, split, added, special, bos, eos, pad, template):
    alphabet = byte_alphabet()
    show = lambda t: "".join(alphabet[b] for b in t)
    base = len(ranks)
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": base + i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": t in special} for i, t in enumerate(added)],
        "normalizer": {"type": "NFC"} if split is QWEN_SPLIT else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": split is LLAMA_SPLIT,
                  "vocab": {show(t): r for t, r in ranks.items()},
                  "merges": [[show(a), show(b)] for a, b in merges_of(ranks)]},
    }
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": eos, "pad_token": pad,
              "model_max_length": 32768, "chat_template": template, "clean_up_tokenization_spaces": False}
    (out / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2))


def read_ranks(path):
    return {base64.b64decode(t): int(r) for t, r in (line.split() for line in path.read_text().splitlines() if line)}


def small_ranks():
    """All bytes in the byte alphabet's order, then a few frequent pairs: enough for merges to happen."""
    return {t: i for i, t in enumerate([bytes([b]) for b in range(256)] + sorted(SMALL_PAIRS, key=len))}


def expert_fields(family, size):
    experts, per_token, width, shared = EXPERTS[family][size]
    if family == "mixtral":
        return dict(num_local_experts=experts, num_experts_per_tok=per_token)
    fields = dict(num_experts=experts, num_experts_per_tok=per_token, moe_intermediate_size=width, norm_topk_prob=family in ("qwen3_moe", "qwen3_next"))
    if family == "qwen3_5_moe":  # always
        fields.pop("norm_topk_prob")
    return {**fields, "shared_expert_intermediate_size": shared} if shared else fields


def main(arguments=None):
    p = argparse.ArgumentParser()
    p.add_argument("--family", choices=SHAPES, default="qwen2")
    p.add_argument("--size", default="tiny")
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--vocab", choices=["real", "small"], default="real")
    p.add_argument("--config", type=json.loads, default={}, help="JSON object of further fields of config.json")
    p.add_argument("--max-shard-size", default="5GB")
    a = p.parse_args(arguments)
    import torch, transformers
    a.out.mkdir(parents=True, exist_ok=True)
    hidden, inter, layers, heads, kv, head_dim, tied = SHAPES[a.family][a.size]
    common = dict(hidden_size=hidden, intermediate_size=inter, num_hidden_layers=layers, num_attention_heads=heads,
                  num_key_value_heads=kv, tie_word_embeddings=tied, rms_norm_eps=1e-6, max_position_embeddings=32768)
    small = small_ranks() if a.vocab == "small" else None
    if a.family == "llama3":
        ranks = small or read_ranks(files("llama_models") / "llama3" / "tokenizer.model")
        special = ["<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_special_token_{i}|>" for i in range(4)),
                   "<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_4|>", "<|eot_id|>",
                   *(f"<|reserved_special_token_{i}|>" for i in range(5, 251))]
        write_tokenizer(a.out, ranks, LLAMA_SPLIT, special, set(special), "<|begin_of_text|>", "<|eot_id|>", None, LLAMA_CHAT)
        fields = dict(head_dim=head_dim, vocab_size=len(ranks) + len(special), rope_theta=500000.0,
                      bos_token_id=len(ranks), eos_token_id=len(ranks) + special.index("<|eot_id|>"))
        kind = transformers.LlamaConfig
    else:
        ranks = small or read_ranks(files("dashscope") / "resources" / "qwen.tiktoken")
        added = QWEN_SPECIAL + QWEN_PLAIN
        write_tokenizer(a.out, ranks, QWEN_SPLIT, added, set(QWEN_SPECIAL), None, "<|im_end|>", "<|endoftext|>", CHATML)
        kind = {"qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config, "mistral": transformers.MistralConfig,
                "qwen2_moe": transformers.Qwen2MoeConfig, "qwen3_moe": transformers.Qwen3MoeConfig, "mixtral": transformers.MixtralConfig,
                "qwen3_next": transformers.Qwen3NextConfig, "qwen3_5": transformers.Qwen3_5TextConfig,
                "qwen3_5_moe": transformers.Qwen3_5MoeTextConfig, "seed_oss": transformers.SeedOssConfig, "gemma3": transformers.Gemma3TextConfig, "granite": transformers.GraniteConfig}[a.family]
        words = -(-(len(ranks) + len(added)) // 16) * 16 if small else 152064 if a.size == "7b" else 151936
        fields = dict(vocab_size=words, rope_theta=1000000.0, bos_token_id=len(ranks), eos_token_id=len(ranks) + 2)
        if a.family not in ("qwen2", "granite"):
            fields["head_dim"] = head_dim
        if a.family == "gemma3":  # has two frequencies, of which its own defaults are right
            fields.pop("rope_theta")
            fields["query_pre_attn_scalar"] = head_dim
        if a.family in LINEAR_ATTENTION and a.size == "tiny":  # their defaults are those of the real models
            fields.update(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=24)
        if a.family == "qwen3_5_moe":  # every layer has experts
            common.pop("intermediate_size")
        if a.family in EXPERTS:
            fields.update(expert_fields(a.family, a.size))
    config = kind(**{**common, **fields, **a.config})
    torch.manual_seed(a.seed)
    model = transformers.AutoModelForCausalLM.from_config(config).to(getattr(torch, a.dtype))
    model.save_pretrained(a.out, max_shard_size=a.max_shard_size)
    print(f"{a.out}: {sum(p.numel() for p in model.parameters()):,} parameters, vocabulary {config.vocab_size}")


if __name__ == "__main__":
    main()
