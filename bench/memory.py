#!/usr/bin/env python3
"""Loading a 1 GB model, and the loss with a vocabulary of 150,000: hone and transformers in the same run, warm page cache.

    bench/memory.py --model .cache/bench/qwen2-0.5b [--bench build/memory_bench]
"""
import argparse
import json
import pathlib
import subprocess
import sys

LOAD = r"""
import json, sys, time
import torch, transformers
transformers.utils.logging.disable_progress_bar()
def status(field):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(field + ":"))
from transformers import AutoModelForCausalLM, AutoConfig
AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen2", hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1, vocab_size=8))
before, began = status("VmRSS"), time.perf_counter()
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype="auto")
loaded = time.perf_counter()
for parameter in model.parameters():
    parameter.data.flatten().view(torch.int64).sum().item()
print(json.dumps({"load_seconds": loaded - began, "read_seconds": time.perf_counter() - loaded, "rss_bytes": status("VmRSS") - before,
                  "peak_bytes": status("VmHWM") - before}))
"""
LOSS = r"""
import json, sys, time
import torch
tokens, words = map(int, sys.argv[1:])
def status(field):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(field + ":"))
weight, hidden, targets = torch.randn(words, 896) * 0.02, torch.randn(tokens, 896, requires_grad=True), torch.randint(words, (tokens,))
hidden.detach()[:64] @ weight[:64].T
open("/proc/self/clear_refs", "w").write("5")
before, began = status("VmRSS"), time.perf_counter()
logits = torch.nn.functional.linear(hidden, weight).float()
torch.nn.functional.cross_entropy(logits, targets, reduction="sum").backward()
print(json.dumps({"seconds": time.perf_counter() - began, "extra_bytes": status("VmHWM") - before}))
"""


def last_json(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def load(bench, model):
    runs = [(last_json(bench, "load", model), last_json(sys.executable, "-c", LOAD, model)) for _ in range(3)]
    ours, theirs = (min((pair[side] for pair in runs), key=lambda r: r["load_seconds"] + r["read_seconds"]) for side in (0, 1))
    gigabytes = ours["weight_bytes"] / 1e9
    total = lambda run: run["load_seconds"] + run["read_seconds"]
    print(f"loading {model}, {gigabytes:.2f} GB, and reading every weight once")
    print(f"{'':>14} {'load s':>8} {'read s':>8} {'GB/s':>7} {'resident GB':>12} {'peak GB':>8}")
    for name, run in (("hone", ours), ("transformers", theirs)):
        print(f"{name:>14} {run['load_seconds']:8.3f} {run['read_seconds']:8.3f} {gigabytes / total(run):7.2f} {run['rss_bytes'] / 1e9:12.2f} {run['peak_bytes'] / 1e9:8.2f}")
    print(f"{'ratio':>14} {total(theirs) / total(ours):17.1f} times as fast {ours['peak_bytes'] / theirs['peak_bytes']:10.2f} of the peak memory; "
          f"resident {ours['rss_bytes'] / ours['weight_bytes']:.2f} times the weights, {ours['own_bytes'] / 1e6:.0f} MB of it not the file's own pages")


def loss(bench, tokens, peer_tokens, words):
    ours, same, theirs = last_json(bench, "loss", tokens, words), last_json(bench, "loss", peer_tokens, words), last_json(sys.executable, "-c", LOSS, peer_tokens, words)
    print(f"\nloss and its gradient, {words:,} words, frozen head of width 896, float32")
    print(f"{'':>14} {'tokens':>7} {'extra MB':>9} {'s':>7}")
    for name, count, run in (("hone", tokens, ours), ("hone", peer_tokens, same), ("torch", peer_tokens, theirs)):
        print(f"{name:>14} {count:7,} {run['extra_bytes'] / 1e6:9.0f} {run['seconds']:7.2f}")
    print(f"{'ratio':>14} {same['extra_bytes'] / theirs['extra_bytes']:.3f} of the memory at {peer_tokens:,} tokens, {theirs['seconds'] / same['seconds']:.2f} times as fast")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--bench", default=str(pathlib.Path(__file__).resolve().parents[1] / "build" / "memory_bench"))
    p.add_argument("--tokens", type=int, default=8192)
    p.add_argument("--peer_tokens", type=int, default=1024, help="the peer holds all logits: 8,192 tokens would need 15 GB")
    p.add_argument("--words", type=int, default=150_000)
    a = p.parse_args()
    load(a.bench, a.model)
    loss(a.bench, a.tokens, a.peer_tokens, a.words)


if __name__ == "__main__":
    main()
