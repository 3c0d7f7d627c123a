#!/usr/bin/env python3
"""`hone eval` beside lm-evaluation-harness on the same model and task files, whole commands on the same cores.

    bench/eval.py [--model models/nano] [--rows 400] [--threads 2]

Three tasks: multiple choice with drawn examples, letters behind a shared prompt, generated answers. Prints the seconds of both, with and without their start, and
the ratio; the metrics of both are compared first.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/eval"))
from eval_testing import lm_eval, results_of, write_tasks  # noqa: E402

TASKS = ["drawn_choices", "first_letters", "sums", "next_words"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=str(ROOT / "models/nano"))
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tasks").mkdir()
        write_tasks(folder / "tasks", options.rows)
        words = [str(ROOT / "build/bin/hone"), "eval", "--model", options.model, "--torch_dtype", "float32", "--include_path", str(folder / "tasks"), "--eval_output_dir", str(folder / "ours")]
        began = time.perf_counter()
        subprocess.run([*words, "--eval_dataset", *TASKS], check=True, capture_output=True)
        ours = time.perf_counter() - began
        began = time.perf_counter()
        theirs_found = lm_eval(options.model, folder / "tasks", folder / "theirs.json", [{"tasks": TASKS}])[0]
        theirs = time.perf_counter() - began
        found = results_of(folder / "ours")
        for task in TASKS:
            for metric, value in theirs_found["results"][task].items():
                if "," in metric and "_stderr" not in metric and abs(found["results"][task][metric] - value) > 1e-3 * max(1, abs(value)):
                    sys.exit(f"{task} {metric}: {found['results'][task][metric]} and {value}")
        began = time.perf_counter()
        subprocess.run([*words, "--eval_dataset", "sums", "--eval_limit", "1"], check=True, capture_output=True)
        our_start = time.perf_counter() - began
        began = time.perf_counter()
        lm_eval(options.model, folder / "tasks", folder / "start.json", [{"tasks": ["sums"], "limit": 1}])
        their_start = time.perf_counter() - began
    print(json.dumps({"rows of each task": options.rows, "hone s": round(ours, 2), "lm-evaluation-harness s": round(theirs, 2), "ratio": round(theirs / ours, 1),
                      "start of hone s": round(our_start, 2), "of lm-evaluation-harness s": round(their_start, 2),
                      "ratio without start": round((theirs - their_start) / max(ours - our_start, 1e-3), 1)}))


if __name__ == "__main__":
    main()
