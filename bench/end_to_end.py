#!/usr/bin/env python3
"""A full `swift sft` on a tiny model: hone and an installed ms-swift with the same command on the same machine.

    bench/end_to_end.py [--swift PATH_OF_MS_SWIFT] [--vision]

Qwen2 tiny with Qwen's vocabulary, LoRA r8 on all linears, float32, 400 rows, batch 4, 100 steps. With --vision the tiny Qwen2.5-VL of cookbook/vision and 200 rows
of one JPEG of 640 x 480 pixels, 391 tokens, each: 50 steps. Without ms-swift only hone is timed. CPU seconds are those of all threads, which a busy machine
hardly affects.
"""
import argparse
import json
import os
import pathlib
import random
import re
import resource
import runpy
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


def picture_rows(folder, path):
    """Smooth images, like photographs."""
    import numpy as np
    from PIL import Image
    generator, lines = np.random.default_rng(0), []
    for i in range(200):
        image = f"{folder}/{i}.jpg"
        Image.fromarray(generator.integers(0, 256, (30, 40, 3), dtype=np.uint8)).resize((640, 480), Image.Resampling.BICUBIC).save(image, quality=90)
        lines.append(json.dumps({"messages": [{"role": "user", "content": "<image>What?"}, {"role": "assistant", "content": f"picture {i}"}], "images": [image]}) + "\n")
    pathlib.Path(path).write_text("".join(lines))


def command(program, model, data, out, family):
    return [str(program), "sft", "--model", str(model), "--dataset", str(data), "--output_dir", str(out), "--lora_rank", "8", "--torch_dtype", "float32",
            "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "1", "--num_train_epochs", "1", "--logging_steps", "1",
            "--save_strategy", "no", "--gradient_checkpointing", "false", "--learning_rate", "1e-4", "--add_version", "false",
            "--check_model", "false", "--split_dataset_ratio", "0", *(["--model_type", "qwen2_5_vl", "--template", "qwen2_5_vl"] if family == "vision" else ["--model_type", "qwen2", "--template", "qwen2_5"])]


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(command):
    began, used = time.perf_counter(), processor_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds, used = time.perf_counter() - began, processor_seconds() - used
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    return seconds, used


def steps_and_losses(out):
    lines = [json.loads(line) for line in (pathlib.Path(out) / "logging.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line and "epoch" in line]
    runtime = next(line["train_runtime"] for line in lines if "train_runtime" in line)
    return float(re.sub(r"[^0-9.]", "", str(runtime))), losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", default=ROOT / "build/bin/swift")
    parser.add_argument("--swift", default=shutil.which("swift"), help="ms-swift's own program")
    parser.add_argument("--vision", action="store_true")
    options = parser.parse_args()
    family = "vision" if options.vision else "text"
    with tempfile.TemporaryDirectory() as folder:
        model, data = f"{folder}/model", f"{folder}/rows.jsonl"
        if options.vision:
            runpy.run_path(str(ROOT / "cookbook/vision/make_vision.py"))["write_model"](pathlib.Path(model))
            picture_rows(folder, data)
        else:
            subprocess.run([sys.executable, ROOT / "tools/make_model.py", "--family", "qwen2", "--size", "tiny", "--out", model], check=True, capture_output=True)
            rows(data)
        print(f"load before {os.getloadavg()[0]:.2f}")
        ours, our_processor = run(command(options.hone, model, data, f"{folder}/hone", family))
        our_steps, our_losses = steps_and_losses(f"{folder}/hone")
        print(f"hone      {ours:7.2f} s in all, {our_steps:7.2f} s in steps, {our_processor:7.2f} processor seconds, first loss {our_losses[0]:.4f}, last {our_losses[-1]:.4f}")
        if not options.swift:
            print("ms-swift  not installed here: no ratio")
            return
        theirs, their_processor = run(command(options.swift, model, data, f"{folder}/swift", family))
        their_steps, their_losses = steps_and_losses(f"{folder}/swift")
        print(f"ms-swift  {theirs:7.2f} s in all, {their_steps:7.2f} s in steps, {their_processor:7.2f} processor seconds, first loss {their_losses[0]:.4f}, last {their_losses[-1]:.4f}")
        print(f"ratio     {theirs / ours:7.2f}           {their_steps / our_steps:7.2f}             {their_processor / our_processor:7.2f}")


if __name__ == "__main__":
    main()
