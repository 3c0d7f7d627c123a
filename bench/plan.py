#!/usr/bin/env python3
"""What `hone plan` predicts beside what the run then reports as its peak, for several ways of training one model on one device.

    bench/plan.py --model models/qwen2-0.5b [--device cpu] [--hone build/bin/hone] [--length 1024] [--batch 1]

On an accelerator the peak is what its allocator handed out, on the CPU the resident process. A random model of any shape will do:
tools/make_model.py --family qwen2 --size 7b --out DIR.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GIB = 2**30
WAYS = {
    "lora": ["--tuner_type", "lora"],
    "lora, activations kept": ["--tuner_type", "lora", "--gradient_checkpointing", "false"],
    "full": ["--tuner_type", "full"],
    "full, activations kept": ["--tuner_type", "full", "--gradient_checkpointing", "false"],
}


def measured(hone, words, out):
    done = subprocess.run([hone, *words, "--output_dir", out], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    lines = [json.loads(line) for line in (pathlib.Path(out) / "logging.jsonl").read_text().splitlines()]
    return max(line["memory(GiB)"] for line in lines if "memory(GiB)" in line), ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--hone", default=str(ROOT / "build" / "bin" / "hone"))
    p.add_argument("--device", default="cpu")
    p.add_argument("--length", type=int, default=1024)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--ways", nargs="+", default=list(WAYS))
    a = p.parse_args()
    print(f"{a.model}, {a.batch} x {a.length} tokens, {a.device}")
    print(f"{'':24} {'predicted GiB':>14} {'measured GiB':>13} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "long.jsonl"
        row = {"messages": [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "one thing after another " * a.length}]}
        data.write_text((json.dumps(row) + "\n") * (a.batch * (a.steps + 1)))
        for way in a.ways:
            words = ["sft", "--model", a.model, "--dataset", str(data), "--max_length", str(a.length), "--truncation_strategy", "right",
                     "--per_device_train_batch_size", str(a.batch), "--gradient_accumulation_steps", "1", "--max_steps", str(a.steps), "--logging_steps", "1",
                     "--save_strategy", "no", "--report_to", "none", "--add_version", "false", "--devices", a.device, *WAYS[way]]
            plan = json.loads(subprocess.run([a.hone, "plan", "--format", "json", *words], capture_output=True, text=True, check=True).stdout)
            predicted = plan["asked"]["total"] / GIB
            found, trouble = measured(a.hone, words, pathlib.Path(folder) / way.replace(" ", "_"))
            print(f"{way:24} {predicted:14.2f} " + (f"{found:13.2f} {predicted / found:6.2f}" if found else f"{trouble}"))


if __name__ == "__main__":
    sys.exit(main())
