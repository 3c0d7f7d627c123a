#!/usr/bin/env python3
"""The bubble of a pipeline: seconds per step on two ranks, by the number of micro-batches (m) and stages per rank (v), compared with (p - 1) / (v m).

    bench/pipeline.py [--micro-batches 1 2 4 8 16] [--chunks 1 2] [--steps 8]

A random model of eight equal blocks in float32, rows of equal length, one thread per stage. The time of a micro-batch is the difference between the two longest
steps divided by their difference in micro-batches; the time of a step beyond m of those is its bubble.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
HONE = pathlib.Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))


def step_seconds(folder, model, rows, stages, chunks, micro_batches, steps):
    folder = folder / f"v{chunks}"
    line = [HONE, "sft", "--model", model, "--dataset", rows, "--tuner_type", "full", "--max_length", 256, "--truncation_strategy", "right", "--per_device_train_batch_size", 1,
            "--gradient_accumulation_steps", micro_batches, "--pipeline_parallel_size", stages, "--virtual_pipeline_parallel_size", chunks, "--gradient_checkpointing", "false", "--max_steps", steps, "--logging_steps", 1,
            "--save_strategy", "no", "--report_to", "none", "--use_cpu", "true", "--add_version", "false", "--output_dir", folder / f"m{micro_batches}"]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "NPROC_PER_NODE": str(stages)})
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    log = [json.loads(text) for text in (folder / f"m{micro_batches}" / "logging.jsonl").read_text().splitlines()]
    totals = [event["train_speed(s/it)"] * (i + 1) for i, event in enumerate(log) if "train_speed(s/it)" in event]
    return statistics.median(after - before for before, after in zip(totals[1:], totals[2:]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--micro-batches", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    p.add_argument("--stages", type=int, default=2)
    p.add_argument("--chunks", type=int, nargs="+", default=[1, 2])
    p.add_argument("--steps", type=int, default=8)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shape = {"num_hidden_layers": 8, "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 4, "num_key_value_heads": 2}
        subprocess.run([sys.executable, ROOT / "tools/make_model.py", "--family", "qwen2", "--vocab", "small", "--config", json.dumps(shape), "--out", folder / "model"], check=True, capture_output=True)
        row = json.dumps({"messages": [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "one two three four " * 120}]}) + "\n"
        (folder / "rows.jsonl").write_text(row * (max(a.micro_batches) * a.steps))
        print(f"{'v':>4} {'m':>4} {'step s':>8} {'bubble':>8} {'(p-1)/vm':>8}")
        for chunks in a.chunks:
            seconds = {m: step_seconds(folder, folder / "model", folder / "rows.jsonl", a.stages, chunks, m, a.steps) for m in sorted(a.micro_batches)}
            (m1, t1), (m2, t2) = sorted(seconds.items())[-2:]
            one = (t2 - t1) / (m2 - m1)
            for m, t in seconds.items():
                print(f"{chunks:4} {m:4} {t:8.3f} {t / (m * one) - 1:8.2f} {(a.stages - 1) / (chunks * m):8.2f}")


if __name__ == "__main__":
    main()
