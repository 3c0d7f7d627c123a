#!/usr/bin/env python3
"""LoRA on the language model of a vision model on one NVIDIA GPU: `hone sft` on PNG files and transformers + peft on preprocessed pixels.

    bench/vision_gpu.py [--images 8] [--steps 15] [--work FOLDER] [--only hone|peer] [--out FILE]
    bench/vision_gpu.py --shape qwen2-tiny --steps 6 --images 1       # on a CPU, as a smoke test

Qwen2.5-VL-3B's shape with random bf16 weights. A row is one image of 896 x 896 pixels, 1024 tokens, and text up to 1152 tokens in all; a step is
`--images` such rows. The tower is frozen on both sides. hone decodes and resizes the files on its loader's threads within the steps; the peer gets
random patches on the device, so that its steps contain only the model (sdpa, autocast to bf16, fused AdamW, clipping).
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import gpu

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOKENS = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>", "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}
SIDE, LENGTH = 896, 1152
TOWERS = {"qwen2-3b": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31]},
          "qwen2-tiny": {"depth": 2, "hidden_size": 64, "intermediate_size": 96, "num_heads": 2, "window_size": 112, "fullatt_block_indexes": [1]}}
gpu.SHAPES.update({"qwen2-3b": (2048, 11008, 36, 16, 2, 128, 151936, True), "qwen2-tiny": (64, 128, 2, 4, 2, 16, 4096, True)})

PEER = r"""
import json, resource, sys, time, torch, transformers, peft
device = "cuda" if torch.cuda.is_available() else "cpu"
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
s = json.loads(sys.argv[1])
model = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(s["model"], dtype=torch.bfloat16, attn_implementation="sdpa").to(device)
model.config.use_cache = False
model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=32, lora_dropout=0.0, target_modules=r".*language_model.*\.(q|k|v|o|gate|up|down)_proj"))
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
cells, ids = s["side"] // 28, s["ids"]
tokens = torch.randint(1000, (s["images"], s["length"]))
tokens[:, 4] = ids["vision_start_token_id"]
tokens[:, 5:5 + cells * cells] = ids["image_token_id"]
tokens[:, 5 + cells * cells] = ids["vision_end_token_id"]
labels = tokens.clone()
labels[:, :6 + cells * cells] = -100
kinds = (tokens == ids["image_token_id"]).int()
batch = {"input_ids": tokens, "labels": labels, "attention_mask": torch.ones_like(tokens), "mm_token_type_ids": kinds,
         "pixel_values": torch.randn(s["images"] * 4 * cells * cells, 1176), "image_grid_thw": torch.tensor([[1, 2 * cells, 2 * cells]] * s["images"])}
batch = {name: value.to(device) for name, value in batch.items()}
for step in range(s["steps"] + 4):
    if step == 4:
        wait(); began = time.perf_counter()
    with torch.autocast(device, torch.bfloat16): loss = model(**batch).loss
    loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step(); optimizer.zero_grad(set_to_none=True)
wait()
gib = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"step_seconds": (time.perf_counter() - began) / s["steps"], "gib": gib, "loss": float(loss.detach()), "transformers": transformers.__version__, "peft": peft.__version__}))
"""


def make_model(shape, folder):
    """gpu.py's decoder as Qwen2.5-VL, with a vision tower and its tokens in the tokenizer. The folder is renamed when complete."""
    import torch
    whole, folder = folder, folder.with_name(f"{folder.name}.decoder")
    shutil.rmtree(folder, ignore_errors=True)
    gpu.make_model(shape, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    first = len(tokenizer["model"]["vocab"])
    ids = {name: first + i for i, name in enumerate(TOKENS)}
    tokenizer["added_tokens"] += [{"id": ids[name], "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                                  for name, token in TOKENS.items()]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "config.json").read_text())
    tower = {**TOWERS[shape], "out_hidden_size": config["hidden_size"], "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_chans": 3, "tokens_per_second": 2}
    head = config["head_dim"] // 2
    config.update(architectures=["Qwen2_5_VLForConditionalGeneration"], model_type="qwen2_5_vl", vision_config=tower, **ids,
                  rope_scaling={"type": "mrope", "mrope_section": [head // 4, head * 3 // 8, head * 3 // 8]})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "image_processor_type": "Qwen2VLImageProcessor",
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}))
    hidden, inner, merged = tower["hidden_size"], tower["intermediate_size"], 4 * tower["hidden_size"]
    weights = {"patch_embed.proj.weight": (hidden, 3, 2, 14, 14), "merger.ln_q.weight": (hidden,), "merger.mlp.0.weight": (merged, merged), "merger.mlp.0.bias": (merged,),
               "merger.mlp.2.weight": (config["hidden_size"], merged), "merger.mlp.2.bias": (config["hidden_size"],)}
    for i in range(tower["depth"]):
        block = {"norm1.weight": (hidden,), "norm2.weight": (hidden,)}
        for name, out, into in (("attn.qkv", 3 * hidden, hidden), ("attn.proj", hidden, hidden), ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden), ("mlp.down_proj", hidden, inner)):
            block.update({f"{name}.weight": (out, into), f"{name}.bias": (out,)})
        weights.update({f"blocks.{i}.{name}": size for name, size in block.items()})
    torch.manual_seed(1)
    tensors = {f"visual.{name}": torch.ones(size, dtype=torch.bfloat16) if "norm" in name or "ln_q" in name else (torch.randn(size) * 0.02).bfloat16() for name, size in weights.items()}
    gpu.save_file(tensors, folder / "visual.safetensors")
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    index["metadata"]["total_size"] += sum(tensor.nbytes for tensor in tensors.values())
    index["weight_map"].update({name: "visual.safetensors" for name in tensors})
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    folder.rename(whole)


def write_png(path, draw):
    """Coarse colored cells, so that a file is as small as a photograph's; written by hand, since Pillow may be missing."""
    cells = [[bytes(draw.randrange(256) for _ in range(3)) for _ in range(SIDE // 16)] for _ in range(SIDE // 16)]
    lines = b"".join((b"\0" + b"".join(cell * 16 for cell in row)) * 16 for row in cells)

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 6)) + chunk(b"IEND", b""))


def write_rows(folder, count):
    """Responses are longer than a row and are truncated."""
    draw, rows = random.Random(0), []
    for i in range(count):
        path = folder / f"{i}.png"
        write_png(path, draw)
        words = " ".join(f"word{draw.randrange(97)}" for _ in range(LENGTH))
        rows.append({"messages": [{"role": "user", "content": "<image>What is it?"}, {"role": "assistant", "content": words}], "images": [str(path)]})
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "rows.jsonl"


def run_hone(o, model, folder):
    case = gpu.Case(o.shape, o.images, LENGTH, ["--lora_rank", "8", "--lora_dropout", "0", "--tuner_type", "lora", "--target_modules", "all-linear",
                                                "--freeze_vit", "true", "--freeze_aligner", "true", *gpu.PLAIN])
    return gpu.run_hone("sft", case, model, write_rows(folder, 64), folder / "out", o.steps, ["--packing", "false", "--split_dataset_ratio", "0", "--system", "", *o.options.split()])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", default="qwen2-3b", choices=TOWERS)
    p.add_argument("--images", type=int, default=8)
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--work", default="", help="folder with or for the model; none: one that is removed")
    p.add_argument("--only", default="")
    p.add_argument("--options", default="", help="more words for hone")
    p.add_argument("--out", default="", help="a JSON file for both results")
    o = p.parse_args()
    found = {"card": gpu.card(), "images": o.images, "length": LENGTH}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        folder = pathlib.Path(folder)
        model = pathlib.Path(o.work or folder) / f"vision-{o.shape}"
        if not model.exists():
            make_model(o.shape, model)
        if o.only != "peer" and (ours := run_hone(o, model, folder)):
            found["hone"] = ours
            print(f"hone  {ours['step_seconds']:7.3f} s a step of {o.images} pictures, {ours['tokens_per_second']:.0f} tokens/s, {ours['gib']:.1f} GiB, loss {ours['loss']}", flush=True)
        if o.only != "hone":
            config = json.loads((model / "config.json").read_text())
            settings = {"model": str(model), "images": o.images, "length": LENGTH, "side": SIDE, "steps": min(o.steps, 8), "ids": {name: config[name] for name in TOKENS}}
            done = subprocess.run([sys.executable, "-c", PEER, json.dumps(settings)], capture_output=True, text=True)
            if done.returncode:
                print("peer: not measured\n" + done.stderr[-1500:])
            else:
                found["peer"] = json.loads(done.stdout.splitlines()[-1])
                print(f"peer  {found['peer']['step_seconds']:7.3f} s a step, {found['peer']['gib']:.1f} GiB, loss {found['peer']['loss']:.3f}", flush=True)
        if "hone" in found and "peer" in found:
            print(f"hone is {found['peer']['step_seconds'] / found['hone']['step_seconds']:.2f} times as fast with {found['hone']['gib'] / found['peer']['gib']:.2f} of the memory")
        if o.out:
            pathlib.Path(o.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
