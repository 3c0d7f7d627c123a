#!/usr/bin/env python3
"""Rows per second from JSONL to ids and labels: hone and ms-swift's preprocessing on the same file and machine.

    bench/data.py --model DIR [--rows 20000] [--bench build/data_bench]

HONE_PEERS_PYTHON names a Python with ms-swift; without one, only hone's rate is printed.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile

PEER = r"""
import json, os, sys, time
os.environ["LOG_LEVEL"] = "ERROR"
from swift.model import get_processor
from swift.template import get_template
from swift.dataset import EncodePreprocessor, load_dataset
processor = get_processor(sys.argv[1], model_type=sys.argv[3])
template = get_template(processor, template_type=sys.argv[4])
template.set_mode("train")
start = time.time()
rows, _ = load_dataset([sys.argv[2]], num_proc=2, shuffle=False, load_from_cache_file=False)
encoded = EncodePreprocessor(template=template)(rows, num_proc=2, load_from_cache_file=False, strict=False)
print(json.dumps({"rows": len(encoded), "seconds": time.time() - start}))
"""


def write_rows(path, count):
    rng = random.Random(0)
    words = "the of data model train answer question python value 数据 模型 function return list of numbers and a short explanation".split()
    with open(path, "w") as out:
        for _ in range(count):
            say = lambda n: " ".join(rng.choice(words) for _ in range(n))
            out.write(json.dumps({"messages": [{"role": "user", "content": say(40)}, {"role": "assistant", "content": say(120)}]}, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--bench", default=pathlib.Path(__file__).resolve().parents[1] / "build" / "data_bench")
    parser.add_argument("--model_type", default="qwen2")
    parser.add_argument("--template", default="qwen2_5")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.jsonl"
        write_rows(path, args.rows)
        ours = json.loads(subprocess.run([args.bench, args.model, path, args.template], check=True, capture_output=True, text=True).stdout)
        print(f"hone      {ours['rows_per_second']:>10.0f} rows/s   first batch after {ours['first_batch_seconds']:.2f} s")
        for python in filter(None, os.environ.get("HONE_PEERS_PYTHON", "").split(":")):
            done = subprocess.run([python, "-c", PEER, args.model, path, args.model_type, args.template], capture_output=True, text=True)
            if done.returncode:
                continue
            peer = json.loads(done.stdout.strip().splitlines()[-1])
            rate = peer["rows"] / peer["seconds"]
            print(f"ms-swift  {rate:>10.0f} rows/s   hone is {ours['rows_per_second'] / rate:.1f} times as fast")
            return
        print("ms-swift  is missing: set HONE_PEERS_PYTHON to a Python that has it to get the ratio")


if __name__ == "__main__":
    main()
