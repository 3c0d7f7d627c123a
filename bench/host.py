#!/usr/bin/env python3
"""Performance targets on the CPUs of hosts, set for two Neoverse-N1 cores: each compared with its peer in the same run, with ratio and target.

    bench/host.py [PART ...] [--peers PYTHON] [--ggml FOLDER] [--spin_count N]

Parts: decode prompt llama lora tiny nano npu neighbours adam threads; all of them if none is named. A missing peer is reported and its rows are
skipped. Results are added to bench/results/ARCHITECTURE-COMMIT.json. --peers is the Python of an environment
with ms-swift (tools/setup.sh --peers makes .cache/peers/swift) and optionally DeepSpeed, --ggml a folder with llama.cpp's sources and its library ggml built in build/ (-DBUILD_SHARED_LIBS=OFF).
"""
import argparse
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import types

import data
import end_to_end
import engine
import run
import train_step

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
CORES = len(os.sched_getaffinity(0))


def processor():
    names = [line.split(":", 1)[1].strip() for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines() if line.startswith("Model name")]
    return f"{CORES} x {' '.join(names) or 'an unknown processor'}"


class Results:
    """Prints rows and stores them in a file: title -> results of hone and its peer, their ratio, and the target."""

    def __init__(self, name=platform.machine()):
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        self.file = ROOT / f"bench/results/{name}-{commit}.json"
        self.all = json.loads(self.file.read_text()) if self.file.exists() else {"machine": processor(), "commit": commit, "rows": {}}
        print(f"{self.all['machine']}, {commit}\n{'':58} {'hone':>9} {'peer':>9} {'ratio':>6}  aim")

    def row(self, title, ours, theirs, aim, at_most=False, seconds=False):
        """`seconds`: less is better; the ratio is hone's speed-up."""
        ratio = theirs / ours if seconds else ours / theirs
        reached = ratio <= aim if at_most else ratio >= aim
        print(f"{title:58} {ours:9.2f} {theirs:9.2f} {ratio:6.2f}  {'at most' if at_most else 'at least'} {aim}{'' if reached else '  MISSED'}", flush=True)
        self.all["rows"][title] = {"hone": round(ours, 3), "peer": round(theirs, 3), "ratio": round(ratio, 3), "aim": aim, "reached": reached}
        self.file.write_text(json.dumps(self.all, indent=1) + "\n")


def has_module(python, name):
    return python.exists() and subprocess.run([python, "-c", f"import importlib.util, sys; sys.exit(not importlib.util.find_spec('{name}'))"]).returncode == 0


def settings(a, dtype="float32"):
    """Arguments of bench/engine.py's functions: a model folder of Qwen2.5-0.5B's shape in `dtype`, and the program."""
    words = ["--family", "qwen2", "--size", "0.5b"] + (["--dtype", "bfloat16"] if dtype == "bfloat16" else [])
    return types.SimpleNamespace(model=str(run.shape("qwen2-0.5b-bf16" if dtype == "bfloat16" else "qwen2-0.5b", *words)), device="cpu", bench=str(BUILD / "engine_bench"))


def rate(a, what, **more):
    kind = engine.ours(settings(a, more.get("dtype", "float32")), **more)
    return kind[f"{what}_tokens_per_second"]


def decode(a, results):
    one = dict(batch=1, prompt=32, tokens=96)
    peer = engine.theirs(settings(a), dtype="float32", **one)["answer_tokens_per_second"]
    for name, aim, more in (("float32", 1.5, dict(dtype="float32")), ("bf16", 2.6, dict(dtype="bfloat16")),
                            ("8 bits", 4.0, dict(dtype="bfloat16", quant_bits=8)), ("4 bits", 6.0, dict(dtype="bfloat16", quant_bits=4))):
        results.row(f"decode, batch 1, {name} / transformers float32, tokens/s", rate(a, "answer", **more, **one), peer, aim)
    many = dict(batch=16, prompt=8, tokens=12)
    results.row("decode, batch 16, bf16 / transformers float32, tokens/s", rate(a, "answer", dtype="bfloat16", **many),
                engine.theirs(settings(a), dtype="float32", **many)["answer_tokens_per_second"], 3.5)


def prompt(a, results):
    shapes, layers = engine.layer_shapes(settings(a))
    product = float(subprocess.run([sys.executable, "-c", engine.MATMUL, json.dumps(shapes)], capture_output=True, text=True, check=True).stdout)
    for name, more in (("float32", dict(dtype="float32")), ("bf16", dict(dtype="bfloat16")), ("8 bits", dict(dtype="bfloat16", quant_bits=8)),
                       ("4 bits", dict(dtype="bfloat16", quant_bits=4))):
        tokens = rate(a, "prompt", batch=1, prompt=512, tokens=2, **more)
        results.row(f"prompt of 512, {name}, GFLOP/s / libtorch's product", tokens * 2 * layers * sum(out * width for out, width in shapes) / 1e9, product, 1.0)


def llama(a, results):
    if not a.ggml:
        return print("llama.cpp: no --ggml given; left out")
    library = pathlib.Path(a.ggml)
    program = pathlib.Path(tempfile.mkdtemp()) / "ggml_products"
    archives = [next(library.glob(f"build/**/lib{name}.a")) for name in ("ggml", "ggml-cpu", "ggml-base")]
    subprocess.run(["g++", "-O2", "-std=c++17", "-I", library / "ggml/include", ROOT / "bench/ggml_products.cpp", *archives, *archives, "-fopenmp", "-ldl", "-o", program], check=True)
    shapes, layers = engine.layer_shapes(settings(a))
    config = json.loads((pathlib.Path(settings(a).model) / "config.json").read_text())
    words = [CORES, 40, layers, ",".join(f"{out}x{width}" for out, width in shapes), f"{config['vocab_size']}x{config['hidden_size']}"]
    for kind, name, more in (("f16", "bf16", {}), ("q8_0", "8 bits", dict(quant_bits=8)), ("q4_0", "4 bits", dict(quant_bits=4))):
        theirs = float(subprocess.run([program, kind, *map(str, words)], capture_output=True, text=True, check=True).stdout)
        results.row(f"decode, batch 1, {name} / ggml's products alone, {kind.upper()}", rate(a, "answer", dtype="bfloat16", batch=1, prompt=32, tokens=40, **more), theirs, 1.0)


def lora(a, results):
    common = {"device": "cpu", "sequences": 4, "length": 512, "steps": 0, "labelled": 1.0}  # a step takes a minute
    peer = train_step.last_json([sys.executable, "-c", train_step.PEER, json.dumps({"model": settings(a).model, "dtype": "float32", **common})])
    for name in ("float32", "bfloat16"):
        words = {"model": settings(a, name).model, "dtype": name, **common}
        ours = train_step.last_json([str(BUILD / "train_step_bench"), *(text for key, value in words.items() for text in (f"--{key}", str(value)))])
        results.row(f"LoRA 0.5B, 4 x 512, {name} / peft float32, tokens/s", ours["tokens_per_second"], peer["tokens_per_second"], 1.25)
        results.row(f"the same, {name}, GB at most", ours["peak_bytes"] / 1e9, peer["peak_bytes"] / 1e9, 0.5, at_most=True)


def tiny(a, results):
    if not has_module(a.peers, "swift"):
        return print("ms-swift: --peers names no Python that has it; left out")
    with tempfile.TemporaryDirectory() as folder:
        model, data = f"{folder}/model", f"{folder}/rows.jsonl"
        subprocess.run([sys.executable, ROOT / "tools/make_model.py", "--family", "qwen2", "--size", "tiny", "--out", model], check=True, capture_output=True)
        end_to_end.rows(data)
        ours, our_processor = end_to_end.run(end_to_end.command(BUILD / "bin/swift", model, data, f"{folder}/hone", "text"))
        theirs, their_processor = end_to_end.run(end_to_end.command(a.peers.parent / "swift", model, data, f"{folder}/swift", "text"))
        (our_steps, our_losses), (their_steps, their_losses) = (end_to_end.steps_and_losses(f"{folder}/{name}") for name in ("hone", "swift"))
        print(f"losses: hone {our_losses[0]:.4f} to {our_losses[-1]:.4f}, ms-swift {their_losses[0]:.4f} to {their_losses[-1]:.4f}")
        results.row("a whole swift sft / ms-swift, s", ours, theirs, 6.0, seconds=True)
        results.row("its steps, s", our_steps, their_steps, 3.0, seconds=True)
        print(f"processor seconds: hone {our_processor:.1f}, ms-swift {their_processor:.1f}")


def nano_runs(steps, *words, before=(), environment=None):
    """The demo's training, `steps` and twice as many: (seconds, processor seconds) of each run. Start-up cancels out of their difference."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (steps, 2 * steps):
            command = [*before, BUILD / "bin/hone", "sft", "--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--lora_rank", 16,
                       "--per_device_train_batch_size", 8, "--gradient_accumulation_steps", 1, "--gradient_checkpointing", "false", "--max_steps", count,
                       "--save_strategy", "no", "--output_dir", f"{folder}/{count}", "--add_version", "false", *words]
            used = end_to_end.processor_seconds()
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
            if done.returncode:
                sys.exit(f"{done.stderr[-2000:]}")
            times.append((end_to_end.steps_and_losses(f"{folder}/{count}")[0], end_to_end.processor_seconds() - used))
    return times


def nano_seconds(steps, *words, before=()):
    short, long = nano_runs(steps, *words, before=before)
    return (long[0] - short[0]) / steps


def nano_processor_seconds(steps, names):
    """A step's on one thread, by dtype: of runs in turns the least of each length, which a busy machine hardly affects."""
    one = {**os.environ, "OMP_NUM_THREADS": "1"}
    runs = {name: [] for name in names}
    for _ in range(6):
        for name in names:
            runs[name].append([used for _, used in nano_runs(steps, "--torch_dtype", name, environment=one)])
    least = ([min(column) for column in zip(*runs[name])] for name in names)
    return [(long - short) / steps for short, long in least]


def nano(a, results):
    half, full = (nano_seconds(40, "--torch_dtype", name) for name in ("bfloat16", "float32"))
    results.row("nano's training step, bf16 / float32, ms", 1e3 * half, 1e3 * full, 1.2, at_most=True)
    half, full = nano_processor_seconds(80, ("bfloat16", "float32"))
    results.row("the same, processor time of one thread, ms", 1e3 * half, 1e3 * full, 1.2, at_most=True)


def npu(a, results):
    seconds = nano_seconds(4, before=[BUILD / "bin/hone", "emulate-npu"])
    results.row("nano's training step on an emulated NPU, s", seconds, 1.0, 3.0, at_most=True)


class Neighbours:
    """One busy process per core."""

    def __enter__(self):
        self.spinners = [subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]) for core in sorted(os.sched_getaffinity(0))]

    def __exit__(self, *_):
        for spinner in self.spinners:
            spinner.send_signal(signal.SIGKILL)
            spinner.wait()


def neighbours(a, results):
    """With one busy process per core the fair share is a half: twice the time is ideal."""
    cases = {
        "decode, batch 1, 8 bits": lambda: rate(a, "answer", dtype="bfloat16", quant_bits=8, batch=1, prompt=32, tokens=40),
        "prompt of 512, float32": lambda: rate(a, "prompt", dtype="float32", batch=1, prompt=512, tokens=2),
        "nano's training, bf16": lambda: 1 / nano_seconds(40, "--torch_dtype", "bfloat16"),
    }
    for title, measure in cases.items():
        quiet = measure()
        with Neighbours():
            busy = measure()
        results.row(f"{title}: slow-down by two neighbours / ideal", quiet / busy, 2.0, 1.3, at_most=True)


def adam(a, results):
    done = subprocess.run([BUILD / "adam_bench", "--benchmark_filter=elements:33554432", "--benchmark_format=json", "--benchmark_min_time=0.4"], capture_output=True, text=True, check=True)
    speed = {}
    for bench in json.loads(done.stdout)["benchmarks"]:
        name, _, threads = re.match(r"step/(\w+)/elements:(\d+)/threads:(\d+)", bench["name"]).groups()
        speed[name, int(threads)] = bench["bytes_per_second"] / 1e9
    for threads in sorted({count for _, count in speed if count <= CORES}):
        results.row(f"AdamW, {threads} thread(s) / libtorch's fused, GB/s", speed["hone", threads], speed["libtorch", threads], 1.0)
    results.row("AdamW, 64 threads on the cores there are / as many threads, GB/s", speed["hone", 64], speed["hone", CORES], 0.9)
    if has_module(a.peers, "deepspeed"):
        results.row("AdamW, all threads / DeepSpeed's cpu_adam, GB/s", speed["hone", CORES], cpu_adam_speed(a.peers), 1.0)
    else:
        print("DeepSpeed: --peers names no Python that has it; left out")


def cpu_adam_speed(python):
    program = """
import time, torch
from deepspeed.ops.adam import DeepSpeedCPUAdam
x = torch.rand(1 << 25); x.grad = torch.rand(1 << 25)
optimizer = DeepSpeedCPUAdam([x], lr=1e-3, weight_decay=0.1)
best = 1e30
for _ in range(8):
    start = time.perf_counter(); optimizer.step(); best = min(best, time.perf_counter() - start)
print(28 * (1 << 25) / best / 1e9)
"""
    return float(subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def threads(a, results):
    """Rows read, rendered, tokenized and labeled by 64 threads on the available cores: their total cost, and that of the busiest thread."""
    with tempfile.TemporaryDirectory() as folder:
        data.write_rows(f"{folder}/rows.jsonl", 40000)
        one, many = (json.loads(subprocess.run([BUILD / "data_bench", ROOT / "models/nano", f"{folder}/rows.jsonl", "qwen2_5", "swift", str(count)], capture_output=True,
                                               text=True, check=True).stdout) for count in (1, 64))
    results.row("loader and tokenizer, processor seconds, 64 threads / one", many["processor_seconds"], one["processor_seconds"], 1.25, at_most=True)
    results.row("the same, busiest of 64 threads / one thread's 64th part", many["longest_thread_seconds"], one["processor_seconds"] / 64, 1.5, at_most=True)


PARTS = {part.__name__: part for part in (decode, prompt, llama, lora, tiny, nano, npu, neighbours, adam, threads)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    p.add_argument("--peers", type=pathlib.Path, default=ROOT / ".cache/peers/swift/bin/python", help="a Python that has ms-swift")
    p.add_argument("--ggml", help="a folder with llama.cpp's sources and ggml built")
    p.add_argument("--spin_count", type=int, default=2000, help="how long hone's threads wait awake; 2000 is the program's own setting")
    a = p.parse_args()
    if unknown := set(a.parts) - set(PARTS):
        p.error(f"{', '.join(sorted(unknown))}: no such part; expected some of {' '.join(PARTS)}")
    engine_ours = engine.ours
    engine.ours = lambda *words, **more: with_spin_count(a.spin_count, engine_ours, *words, **more)
    results = Results()
    for name, part in PARTS.items():
        if not a.parts or name in a.parts:
            part(a, results)


def with_spin_count(count, call, *words, **more):
    """Only for hone's processes: the peers keep their defaults."""
    before = os.environ.get("GOMP_SPINCOUNT")
    os.environ["GOMP_SPINCOUNT"] = str(count)
    try:
        return call(*words, **more)
    finally:
        os.environ.pop("GOMP_SPINCOUNT") if before is None else os.environ.update(GOMP_SPINCOUNT=before)


if __name__ == "__main__":
    main()
