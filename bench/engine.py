#!/usr/bin/env python3
"""Generation on one model folder: hone's engine beside transformers, and llama.cpp where `llama-bench` is installed, printed as ratios.

    bench/engine.py --model models/qwen2-0.5b [--bench build/engine_bench] [--device cpu] [--gguf model-f16.gguf …]
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

PEER = r"""
import json, sys, time
import torch, transformers
s = json.loads(sys.argv[1])
torch.manual_seed(0)
model = transformers.AutoModelForCausalLM.from_pretrained(s["model"], dtype=getattr(torch, s["dtype"])).to(s["device"]).eval()
prompt = torch.randint(10000 if model.config.vocab_size > 10000 else model.config.vocab_size, (s["batch"], s["prompt"]), device=s["device"])
mask = torch.ones_like(prompt)

def timed(tokens):
    if s["device"] != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    model.generate(prompt, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)
    if s["device"] != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start

with torch.inference_mode():
    timed(2)
    first = min(timed(1), timed(1))
    whole = min(timed(s["tokens"]), timed(s["tokens"]))
print(json.dumps({"prompt_tokens_per_second": s["batch"] * s["prompt"] / first, "answer_tokens_per_second": s["batch"] * (s["tokens"] - 1) / (whole - first)}))
"""

MATMUL = r"""
import torch, time
best = 1e30
a, b = torch.randn(512, 896), torch.randn(4864, 896)
for _ in range(20):
    start = time.perf_counter()
    torch.nn.functional.linear(a, b)
    best = min(best, time.perf_counter() - start)
print(2 * 512 * 896 * 4864 / best / 1e9)
"""


def last_json(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(a, **settings):
    words = [text for key, value in {"model": a.model, "device": a.device, **settings}.items() for text in (f"--{key}", value)]
    return last_json([a.bench, *words])


def theirs(a, **settings):
    return last_json([sys.executable, "-c", PEER, json.dumps({"model": a.model, "device": a.device, **settings})])


def row(title, ours, theirs):
    print(f"{title:42} {ours:10.1f} {theirs:10.1f} {ours / theirs:7.2f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--bench", default=str(pathlib.Path(__file__).resolve().parents[1] / "build" / "engine_bench"))
    p.add_argument("--device", default="cpu")
    p.add_argument("--tokens", type=int, default=24)
    p.add_argument("--gguf", nargs="*", default=[], help="the same shape as GGUF files, for llama-bench")
    a = p.parse_args()
    print(f"{a.model} on {a.device}, tokens a second\n{'':42} {'hone':>10} {'peer':>10} {'ratio':>7}")
    base = dict(prompt=32, tokens=a.tokens)
    one = theirs(a, batch=1, dtype="float32", **base)["answer_tokens_per_second"]
    row("decode, batch 1, float32 / float32", ours(a, batch=1, dtype="float32", **base)["answer_tokens_per_second"], one)
    row("decode, batch 1, bfloat16 / float32", ours(a, batch=1, dtype="bfloat16", **base)["answer_tokens_per_second"], one)
    row("decode, batch 1, bfloat16 / bfloat16", ours(a, batch=1, dtype="bfloat16", **base)["answer_tokens_per_second"],
        theirs(a, batch=1, dtype="bfloat16", **base)["answer_tokens_per_second"])
    if a.device == "cpu":
        for bits in (8, 4):
            row(f"decode, batch 1, int{bits} / float32", ours(a, batch=1, dtype="float32", quant_bits=bits, **base)["answer_tokens_per_second"], one)
    batched = theirs(a, batch=16, dtype="float32", **base)["answer_tokens_per_second"]
    row("decode, batch 16, float32 / float32", ours(a, batch=16, dtype="float32", **base)["answer_tokens_per_second"], batched)
    row("decode, batch 16, bfloat16 / float32", ours(a, batch=16, dtype="bfloat16", **base)["answer_tokens_per_second"], batched)
    prompt = dict(batch=1, prompt=512, tokens=2, dtype="float32")
    prefill = ours(a, **prompt)["prompt_tokens_per_second"]
    row("prompt of 512, float32 / float32", prefill, theirs(a, **prompt)["prompt_tokens_per_second"])
    if a.device == "cpu":
        peak = float(subprocess.run([sys.executable, "-c", MATMUL], capture_output=True, text=True, check=True).stdout)
        config = json.loads((pathlib.Path(a.model) / "config.json").read_text())
        hidden, inner, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
        width = config.get("head_dim", hidden // config["num_attention_heads"])
        weights = layers * (hidden * width * (2 * config["num_attention_heads"] + 2 * config["num_key_value_heads"]) + 3 * hidden * inner)
        row("prompt of 512, GFLOP/s of linear layers / matmul", prefill * 2 * weights / 1e9, peak)
    if not shutil.which("llama-bench"):
        print("llama.cpp: llama-bench is not installed; left out")
    for gguf in a.gguf if shutil.which("llama-bench") else []:
        done = subprocess.run(["llama-bench", "-m", gguf, "-p", "0", "-n", str(a.tokens), "-o", "json"], capture_output=True, text=True, check=True)
        print(f"llama.cpp {gguf}: {json.loads(done.stdout)[0]['avg_ts']:.1f}")


if __name__ == "__main__":
    main()
