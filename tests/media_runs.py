"""Runs of the program on rows with media."""
import json
import os
import subprocess
from pathlib import Path

from safetensors.torch import load_file

HONE = Path(os.environ.get("HONE_BIN", Path(__file__).resolve().parents[1] / "build/bin/hone"))
# Every part trains, on the device that the caller adds, and nothing is kept.
ALL_PARTS = ["--tuner_type", "full", "--freeze_vit", "false", "--freeze_aligner", "false", "--torch_dtype", "float32", "--max_steps", 2, "--logging_steps", 1,
             "--per_device_train_batch_size", 2, "--gradient_accumulation_steps", 1, "--learning_rate", "1e-3", "--split_dataset_ratio", 0, "--add_version", "false",
             "--save_strategy", "no"]


def run(program, *words, **variables):
    """What it says, where it succeeds."""
    done = subprocess.run([HONE.with_name(program), *map(str, words)], capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def swift(*words, **variables):
    return run("swift", *words, **variables)


def sft(made, out, *words, **variables):
    """One pass over rows in their order. `made`: a model, its rows' file and the rows."""
    folder, rows, _ = made
    return swift("sft", "--model", folder, "--dataset", rows, "--torch_dtype", "float32", "--num_train_epochs", 1, "--per_device_train_batch_size", 1,
                 "--learning_rate", "1e-3", "--split_dataset_ratio", 0, "--dataset_shuffle", "false", "--train_dataloader_shuffle", "false",
                 "--add_version", "false", "--output_dir", out, "--logging_steps", 1, *words, **variables)


def losses(folder):
    return [line["loss"] for line in map(json.loads, (folder / "logging.jsonl").read_text().splitlines()) if "loss" in line]


def trace(folder, out, rows, **settings):
    """The batch that the trainer makes of rows, by `hone image-trace`; none where it fails."""
    (out / "asked.json").write_text(json.dumps({"model": str(folder), "rows": rows, "output": str(out / "batch.safetensors"), **settings}))
    done = subprocess.run([HONE, "image-trace", out / "asked.json"], capture_output=True, text=True)
    return done, load_file(out / "batch.safetensors") if done.returncode == 0 else None


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
