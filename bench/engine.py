#!/usr/bin/env python3
"""Generation on one model folder: hone's engine compared with transformers, and with llama.cpp if given, printed as ratios.

    bench/engine.py --model models/qwen2-0.5b [--device cpu] [--llama_bench …/llama-bench --gguf folder]

The folder of --gguf holds the same model as llama.cpp's F16, Q8_0 and Q4_0, in files whose names end in -f16.gguf, -q8_0.gguf, -q4_0.gguf.
--only decode, prompt or llama runs only that part.
"""
import argparse
import json
import os
import pathlib
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

# The rate of libtorch's own float32 product at the model's shapes: for 512 rows, every product of a layer one after the other, over as many
# layers as do not fit a cache, results written where there is memory already. The best of several passes.
MATMUL = r"""
import json, sys, time
import torch
shapes, rows = json.loads(sys.argv[1]), 512
layers = [[torch.randn(out, width) for out, width in shapes] for _ in range(8)]
inputs = {width: torch.randn(rows, width) for _, width in shapes}
outputs = {out: torch.empty(rows, out) for out, _ in shapes}
best = 1e30
for _ in range(6):
    start = time.perf_counter()
    for layer in layers:
        for weight in layer:
            torch.mm(inputs[weight.shape[1]], weight.t(), out=outputs[weight.shape[0]])
    best = min(best, time.perf_counter() - start)
print(2 * rows * len(layers) * sum(out * width for out, width in shapes) / best / 1e9)
"""


def last_json(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(a, **settings):
    arguments = [text for key, value in {"model": a.model, "device": a.device, **settings}.items() for text in (f"--{key}", value)]
    return last_json([a.bench, *arguments])


def theirs(a, **settings):
    return last_json([sys.executable, "-c", PEER, json.dumps({"model": a.model, "device": a.device, **settings})])


def row(title, ours, theirs):
    print(f"{title:42} {ours:10.1f} {theirs:10.1f} {ours / theirs:7.2f}", flush=True)


# Bytes of a weight in memory: one scale for each output of 8 bits does not count; of 4 bits a scale and a lowest value for every 32.
WEIGHT_BYTES = {"float32": 4, "bfloat16": 2, "int8": 1, "int4": 0.5 + 4 / 32}


def decode(a):
    base = dict(prompt=32, tokens=a.tokens)
    rate = lambda measure, **settings: measure(a, **settings, **base)["answer_tokens_per_second"]
    one = rate(theirs, batch=1, dtype="float32")
    ours_at_one = {"float32": rate(ours, batch=1, dtype="float32")}
    row("decode, batch 1, float32 / float32", ours_at_one["float32"], one)
    half = ours_at_one["bfloat16"] = rate(ours, batch=1, dtype="bfloat16")
    row("decode, batch 1, bfloat16 / float32", half, one)
    row("decode, batch 1, bfloat16 / bfloat16", half, rate(theirs, batch=1, dtype="bfloat16"))
    for bits in (8, 4) if a.device == "cpu" else ():
        ours_at_one[f"int{bits}"] = rate(ours, batch=1, dtype="bfloat16", quant_bits=bits)
        row(f"decode, batch 1, int{bits} / float32", ours_at_one[f"int{bits}"], one)
    if a.device == "cpu":
        memory = last_json([a.bench])["memory_bytes_per_second"]
        for kind, tokens in ours_at_one.items():
            row(f"the same, {kind}, GB/s read / memory", tokens * weights_read(a) * WEIGHT_BYTES[kind] / 1e9, memory / 1e9)
    batched = rate(theirs, batch=16, dtype="float32")
    row("decode, batch 16, float32 / float32", rate(ours, batch=16, dtype="float32"), batched)
    row("decode, batch 16, bfloat16 / float32", rate(ours, batch=16, dtype="bfloat16"), batched)


def layer_shapes(a):
    """(outputs, inputs) of the products of one layer."""
    config = json.loads((pathlib.Path(a.model) / "config.json").read_text())
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    width = config.get("head_dim", hidden // heads)
    keys = width * config["num_key_value_heads"]
    return [(width * heads, hidden), (keys, hidden), (keys, hidden), (hidden, width * heads), (inner, hidden), (inner, hidden), (hidden, inner)], config["num_hidden_layers"]


def weights_read(a):
    """Number of weights read per token: all layers and the head."""
    config = json.loads((pathlib.Path(a.model) / "config.json").read_text())
    shapes, layers = layer_shapes(a)
    return layers * sum(out * width for out, width in shapes) + config["vocab_size"] * config["hidden_size"]


def prompt(a):
    settings = dict(batch=1, prompt=512, tokens=2, dtype="float32")
    rate = ours(a, **settings)["prompt_tokens_per_second"]
    row("prompt of 512, float32 / float32", rate, theirs(a, **settings)["prompt_tokens_per_second"])
    if a.device == "cpu":
        shapes, layers = layer_shapes(a)
        peak = float(subprocess.run([sys.executable, "-c", MATMUL, json.dumps(shapes)], capture_output=True, text=True, check=True).stdout)
        row("the same, GFLOP/s of the layers / matmul", rate * 2 * layers * sum(out * width for out, width in shapes) / 1e9, peak)


def llama(a):
    if not a.llama_bench or not a.gguf:
        print("llama.cpp: no --llama_bench and --gguf given; left out")
        return
    for kind, settings in {"f16": dict(dtype="bfloat16"), "q8_0": dict(dtype="bfloat16", quant_bits=8), "q4_0": dict(dtype="bfloat16", quant_bits=4)}.items():
        for file in sorted(pathlib.Path(a.gguf).glob(f"*-{kind}.gguf")):
            done = subprocess.run([a.llama_bench, "-m", str(file), "-p", "0", "-n", str(a.tokens), "-r", "3", "-t", str(os.cpu_count()), "-o", "json"], capture_output=True, text=True, check=True)
            name = f"int{settings['quant_bits']}" if "quant_bits" in settings else settings["dtype"]
            row(f"decode, batch 1, {name} / llama.cpp {kind.upper()}", ours(a, batch=1, prompt=32, tokens=a.tokens, **settings)["answer_tokens_per_second"],
                json.loads(done.stdout)[0]["avg_ts"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--bench", default=str(pathlib.Path(__file__).resolve().parents[1] / "build" / "engine_bench"))
    p.add_argument("--device", default="cpu")
    p.add_argument("--tokens", type=int, default=48)
    p.add_argument("--llama_bench", help="llama.cpp's llama-bench, built for this machine")
    p.add_argument("--gguf", help="a folder with the same model as GGUF files")
    p.add_argument("--only", choices=("decode", "prompt", "llama"))
    a = p.parse_args()
    print(f"{a.model} on {a.device}, tokens a second\n{'':42} {'hone':>10} {'peer':>10} {'ratio':>7}")
    for part in (decode, prompt, llama):
        if a.only in (None, part.__name__):
            part(a)


if __name__ == "__main__":
    main()
