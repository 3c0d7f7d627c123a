#!/usr/bin/env python3
"""Kernel launches and host waits of a LoRA training step on an (emulated) NPU: a decoder block with plain and with fused operators.

    bench/npu_launches.py [--hone build/bin/hone]

A block's share is the difference between models with three and two blocks, a step's the difference between runs of three and two steps.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WAYS = {"plain": ["--attn_impl", "eager", "--enable_npu_model_patch", "false"], "fused": []}


def model(folder, layers):
    subprocess.run([sys.executable, ROOT / "tools/make_model.py", "--family", "llama3", "--vocab", "small", "--config",
                    json.dumps({"num_hidden_layers": layers}), "--out", folder], check=True, capture_output=True)
    return folder


def counts(hone, folder, words, steps, place):
    report = place / f"report-{folder.name}-{'-'.join(words[1::2])}-{steps}"
    command = [hone, "emulate-npu", hone.parent / "swift", "sft", "--model", folder, "--dataset", ROOT / "data/demo.jsonl", "--max_steps", steps,
               "--per_device_train_batch_size", 2, "--gradient_accumulation_steps", 1, "--packing", "true", "--max_length", 256, "--split_dataset_ratio", 0,
               "--logging_steps", 100, "--save_strategy", "no", "--lora_dropout", 0, "--output_dir", place / "out", *words]
    done = subprocess.run(list(map(str, command)), env={**os.environ, "HONE_EMULATED_REPORT": str(report)}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return json.loads(report.read_text().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hone", type=pathlib.Path, default=ROOT / "build/bin/hone")
    hone = parser.parse_args().hone
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        models = {layers: model(place / f"m{layers}", layers) for layers in (2, 3)}
        per_block = {}
        for way, words in WAYS.items():
            step = {}
            for layers, folder in models.items():
                two, three = (counts(hone, folder, words, steps, place) for steps in (2, 3))
                step[layers] = {key: three[key] - two[key] for key in ("launches", "waits", "device_to_host")}
            per_block[way] = step[3]["launches"] - step[2]["launches"]
            waits = step[3]["waits"] - step[2]["waits"]
            print(f"{way}: {per_block[way]} launches a block and step; a step of two blocks: {step[2]['launches']} launches, {step[2]['waits']} host waits "
                  f"({step[2]['device_to_host']} copies back); waits a block adds: {waits}")
        saved = 1 - per_block["fused"] / per_block["plain"]
        print(f"fusion saves {saved:.0%} of a block's launches")
        sys.exit(0 if saved >= 0.4 else 1)


if __name__ == "__main__":
    main()
