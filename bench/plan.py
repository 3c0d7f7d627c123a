#!/usr/bin/env python3
"""Peak memory predicted by `hone plan` and reported by the run, for several ways of training one model on one device.

    bench/plan.py --shape 7b --device cuda [--hone build/bin/hone] [--length 1024] [--batch 1]
    bench/plan.py --model FOLDER

On an accelerator the peak is that of its allocator, on the CPU the resident memory of the process. --shape writes random weights of a Qwen2.5
using only torch; --model takes any folder.
"""
import argparse
import ctypes
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GIB = 2**30
# hidden, intermediate, layers, heads, key-value heads, tied
SHAPES = {"0.5b": (896, 4864, 24, 14, 2, True), "1.5b": (1536, 8960, 28, 12, 2, True), "7b": (3584, 18944, 28, 28, 4, False)}
WORDS = 151936
WAYS = {
    "lora": ["--tuner_type", "lora"],
    "lora, activations kept": ["--tuner_type", "lora", "--gradient_checkpointing", "false"],
    "full": ["--tuner_type", "full"],
    "full, activations kept": ["--tuner_type", "full", "--gradient_checkpointing", "false"],
}


def tensors_of(shape):
    hidden, intermediate, layers, heads, kv, tied = shape
    kv_width = hidden // heads * kv
    yield "model.embed_tokens.weight", (WORDS, hidden)
    for i in range(layers):
        block = f"model.layers.{i}."
        for name, out, width in (("q", hidden, hidden), ("k", kv_width, hidden), ("v", kv_width, hidden), ("o", hidden, hidden)):
            yield f"{block}self_attn.{name}_proj.weight", (out, width)
            if name != "o":
                yield f"{block}self_attn.{name}_proj.bias", (out,)
        yield f"{block}mlp.gate_proj.weight", (intermediate, hidden)
        yield f"{block}mlp.up_proj.weight", (intermediate, hidden)
        yield f"{block}mlp.down_proj.weight", (hidden, intermediate)
        yield f"{block}input_layernorm.weight", (hidden,)
        yield f"{block}post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    if not tied:
        yield "lm_head.weight", (WORDS, hidden)


def write_model(shape, device, folder):
    """A folder of random bf16 weights, with the tokenizer of models/nano."""
    import torch
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        if (ROOT / "models/nano" / name).exists():
            shutil.copy(ROOT / "models/nano" / name, folder)
    hidden, intermediate, layers, heads, kv, tied = shape
    (folder / "config.json").write_text(json.dumps(dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=WORDS, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv, max_position_embeddings=32768, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=tied,
        torch_dtype="bfloat16", hidden_act="silu", eos_token_id=0)))
    header, at = {}, 0
    for name, size in tensors_of(shape):
        end = at + 2 * torch.Size(size).numel()
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [at, end]}
        at = end
    head = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for name, size in tensors_of(shape):
            ones = name.endswith("norm.weight")
            values = torch.ones(size, dtype=torch.bfloat16) if ones else torch.randn(size, device=device, dtype=torch.bfloat16).mul_(0.02).cpu()
            file.write((ctypes.c_char * (2 * values.numel())).from_address(values.data_ptr()))


def measured(hone, words, out):
    done = subprocess.run([hone, *words, "--output_dir", out], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    lines = [json.loads(line) for line in (pathlib.Path(out) / "logging.jsonl").read_text().splitlines()]
    return max(line["memory(GiB)"] for line in lines if "memory(GiB)" in line), ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = p.add_mutually_exclusive_group(required=True)
    which.add_argument("--model")
    which.add_argument("--shape", choices=SHAPES)
    p.add_argument("--hone", default=str(ROOT / "build" / "bin" / "hone"))
    p.add_argument("--device", default="cpu")
    p.add_argument("--length", type=int, default=1024)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--ways", nargs="+", default=list(WAYS))
    a = p.parse_args()
    print(f"{a.model or a.shape}, {a.batch} x {a.length} tokens, {a.device}")
    print(f"{'':24} {'predicted GiB':>14} {'measured GiB':>13} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        model = a.model or str(pathlib.Path(folder) / "model")
        if a.shape:
            write_model(SHAPES[a.shape], a.device, pathlib.Path(model))
        data = pathlib.Path(folder) / "long.jsonl"
        row = {"messages": [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "one thing after another " * a.length}]}
        data.write_text((json.dumps(row) + "\n") * (a.batch * (a.steps + 1)))
        for way in a.ways:
            words = ["sft", "--model", model, "--dataset", str(data), "--max_length", str(a.length), "--truncation_strategy", "right",
                     "--per_device_train_batch_size", str(a.batch), "--gradient_accumulation_steps", "1", "--max_steps", str(a.steps), "--logging_steps", "1",
                     "--save_strategy", "no", "--report_to", "none", "--add_version", "false", "--devices", a.device, *WAYS[way]]
            plan = json.loads(subprocess.run([a.hone, "plan", "--format", "json", *words], capture_output=True, text=True, check=True).stdout)
            predicted = plan["asked"]["total"] / GIB
            found, trouble = measured(a.hone, words, pathlib.Path(folder) / way.replace(" ", "_"))
            print(f"{way:24} {predicted:14.2f} " + (f"{found:13.2f} {predicted / found:6.2f}" if found else f"{trouble}"))


if __name__ == "__main__":
    sys.exit(main())
