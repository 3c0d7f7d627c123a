#!/usr/bin/env python3
"""A whole `swift sft` on a tiny model: hone beside an installed ms-swift, same command, same machine, same run.

    bench/end_to_end.py [--swift PATH_OF_MS_SWIFT]

Qwen2 tiny with Qwen's vocabulary, LoRA r8 on all linears, float32, 400 rows, batch 4, 100 steps. Without ms-swift only hone is timed.
"""
import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def rows(path):
    rng = random.Random(0)
    words = [line.split()[0] for line in (ROOT / "README.md").read_text().splitlines() if line.split()]
    with open(path, "w") as file:
        for i in range(400):
            question, answer = (" ".join(rng.choices(words, k=rng.randint(8, 60))) for _ in range(2))
            file.write(json.dumps({"messages": [{"role": "user", "content": f"{i} {question}"}, {"role": "assistant", "content": answer}]}) + "\n")


def command(program, model, data, out):
    return [str(program), "sft", "--model", str(model), "--dataset", str(data), "--output_dir", str(out), "--lora_rank", "8", "--torch_dtype", "float32",
            "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "1", "--num_train_epochs", "1", "--logging_steps", "1",
            "--save_strategy", "no", "--gradient_checkpointing", "false", "--learning_rate", "1e-4", "--add_version", "false",
            "--model_type", "qwen2", "--template", "qwen2_5", "--check_model", "false"]


def run(words):
    began = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{words[0]} failed:\n{done.stderr[-2000:]}")
    return seconds


def steps_and_losses(out):
    lines = [json.loads(line) for line in (pathlib.Path(out) / "logging.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line and "epoch" in line]
    runtime = next(line["train_runtime"] for line in lines if "train_runtime" in line)
    return float(re.sub(r"[^0-9.]", "", str(runtime))), losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default=ROOT / "build/bin/swift")
    parser.add_argument("--swift", default=shutil.which("swift"), help="ms-swift's own program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, data = f"{folder}/model", f"{folder}/rows.jsonl"
        subprocess.run([sys.executable, ROOT / "tools/make_model.py", "--family", "qwen2", "--size", "tiny", "--out", model], check=True, capture_output=True)
        rows(data)
        ours = run(command(options.hone, model, data, f"{folder}/hone"))
        our_steps, our_losses = steps_and_losses(f"{folder}/hone")
        print(f"hone      {ours:7.2f} s in all, {our_steps:7.2f} s in steps, first loss {our_losses[0]:.4f}, last {our_losses[-1]:.4f}")
        if not options.swift:
            print("ms-swift  not installed here: no ratio")
            return
        theirs = run(command(options.swift, model, data, f"{folder}/swift"))
        their_steps, their_losses = steps_and_losses(f"{folder}/swift")
        print(f"ms-swift  {theirs:7.2f} s in all, {their_steps:7.2f} s in steps, first loss {their_losses[0]:.4f}, last {their_losses[-1]:.4f}")
        print(f"ratio     {theirs / ours:7.2f}         {their_steps / our_steps:7.2f}")


if __name__ == "__main__":
    main()
