#!/usr/bin/env python3
"""Two builds of hone on the same rows and seeds: losses, gradient norms, rewards and greedy completions. Exit 1 if they differ.

usage: compare.py build/bin/hone build-torch-2.7.1/bin/hone
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STEPS = 5
SAME = ["--model", ROOT / "models/nano", "--max_steps", STEPS, "--logging_steps", 1, "--torch_dtype", "float32", "--device", "cpu", "--add_version", "false",
        "--split_dataset_ratio", 0, "--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 2, "--seed", 7]
SFT = ["sft", "--dataset", ROOT / "data/demo.jsonl"]
FULL = [*SFT, "--tuner_type", "full", "--learning_rate", "1e-4"]
RUNS = {
    "SFT with LoRA and dropout": [*SFT, "--learning_rate", "1e-3", "--lora_dropout", 0.1],
    "SFT, full": FULL,
    "SFT, full, bfloat16": [*FULL, "--torch_dtype", "bfloat16"],
    "SFT, full, ZeRO-2, two processes": [*FULL, "--deepspeed", "zero2", "--gradient_accumulation_steps", 1],
    "DPO": ["rlhf", "--rlhf_type", "dpo", "--dataset", ROOT / "data/preferences.jsonl", "--learning_rate", "1e-3"],
    "GRPO": ["rlhf", "--rlhf_type", "grpo", "--dataset", ROOT / "data/prompts.jsonl", "--learning_rate", "1e-3", "--reward_funcs", "soft_overlong", "--soft_cache_length", 15,
             "--max_completion_length", 16, "--num_generations", 4],
}
COMPARED = {"loss": 1e-5, "grad_norm": 1e-3, "reward": 1e-6}  # and how far apart they may be, relative to values above 1
PROCESSES = {"SFT, full, ZeRO-2, two processes": 2}


def run(program, *words, question=None, processes=1):
    environment = {**os.environ, "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "NPROC_PER_NODE": str(processes)}
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, env=environment, input=question, timeout=600)
    if done.returncode:
        sys.exit(f"{program} {' '.join(map(str, words))}\nexit {done.returncode}: {done.stderr[-3000:]}")
    return done.stdout


def logged(program, name, folder):
    command, *words = RUNS[name]
    run(program, command, *SAME, *words, "--output_dir", folder, processes=PROCESSES.get(name, 1))
    lines = [json.loads(line) for line in (folder / "logging.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line][:STEPS]


def difference(ours, theirs):
    return max(abs(a - b) / max(1, abs(a)) for a, b in zip(ours, theirs))


def compare(name, programs, folder):
    curves = [logged(program, name, folder / str(i)) for i, program in enumerate(programs)]
    found = {key: difference(*([line[key] for line in curve] for curve in curves)) for key in COMPARED if key in curves[0][0]}
    print(f"{name}: {len(curves[0])} and {len(curves[1])} steps, loss {curves[0][-1]['loss']:.5f} and {curves[1][-1]['loss']:.5f} at the last;",
          "differences", ", ".join(f"{key} {value:.1e}" for key, value in found.items()), flush=True)
    return len(curves[0]) == len(curves[1]) == STEPS and all(value <= COMPARED[key] for key, value in found.items())


def main():
    programs = sys.argv[1:]
    print(*(run(program, "version").strip() for program in programs), sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(name, programs, Path(folder) / str(i)) for i, name in enumerate(RUNS)]
        adapter = next((Path(folder) / "0/0").glob("checkpoint-*"))
        words = ["infer", "--adapters", adapter, "--torch_dtype", "float32", "--device", "cpu", "--temperature", 0, "--max_new_tokens", 24, "--stream", "false"]
        said = [run(program, *words, question="Who trained you?\n") for program in programs]
        print("greedy completions:", "equal" if said[0] == said[1] else said)
    sys.exit(0 if all(good) and said[0] == said[1] else 1)


if __name__ == "__main__":
    main()
