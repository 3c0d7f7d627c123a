#!/usr/bin/env python3
"""LoRA training steps of one model folder: hone and transformers + peft in the same run, printed as ratios.

    bench/train_step.py --model models/qwen2-0.5b [--bench build/train_step_bench] [--dtype float32] [--device cpu]
"""
import argparse
import json
import pathlib
import subprocess
import sys

PEER = r"""
import json, resource, sys, time
import torch, transformers, peft
s = json.loads(sys.argv[1])
torch.manual_seed(0)
model = transformers.AutoModelForCausalLM.from_pretrained(s["model"], dtype=getattr(torch, s["dtype"])).to(s["device"])
model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=32, target_modules="all-linear"))
model.train()
tokens = torch.randint(model.config.vocab_size, (s["sequences"], s["length"]), device=s["device"])
labelled = (torch.arange(tokens.numel(), device=s["device"]) % 100 < 100 * s["labelled"]).view_as(tokens)
labels = torch.where(labelled, tokens, -100)
fastest = 1e30
for step in range(s["steps"] + 1):
    start = time.perf_counter()
    model(input_ids=tokens, labels=labels).loss.backward()
    model.zero_grad(set_to_none=True)
    if s["device"] != "cpu":
        torch.cuda.synchronize()
    if step or not s["steps"]:
        fastest = min(fastest, time.perf_counter() - start)
peak = torch.cuda.max_memory_allocated() if s["device"] != "cpu" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"tokens_per_second": tokens.numel() / fastest, "step_seconds": fastest, "peak_bytes": peak}))
"""


def last_json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--bench", default=str(pathlib.Path(__file__).resolve().parents[1] / "build" / "train_step_bench"))
    p.add_argument("--dtype", default="float32")
    p.add_argument("--device", default="cpu")
    p.add_argument("--sequences", type=int, default=4)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--steps", type=int, default=2, help="after one that warms up; 0 measures that one")
    p.add_argument("--labelled", type=float, nargs="+", default=[1.0, 0.5])
    a = p.parse_args()
    print(f"{a.model}, {a.dtype}, {a.sequences} x {a.length} tokens, LoRA r8 on all linears, {a.device}")
    print(f"{'labelled':>8} {'hone tok/s':>11} {'peer tok/s':>11} {'ratio':>6} {'hone GB':>8} {'peer GB':>8} {'ratio':>6}")
    for labelled in a.labelled:
        settings = {"model": a.model, "dtype": a.dtype, "device": a.device, "sequences": a.sequences, "length": a.length, "steps": a.steps, "labelled": labelled}
        ours = last_json([a.bench, *(text for key, value in settings.items() for text in (f"--{key}", str(value)))])
        theirs = last_json([sys.executable, "-c", PEER, json.dumps(settings)])
        print(f"{labelled:8.0%} {ours['tokens_per_second']:11.1f} {theirs['tokens_per_second']:11.1f} "
              f"{ours['tokens_per_second'] / theirs['tokens_per_second']:6.2f} {ours['peak_bytes'] / 1e9:8.2f} {theirs['peak_bytes'] / 1e9:8.2f} "
              f"{ours['peak_bytes'] / theirs['peak_bytes']:6.2f}", flush=True)


if __name__ == "__main__":
    main()
