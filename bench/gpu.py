#!/usr/bin/env python3
"""Training on one NVIDIA GPU: `hone pt` on models of known shapes with random weights, steady steps, beside transformers + peft.

    make bench-gpu                                   # builds, runs every case, prints the table, writes bench/results/gpu-<commit>.json
    bench/gpu.py --cases 0.5b-small,7b --steps 12    # some of them
    bench/gpu.py --peers                             # also runs the peers here, where this Python has transformers and peft

Without --peers the peers' column holds what was measured for the same cases on an H200 with transformers 5.17 + peft (sdpa, bf16). Rows are full
packs of documents exactly as long as a row. Steps before the steady ones (libraries choose their kernels, passes are captured) are not counted.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHAPES = {  # hidden, intermediate, layers, heads, key heads, head_dim, vocabulary, tied
    "qwen2-0.5b": (896, 4864, 24, 14, 2, 64, 151936, True), "qwen2-1.5b": (1536, 8960, 28, 12, 2, 128, 151936, True),
    "qwen2-7b": (3584, 18944, 28, 28, 4, 128, 152064, False), "qwen3-0.6b": (1024, 3072, 28, 16, 8, 128, 151936, True)}
LORA = ["--tuner_type", "lora", "--lora_rank", "8", "--lora_dropout", "0", "--target_modules", "all-linear"]
FULL = ["--tuner_type", "full"]
PLAIN, AGAIN = ["--gradient_checkpointing", "false"], ["--gradient_checkpointing", "true"]
CASES = {  # shape, rows, row length, options, peers' tokens/s and GiB on an H200, steps to skip
    "7b": ("qwen2-7b", 4, 2048, LORA + PLAIN, 9941, 97.0),
    "7b-dropout": ("qwen2-7b", 4, 2048, LORA + PLAIN + ["--lora_dropout", "0.05"], None, None),
    "7b-checkpointing": ("qwen2-7b", 4, 2048, LORA + AGAIN, 7017, 30.2),
    "7b-long": ("qwen2-7b", 1, 8192, LORA + AGAIN, 6396, 30.2),
    "1.5b-full": ("qwen2-1.5b", 8, 2048, FULL + PLAIN, 39562, 80.9),
    "1.5b-full-checkpointing": ("qwen2-1.5b", 8, 2048, FULL + AGAIN, 32214, 38.0),
    "0.5b": ("qwen2-0.5b", 16, 1024, LORA + PLAIN, 53750, 58.8),
    "0.5b-small": ("qwen2-0.5b", 1, 512, LORA + PLAIN, 3200, None),
    "qwen3-0.6b": ("qwen3-0.6b", 2, 2048, LORA + ["--lora_rank", "16"] + PLAIN, None, None),
}
BEFORE = {"7b": (11560, 39.4), "7b-dropout": (9978, 71.5), "7b-checkpointing": (8420, 18.0), "7b-long": (8400, 18.0), "1.5b-full": (35800, 31.9),
          "1.5b-full-checkpointing": (30500, 13.4), "0.5b": (57600, 12.3), "0.5b-small": (5480, None)}  # hone e5f1606 on the same kind of card


def make_model(shape, folder):
    """Random bf16 weights in Hugging Face's names, the tokenizer of models/nano."""
    import torch
    from safetensors.torch import save_file
    hidden, inner, layers, heads, kv_heads, head_dim, vocabulary, tied = SHAPES[shape]
    family = shape.split("-")[0]
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "models/nano" / name, folder)
    config = {"architectures": ["Qwen2ForCausalLM" if family == "qwen2" else "Qwen3ForCausalLM"], "model_type": family, "hidden_size": hidden,
              "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
              "max_position_embeddings": 32768, "rope_theta": 1e6, "rms_norm_eps": 1e-6, "hidden_act": "silu", "initializer_range": 0.02,
              "tie_word_embeddings": tied, "use_sliding_window": False, "torch_dtype": "bfloat16", "vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps(config))
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def random(*sizes):
        return (torch.randn(*sizes, device=device, dtype=torch.bfloat16) * 0.02).cpu()

    def norm(size):
        return torch.ones(size, dtype=torch.bfloat16)

    torch.manual_seed(0)
    files = {"embedding": {"model.embed_tokens.weight": random(vocabulary, hidden), "model.norm.weight": norm(hidden)}}
    if not tied:
        files["embedding"]["lm_head.weight"] = random(vocabulary, hidden)
    for i in range(layers):
        p, t = f"model.layers.{i}.", {}
        for name, out, into in (("self_attn.q_proj", heads * head_dim, hidden), ("self_attn.k_proj", kv_heads * head_dim, hidden), ("self_attn.v_proj", kv_heads * head_dim, hidden),
                                ("self_attn.o_proj", hidden, heads * head_dim), ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden), ("mlp.down_proj", hidden, inner)):
            t[p + name + ".weight"] = random(out, into)
            if family == "qwen2" and name[-6:] in ("q_proj", "k_proj", "v_proj"):
                t[p + name + ".bias"] = random(out)
        if family == "qwen3":
            t[p + "self_attn.q_norm.weight"] = t[p + "self_attn.k_norm.weight"] = norm(head_dim)
            t = {key: value.clone() for key, value in t.items()}
        t[p + "input_layernorm.weight"], t[p + "post_attention_layernorm.weight"] = norm(hidden), norm(hidden)
        files[f"layer-{i}"] = t
    index, size = {}, 0
    for name, tensors in files.items():
        size += sum(tensor.nbytes for tensor in tensors.values())
        save_file(tensors, folder / f"{name}.safetensors", metadata={"format": "pt"})
        index.update({key: f"{name}.safetensors" for key in tensors})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": index}))


def make_data(length, rows, path):
    """Documents longer than a row: cut to it, each fills one."""
    words = " ".join(f"word{i % 97} of the long text number {i}" for i in range(length))
    with open(path, "w") as file:
        for i in range(rows):
            file.write(json.dumps({"messages": [{"role": "assistant", "content": f"{i} {words}"}]}) + "\n")


def hone(case, work, steps, profile=False):
    shape, rows, length, options, _, _ = CASES[case]
    model, data, out = work / shape, work / f"data-{length}.jsonl", work / f"out-{case}"
    if not model.exists():
        make_model(shape, model)
    if not data.exists():
        make_data(length, 64, data)
    command = [os.environ.get("HONE_BIN", str(ROOT / "build/bin/hone")), "pt", "--model", model, "--dataset", data, "--torch_dtype", "bfloat16", "--max_length", length,
               "--truncation_strategy", "right", "--packing", "true", "--per_device_train_batch_size", rows, "--gradient_accumulation_steps", 1, "--max_steps", steps,
               "--logging_steps", 1, "--save_strategy", "no", "--output_dir", out, "--add_version", "false", "--dataset_num_proc", 8, "--seed", 1, *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    log = out / "logging.jsonl"
    if done.returncode or not log.exists():
        print(f"{case}: hone failed\n{done.stdout[-1500:]}\n{done.stderr[-2500:]}", flush=True)
        return None
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [line for line in lines if "loss" in line and "train_speed(s/it)" in line]
    seconds = [(int(line["global_step/max_steps"].split("/")[0]), line["train_speed(s/it)"]) for line in lines]
    ends = {step: step * speed for step, speed in seconds}
    first = max(4, steps // 3)
    per_step = (ends[steps] - ends[first]) / (steps - first)
    return {"tokens_per_second": rows * length / per_step, "step_seconds": per_step, "gib": lines[-1]["memory(GiB)"], "loss": [line["loss"] for line in lines][:3] + [lines[-1]["loss"]],
            "warnings": [line for line in done.stderr.splitlines() if "captur" in line]}


PEER = r"""
import json, sys, time, torch, transformers
s = json.loads(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_pretrained(s["model"], dtype=torch.bfloat16, attn_implementation="sdpa").cuda()
model.config.use_cache = False
if s["again"]: model.gradient_checkpointing_enable()
if s["lora"]:
    if s["again"]: model.enable_input_require_grads()
    import peft
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear"))
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
tokens = torch.randint(1000, (s["rows"], s["length"]), device="cuda")
for step in range(9):
    if step == 4:
        torch.cuda.synchronize(); began = time.perf_counter()
    with torch.autocast("cuda", torch.bfloat16): loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step(); optimizer.zero_grad(set_to_none=True)
torch.cuda.synchronize()
print(json.dumps({"tokens_per_second": tokens.numel() * 5 / (time.perf_counter() - began), "gib": torch.cuda.max_memory_allocated() / 2**30}))
"""


def peer(case, work):
    shape, rows, length, options, stored, gib = CASES[case]
    settings = {"model": str(work / shape), "rows": rows, "length": length, "again": options[-2:] == AGAIN, "lora": "lora" in options}
    done = subprocess.run([sys.executable, "-c", PEER, json.dumps(settings)], capture_output=True, text=True)
    if done.returncode:
        print(f"{case}: the peers failed: {done.stderr.splitlines()[-1] if done.stderr else ''}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def card():
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return "no nvidia-smi"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", default=",".join(CASES))
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--peers", action="store_true")
    p.add_argument("--work", default="", help="models and outputs; none: a folder in memory that is removed")
    p.add_argument("--commit", default="", help="what was built; none asks git")
    p.add_argument("--out", default="", help="none: bench/results/gpu-<commit>.json")
    a = p.parse_args()
    commit = a.commit or subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    base = pathlib.Path(a.work) if a.work else pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    results = {"commit": commit, "card": card(), "peers": "this machine" if a.peers else "stored: transformers 5.17 + peft on an H200", "cases": {}}
    print(f"hone {commit} on {results['card']}; peers: {results['peers']}")
    print(f"{'case':26} {'hone tok/s':>11} {'GiB':>6} {'peers':>8} {'GiB':>6} {'ratio':>6} {'before':>8} {'gain':>5}", flush=True)
    try:
        for case in a.cases.split(","):
            steps = a.steps * 4 if case == "0.5b-small" else a.steps
            ours = hone(case, base, steps)
            if not ours:
                continue
            theirs, gib = CASES[case][4:6]
            if a.peers and (found := peer(case, base)):
                theirs, gib = found["tokens_per_second"], found["gib"]
            before = BEFORE.get(case, (None, None))[0]
            number = lambda value, form: "-" if value is None else format(value, form)
            rate = ours["tokens_per_second"]
            print(f"{case:26} {rate:11.0f} {ours['gib']:6.1f} {number(theirs, '8.0f'):>8} {number(gib, '6.1f'):>6} {number(theirs and rate / theirs, '6.2f'):>6} "
                  f"{number(before, '8.0f'):>8} {number(before and rate / before, '5.2f'):>5}  loss {ours['loss']} {' '.join(ours['warnings'])}", flush=True)
            results["cases"][case] = {"hone": ours, "peers": {"tokens_per_second": theirs, "gib": gib}}
    finally:
        if not a.work:
            shutil.rmtree(base, ignore_errors=True)
    out = pathlib.Path(a.out or ROOT / "bench/results" / f"gpu-{re.sub('[^0-9a-z]', '', commit)}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
