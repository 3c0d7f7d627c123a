#!/usr/bin/env python3
"""Runs all benchmarks; `make bench` builds their programs first. Each prints hone, its peer and the ratio."""
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
CACHE = ROOT / ".cache" / "bench"


def shape(name, *words):
    """A model folder of random weights in a real model's shape, made once."""
    folder = CACHE / name
    if not (folder / "config.json").exists():
        subprocess.run([sys.executable, ROOT / "tools/make_model.py", *words, "--out", folder], check=True)
    return folder


def main():
    qwen = shape("qwen2-0.5b", "--family", "qwen2", "--size", "0.5b")
    half = shape("qwen2-0.5b-bf16", "--family", "qwen2", "--size", "0.5b", "--dtype", "bfloat16")
    failed = []
    for title, words in {
        "tokenizer against `tokenizers`": [sys.executable, BENCH / "tokenizer.py"],
        "chat templates against jinja2": [sys.executable, BENCH / "template.py", ROOT / "tests/cases/jinja/loops.jinja"],
        "data preparation against ms-swift": [sys.executable, BENCH / "data.py"],
        "training steps against transformers + peft": [sys.executable, BENCH / "train_step.py", "--model", qwen],
        "preference steps against trl": [sys.executable, BENCH / "preference.py"],
        "steps that learn from rewards against trl": [sys.executable, BENCH / "grpo.py"],
        "rollouts on a server, during training": [sys.executable, BENCH / "grpo_async.py"],
        "benchmarks against lm-evaluation-harness": [sys.executable, BENCH / "eval.py"],
        "loading and the loss against transformers": [sys.executable, BENCH / "memory.py", "--model", half],
        "serving against the engine alone": [sys.executable, BENCH / "serve.py"],
        "a whole run against ms-swift": [sys.executable, BENCH / "end_to_end.py"],
        "launches on an emulated NPU, with and without fused operators": [sys.executable, BENCH / "npu_launches.py"],
    }.items():
        print(f"\n== {title}", flush=True)
        if subprocess.run(words, cwd=ROOT).returncode:
            failed.append(title)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
