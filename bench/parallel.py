#!/usr/bin/env python3
"""Several processes: two ranks compared with one process on both cores, data parallelism with torch's DistributedDataParallel, layouts with both, and the traffic.

    bench/parallel.py [--size middle] [--tuner full] [--steps 12] [--strategies ddp zero2]
    bench/parallel.py --strategies ddp tp tp+sp pp cp
    bench/parallel.py --experts 16 --strategies ddp ep

A random model with a small vocabulary, float32 on CPUs, the same rows for all. Tokens per second exclude the first two steps. With expert parallelism (ep), the traffic of the
all-to-alls is shown with the expected volume: every token goes to its experts and back, in the forward and in the backward pass.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
HONE = pathlib.Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))

PEER = r"""
import json, os, sys, time
import torch, torch.distributed as dist, transformers
s = json.loads(sys.argv[1])
torch.set_num_threads(s["threads"])
torch.manual_seed(0)
model = transformers.AutoModelForCausalLM.from_pretrained(s["model"], dtype=torch.float32)
if s["tuner"] == "lora":
    import peft
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=32, target_modules="all-linear"))
model.train()
if s["world"] > 1:
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
tokens = torch.randint(s["vocabulary"], (s["batch"], s["length"]))
times = []
for step in range(s["steps"]):
    began = time.perf_counter()
    model(input_ids=tokens, labels=tokens).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    times.append(time.perf_counter() - began)
if int(os.environ.get("RANK", 0)) == 0:
    times = sorted(times[2:])
    print(json.dumps({"tokens_per_second": tokens.numel() * s["world"] / times[len(times) // 2]}))
"""


STRATEGIES = {"ddp": {}, "zero1": {"deepspeed": "zero1"}, "zero2": {"deepspeed": "zero2"}, "zero3": {"deepspeed": "zero3"}, "shard_grad_op": {"fsdp": "shard_grad_op"}}
LAYOUTS = {"tp": {"tensor_parallel_size": "2"}, "tp+sp": {"tensor_parallel_size": "2", "sequence_parallel": "true"}, "pp": {"pipeline_parallel_size": "2"},
           "cp": {"context_parallel_size": "2"}, "ep": {"expert_parallel_size": "2"}}
MICRO_BATCHES = 4  # of a step through pipeline stages
MIDDLE = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4}


def make_model(folder, size, experts):
    shape = ["--size", "tiny", "--config", json.dumps({**MIDDLE, **(experts_of(experts) if experts else {})})] if size == "middle" else ["--size", size]
    subprocess.run([sys.executable, str(ROOT / "tools/make_model.py"), "--family", "qwen3_moe" if experts else "qwen2", *shape, "--vocab", "small", "--out", str(folder)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def experts_of(count):
    return {"num_experts": count, "num_experts_per_tok": 4, "moe_intermediate_size": 192, "head_dim": 64}


def expert_traffic(work, a, sent):
    """Megabytes sent by the all-to-alls of a process, and the expected volume."""
    from safetensors import safe_open
    with safe_open(work / "model/model.safetensors", "np") as file:
        others = sum(file.get_tensor(name).size * 4 for name in file.keys() if ".experts." not in name)  # whose gradients are summed: 2 (n - 1) / n of them
    shape = json.loads((work / "model/config.json").read_text())
    half = a.batch * a.length // 2 * shape["num_experts_per_tok"] / 2  # rows of a process that belong to the other's experts
    return (sent - others) / 1e6, 4 * shape["num_hidden_layers"] * half * shape["hidden_size"] * 4 / 1e6


def make_rows(path, count, length):
    rng = random.Random(0)
    with open(path, "w") as file:
        for _ in range(count):
            file.write(json.dumps({"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": " ".join(str(rng.randrange(10)) for _ in range(length))}]}) + "\n")


def environment(world, threads):
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "NPROC_PER_NODE")}
    return {**clean, "OMP_NUM_THREADS": str(threads), "NO_COLOR": "1", **({"NPROC_PER_NODE": str(world)} if world > 1 else {})}


def hone(work, world, threads, a, **options):
    out = work / f"out-{world}-{'-'.join(f'{key}={value}' for key, value in options.items()) or 'plain'}"
    copies = 1 if any(key.startswith(("tensor", "pipeline", "context")) for key in options) else world
    parts = MICRO_BATCHES if "pipeline_parallel_size" in options else 1
    settings = {"model": work / "model", "dataset": work / "rows.jsonl", "output_dir": out, "add_version": "false", "torch_dtype": "float32", "tuner_type": a.tuner,
                "max_steps": a.steps, "per_device_train_batch_size": a.batch // copies // parts, "gradient_accumulation_steps": parts, "logging_steps": 1, "save_strategy": "no",
                "split_dataset_ratio": 0, "gradient_checkpointing": "false", "max_length": a.length, "truncation_strategy": "right", "learning_rate": "1e-5", **options}
    done = subprocess.run([str(HONE), "sft", *(str(word) for key, value in settings.items() for word in (f"--{key}", value))], capture_output=True, text=True,
                          env=environment(world, threads))
    if done.returncode:
        sys.exit(done.stderr)
    events = [json.loads(line) for line in (out / "logging.jsonl").read_text().splitlines()]
    clock = [number * event["train_speed(s/it)"] for number, event in enumerate((e for e in events if "loss" in e), 1)]
    steps = sorted(after - before for before, after in zip(clock[1:], clock[2:]))
    sent = re.search(r"each process sent (\d+) bytes a step", done.stderr)
    return a.batch * a.length / statistics.median(steps), int(sent[1]) if sent else 0


def peer(work, world, threads, a):
    settings = {"model": str(work / "model"), "world": world, "threads": threads, "batch": a.batch // world, "length": a.length, "steps": a.steps, "tuner": a.tuner,
                "vocabulary": json.loads((work / "model/config.json").read_text())["vocab_size"]}
    torchrun = [str(pathlib.Path(sys.executable).with_name("torchrun")), f"--nproc_per_node={world}", str(work / "peer.py")]
    (work / "peer.py").write_text(PEER)
    line = torchrun if world > 1 else [sys.executable, str(work / "peer.py")]
    done = subprocess.run([*line, json.dumps(settings)], capture_output=True, text=True, env={**environment(1, threads)})
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])["tokens_per_second"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", default="middle", help="middle (25 million parameters), or as tools/make_model.py names them: tiny, 0.5b …")
    p.add_argument("--tuner", default="full", choices=["full", "lora"])
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=[*STRATEGIES, *LAYOUTS], help="ddp is compared with torch's")
    p.add_argument("--experts", type=int, default=0, help="experts in every block of the middle model, four for a token; 0: a dense model")
    a = p.parse_args()
    cores = os.cpu_count()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        make_model(work / "model", a.size, a.experts)
        make_rows(work / "rows.jsonl", a.batch * a.steps, a.length)
        print(f"{'qwen3_moe' if a.experts else 'qwen2'} {a.size}, {a.tuner}, float32, {a.batch} x {a.length} tokens a step, {cores} cores")
        alone, _ = hone(work, 1, cores, a)
        print(f"{'':32}{'tokens/s':>10}{'of one process':>16}{'MB sent a step':>16}")
        print(f"{'one process, all cores':32}{alone:10.0f}{1:16.2f}{0:16.2f}")
        rates = {}
        for name in a.strategies:
            rates[name], sent = hone(work, 2, max(1, cores // 2), a, **{**STRATEGIES, **LAYOUTS}[name])
            print(f"{'2 processes, ' + name:32}{rates[name]:10.0f}{rates[name] / alone:16.2f}{sent / 1e6:16.2f}", flush=True)
            if name == "ep" and a.tuner == "full":
                print("    all-to-alls of {:.2f} MB, volume {:.2f} MB".format(*expert_traffic(work, a, sent)), flush=True)
        if "ddp" not in rates:
            return
        theirs, theirs_alone = peer(work, 2, max(1, cores // 2), a), peer(work, 1, cores, a)
        print(f"{'torch DistributedDataParallel':32}{theirs:10.0f}{theirs / theirs_alone:16.2f}   (of transformers in one process, {theirs_alone:.0f} tokens/s)")
        print(f"hone's data parallelism against torch's: {rates['ddp'] / theirs:.2f} of its tokens/s, {rates['ddp'] / alone / (theirs / theirs_alone):.2f} of its scaling")


if __name__ == "__main__":
    main()
