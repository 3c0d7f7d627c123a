#!/usr/bin/env python3
"""Training on one NVIDIA GPU: `hone pt` on models of known shapes with random weights, steady-state steps, compared with transformers + peft.

    make bench-gpu                                   # builds, runs every case, prints the table, writes bench/results/gpu-<commit>.json
    bench/gpu.py --cases 0.5b-small,7b --steps 12    # some of them
    bench/gpu.py --cases 1.5b-full --profile 1.5b-full   # and the time of a step by kernel
    bench/gpu.py --growth                            # tokens per step, rank, vocabulary and length, each varied separately
    bench/gpu.py --peers                             # also runs the peers, if this Python has transformers and peft

Without --peers the peers' column shows earlier measurements of the same cases on an H200 with transformers 5.17 + peft (sdpa, bf16). Rows are full
packs of documents exactly as long as a row, or, in cases named so, of several documents. Warm-up steps (libraries choose kernels, passes are captured) are not counted.
"""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHAPES = {  # hidden, intermediate, layers, heads, key heads, head_dim, vocabulary, tied
    "qwen2-0.5b": (896, 4864, 24, 14, 2, 64, 151936, True), "qwen2-1.5b": (1536, 8960, 28, 12, 2, 128, 151936, True),
    "qwen2-7b": (3584, 18944, 28, 28, 4, 128, 152064, False), "qwen3-0.6b": (1024, 3072, 28, 16, 8, 128, 151936, True),
    "qwen2-0.5b-32k": (896, 4864, 24, 14, 2, 64, 32000, True), "qwen2-0.5b-256k": (896, 4864, 24, 14, 2, 64, 256000, True),
    "qwen3_moe-30b-a3b-6": (2048, 768, 6, 32, 4, 128, 151936, True),  # six of its 48 layers; 128 experts, 8 a token
    "qwen3_moe-30b-a3b": (2048, 768, 48, 32, 4, 128, 151936, False),
    "qwen3_5-4b": (2560, 9216, 32, 16, 4, 256, 248320, True)}  # every fourth layer has attention, the others 16 key heads and 32 value heads of 128
LORA = ["--tuner_type", "lora", "--lora_rank", "8", "--lora_dropout", "0", "--target_modules", "all-linear"]
ATTENTION = ["--target_modules", "q_proj", "k_proj", "v_proj", "o_proj"]
FULL = ["--tuner_type", "full"]
PLAIN, AGAIN = ["--gradient_checkpointing", "false"], ["--gradient_checkpointing", "true"]


@dataclasses.dataclass
class Case:
    shape: str
    rows: int
    length: int
    options: list
    peers: float | None = None  # tokens/s and GiB on an H200
    gib: float | None = None
    documents: bool = False  # rows hold several documents of different lengths
    steps: float = 1  # times --steps
    hybrid: bool = False  # of linear attention, which transformers composes of torch's operators where fla is not installed


CASES = {
    "7b": Case("qwen2-7b", 4, 2048, LORA + PLAIN, 12207, 79.7),
    "7b-dropout": Case("qwen2-7b", 4, 2048, LORA + PLAIN + ["--lora_dropout", "0.05"]),
    "7b-checkpointing": Case("qwen2-7b", 4, 2048, LORA + AGAIN, 7017, 30.2),
    "7b-long": Case("qwen2-7b", 1, 8192, LORA + AGAIN, 6396, 30.2),
    "7b-documents": Case("qwen2-7b", 4, 2048, LORA + PLAIN, documents=True),
    "1.5b-full": Case("qwen2-1.5b", 8, 2048, FULL + PLAIN, 39618, 80.9),
    "1.5b-full-checkpointing": Case("qwen2-1.5b", 8, 2048, FULL + AGAIN, 32214, 38.0),
    "0.5b": Case("qwen2-0.5b", 16, 1024, LORA + PLAIN, 69755, 51.2),
    "0.5b-documents": Case("qwen2-0.5b", 16, 1024, LORA + PLAIN, documents=True),
    "0.5b-small": Case("qwen2-0.5b", 1, 512, LORA + PLAIN, 3200, steps=4),
    "qwen3-0.6b": Case("qwen3-0.6b", 2, 2048, LORA + ["--lora_rank", "16"] + PLAIN),
    "moe": Case("qwen3_moe-30b-a3b-6", 4, 2048, LORA + ATTENTION + PLAIN),
    "moe-whole": Case("qwen3_moe-30b-a3b", 4, 2048, LORA + ATTENTION + PLAIN),  # 61 GB of weights
    "moe-whole-checkpointing": Case("qwen3_moe-30b-a3b", 4, 2048, LORA + ATTENTION + AGAIN),
    "hybrid": Case("qwen3_5-4b", 4, 2048, LORA + PLAIN, hybrid=True),
    "hybrid-checkpointing": Case("qwen3_5-4b", 4, 2048, LORA + AGAIN, hybrid=True),
}
EXPERTS = 128
KEY_HEADS, VALUE_HEADS, LINEAR_HEAD = 16, 32, 128  # of linear attention
GROWTH = {  # one thing grows, the rest stays
    **{f"tokens-{rows}k": Case("qwen2-0.5b", rows, 1024, LORA + PLAIN) for rows in (1, 4, 16, 64)},
    **{f"rank-{rank}": Case("qwen2-0.5b", 16, 1024, LORA + ["--lora_rank", str(rank)] + PLAIN) for rank in (8, 64, 256)},
    **{f"vocabulary-{size}": Case(f"qwen2-0.5b-{size}", 16, 1024, LORA + PLAIN) for size in ("32k", "256k")},
    **{f"length-{size}k": Case("qwen2-7b", max(1, 8 // size), 1024 * size, LORA + AGAIN, steps=1 if size < 16 else 0.4 if size < 64 else 0.2) for size in (1, 4, 16, 32, 64, 128)},
}
BEFORE = {"7b": (11560, 39.4), "7b-dropout": (9978, 71.5), "7b-checkpointing": (8420, 18.0), "7b-long": (8400, 18.0), "1.5b-full": (35800, 31.9),
          "1.5b-full-checkpointing": (30500, 13.4), "0.5b": (57600, 12.3), "0.5b-small": (5480, None)}  # hone e5f1606 on the same kind of card


def make_model(shape, folder):
    """Random bf16 weights in Hugging Face's names, the tokenizer of models/nano. The folder has its name only when it is whole."""
    whole, folder = folder, folder.with_name(f"{folder.name}.part")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = write_config(shape, folder)
    index, size = {}, 0
    for name, tensors in weight_files(shape, config):
        size += sum(tensor.nbytes for tensor in tensors.values())
        save_file(tensors, folder / f"{name}.safetensors")
        index.update({key: f"{name}.safetensors" for key in tensors})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": index}))
    folder.rename(whole)


def save_file(tensors, path):
    from safetensors.torch import save_file
    save_file(tensors, path, metadata={"format": "pt"})


def write_config(shape, folder):
    hidden, inner, layers, heads, kv_heads, head_dim, vocabulary, tied = SHAPES[shape]
    family = shape.split("-")[0]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "models/nano" / name, folder)
    architectures = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM", "qwen3_5": "Qwen3_5ForCausalLM"}
    config = {"architectures": [architectures[family]], "model_type": {"qwen3_5": "qwen3_5_text"}.get(family, family), "hidden_size": hidden,
              "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim,
              "max_position_embeddings": 131072, "rope_theta": 1e6, "rms_norm_eps": 1e-6, "hidden_act": "silu", "initializer_range": 0.02,
              "tie_word_embeddings": tied, "use_sliding_window": False, "torch_dtype": "bfloat16", "vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 2}
    if family == "qwen3_moe":
        config.update(num_experts=EXPERTS, num_experts_per_tok=8, moe_intermediate_size=inner, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
    if family == "qwen3_5":
        config.update(full_attention_interval=4, linear_num_key_heads=KEY_HEADS, linear_num_value_heads=VALUE_HEADS, linear_key_head_dim=LINEAR_HEAD, linear_value_head_dim=LINEAR_HEAD,
                      linear_conv_kernel_dim=4, rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25})
    (folder / "config.json").write_text(json.dumps(config))
    return config


def weight_files(shape, config):
    """The files' names and tensors, one file at a time."""
    import torch
    hidden, inner, layers, heads, kv_heads, head_dim, vocabulary, tied = SHAPES[shape]
    family, device = shape.split("-")[0], "cuda" if torch.cuda.is_available() else "cpu"

    def random_weight(*sizes):
        return (torch.randn(*sizes, device=device, dtype=torch.bfloat16) * 0.02).cpu()

    def norm(size):
        return torch.ones(size, dtype=torch.bfloat16)

    torch.manual_seed(0)
    embedding = {"model.embed_tokens.weight": random_weight(vocabulary, hidden), "model.norm.weight": norm(hidden)}
    if not tied:
        embedding["lm_head.weight"] = random_weight(vocabulary, hidden)
    yield "embedding", embedding
    mlp = (("gate_proj", (inner, hidden)), ("up_proj", (inner, hidden)), ("down_proj", (hidden, inner)))
    for i in range(layers):
        p, t = f"model.layers.{i}.", {}
        if family == "qwen3_5" and (i + 1) % 4:
            t.update(delta_net(p + "linear_attn.", hidden, random_weight))
            t.update({f"{p}mlp.{part}.weight": random_weight(*sizes) for part, sizes in mlp})
            t[p + "input_layernorm.weight"], t[p + "post_attention_layernorm.weight"] = norm(hidden), norm(hidden)
            yield f"layer-{i}", t
            continue
        for name, out, into in (("q_proj", heads * head_dim * (2 if family == "qwen3_5" else 1), hidden), ("k_proj", kv_heads * head_dim, hidden), ("v_proj", kv_heads * head_dim, hidden), ("o_proj", hidden, heads * head_dim)):
            t[f"{p}self_attn.{name}.weight"] = random_weight(out, into)
            if family == "qwen2" and name != "o_proj":
                t[f"{p}self_attn.{name}.bias"] = random_weight(out)
        if family == "qwen3_moe":
            t[p + "mlp.gate.weight"] = random_weight(EXPERTS, hidden)
            for part, sizes in mlp:  # of all experts in one draw and one copy
                t.update({f"{p}mlp.experts.{e}.{part}.weight": weight for e, weight in enumerate(random_weight(EXPERTS, *sizes))})
        else:
            t.update({f"{p}mlp.{part}.weight": random_weight(*sizes) for part, sizes in mlp})
        if family != "qwen2":
            t[p + "self_attn.q_norm.weight"], t[p + "self_attn.k_norm.weight"] = norm(head_dim), norm(head_dim)
        t[p + "input_layernorm.weight"], t[p + "post_attention_layernorm.weight"] = norm(hidden), norm(hidden)
        yield f"layer-{i}", t


def delta_net(p, hidden, random_weight):
    import torch
    keys, values = KEY_HEADS * LINEAR_HEAD, VALUE_HEADS * LINEAR_HEAD
    return {p + "in_proj_qkv.weight": random_weight(2 * keys + values, hidden), p + "in_proj_z.weight": random_weight(values, hidden), p + "in_proj_b.weight": random_weight(VALUE_HEADS, hidden),
            p + "in_proj_a.weight": random_weight(VALUE_HEADS, hidden), p + "conv1d.weight": random_weight(2 * keys + values, 1, 4) * 10, p + "out_proj.weight": random_weight(hidden, values),
            p + "dt_bias": torch.ones(VALUE_HEADS, dtype=torch.bfloat16), p + "A_log": torch.linspace(0.01, 16, VALUE_HEADS).log().bfloat16(), p + "norm.weight": torch.ones(LINEAR_HEAD, dtype=torch.bfloat16)}


def make_data(length, rows, path, documents):
    """Documents longer than a row: cut to it, each fills one. Or documents of a sixteenth of a row to a whole one, most of them short."""
    draw = random.Random(1)
    with open(path, "w") as file:
        for i in range(rows * 5 if documents else rows):
            count = int(length / 16 * 16 ** (draw.random() ** 2) / 6) if documents else length
            words = " ".join(f"word{k % 97} of the long text number {k}" for k in range(count))
            file.write(json.dumps({"messages": [{"role": "assistant", "content": f"{i} {words}"}]}) + "\n")


def hone(case, work, steps, more=()):
    model, data = work / case.shape, work / f"data-{case.length}-{case.documents}.jsonl"
    if not model.exists():
        make_model(case.shape, model)
    if not data.exists():
        make_data(case.length, max(4, min(64, (1 << 20) // case.length)), data, case.documents)
    return run_hone("pt", case, model, data, work / "out", steps, ["--packing", "true", *more])


def run_hone(verb, case, model, data, out, steps, more):
    """Steady steps of one run: tokens and seconds, memory, a few losses; None where it failed."""
    shutil.rmtree(out, ignore_errors=True)
    command = [os.environ.get("HONE_BIN", str(ROOT / "build/bin/hone")), verb, "--model", model, "--dataset", data, "--torch_dtype", "bfloat16", "--max_length", case.length,
               "--truncation_strategy", "right", "--per_device_train_batch_size", case.rows, "--gradient_accumulation_steps", 1, "--max_steps", steps,
               "--logging_steps", 1, "--save_strategy", "no", "--output_dir", out, "--add_version", "false", "--dataset_num_proc", 8, "--seed", 1, *case.options, *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    log = out / "logging.jsonl"
    if done.returncode or not log.exists():
        print(f"hone failed\n{done.stdout[-1500:]}\n{done.stderr[-2500:]}", flush=True)
        return None
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [line for line in lines if "loss" in line and "train_speed(s/it)" in line]
    ends = {int(line["global_step/max_steps"].split("/")[0]): line for line in lines}
    ends = {step: step * line["train_speed(s/it)"] for step, line in ends.items()}
    # A line is written once the next step's passes are launched, which on a long step waits for most of it. The last line has no next step.
    first, last = (max(4, steps // 3), steps - 1) if steps > 5 else (1, steps - 1)
    per_step = (ends[last] - ends[first]) / (last - first)
    return {"tokens_per_second": case.rows * case.length / per_step, "step_seconds": per_step, "gib": lines[-1]["memory(GiB)"], "ends": list(ends.values()),
            "loss": [line["loss"] for line in lines][:3] + [lines[-1]["loss"]], "warnings": [line for line in done.stderr.splitlines() if "captur" in line]}


def profile(case, work, more):
    """Milliseconds by kernel of one step, the longest first."""
    out = work / "trace"
    ours = hone(case, work, 12, [*more, "--enable_torch_profiler", "true", "--profiler_wait_steps", 8, "--profiler_warmup_steps", 1, "--profiler_active_steps", 1,
                                 "--profiler_record_shapes", "false", "--profiler_profile_memory", "false", "--profiler_with_stack", "false", "--profiler_output_dir", out])
    if not ours:
        return None
    events = json.loads(next(out.rglob("*.json")).read_text())["traceEvents"]
    shutil.rmtree(out)
    kernels = collections.defaultdict(lambda: [0.0, 0])
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            kernels[event["name"][:160]][0] += event["dur"] / 1e3
            kernels[event["name"][:160]][1] += 1
    return {name: value for name, value in sorted(kernels.items(), key=lambda pair: -pair[1][0])}


PEER = r"""
import json, sys, time, torch, transformers
s = json.loads(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_pretrained(s["model"], dtype=torch.bfloat16, attn_implementation="sdpa").cuda()
model.config.use_cache = False
if s["again"]: model.gradient_checkpointing_enable()
if s["lora"]:
    if s["again"]: model.enable_input_require_grads()
    import peft
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear"))
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
tokens = torch.randint(1000, (s["rows"], s["length"]), device="cuda")
for step in range(9):
    if step == 4:
        torch.cuda.synchronize(); began = time.perf_counter()
    with torch.autocast("cuda", torch.bfloat16): loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step(); optimizer.zero_grad(set_to_none=True)
torch.cuda.synchronize()
print(json.dumps({"tokens_per_second": tokens.numel() * 5 / (time.perf_counter() - began), "gib": torch.cuda.max_memory_allocated() / 2**30}))
"""


def peer(case, work):
    settings = {"model": str(work / case.shape), "rows": case.rows, "length": case.length, "again": case.options[-2:] == AGAIN, "lora": "lora" in case.options}
    done = subprocess.run([sys.executable, "-c", PEER, json.dumps(settings)], capture_output=True, text=True)
    if done.returncode:
        print(f"the peers failed: {done.stderr.splitlines()[-1] if done.stderr else ''}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def card():
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return "no nvidia-smi"


def number(value, form):
    return "-" if value is None else format(value, form)


def measure(name, case, base, a):
    ours = hone(case, base, max(3, int(a.steps * case.steps)), a.options.split())
    if not ours:
        return None
    theirs = {"tokens_per_second": case.peers, "gib": case.gib}
    if a.peers and (case.peers or a.growth or case.hybrid):
        theirs = peer(case, base) or theirs
    rate, peers, before = ours["tokens_per_second"], theirs["tokens_per_second"], BEFORE.get(name, (None, None))[0]
    print(f"{name:26} {rate:11.0f} {ours['gib']:6.1f} {number(peers, '8.0f'):>8} {number(theirs['gib'], '6.1f'):>6} {number(peers and rate / peers, '6.2f'):>6} "
          f"{number(before, '8.0f'):>8} {number(before and rate / before, '5.2f'):>5}  loss {ours['loss']} {' '.join(ours['warnings'])}", flush=True)
    found = {"hone": ours, "peers": theirs}
    if name in a.profile.split(",") and (kernels := profile(case, base, a.options.split())):
        found["kernels"] = kernels
        print(f"  {sum(ms for ms, _ in kernels.values()):.1f} ms in {sum(count for _, count in kernels.values())} kernels")
        for kernel, (ms, count) in list(kernels.items())[:a.kernels]:
            print(f"  {ms:9.2f} ms {count:5}  {kernel[:130]}", flush=True)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", default="")
    p.add_argument("--growth", action="store_true", help="tokens a step, rank, vocabulary and length instead of the table's cases")
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--peers", action="store_true")
    p.add_argument("--options", default="", help="more options for hone")
    p.add_argument("--profile", default="", help="cases whose kernels are listed")
    p.add_argument("--kernels", type=int, default=25)
    p.add_argument("--work", default="", help="models and outputs; none: a folder in memory that is removed")
    p.add_argument("--make", default="", help="only make the models of these shapes in --work")
    p.add_argument("--commit", default="", help="what was built; none asks git")
    p.add_argument("--out", default="", help="none: bench/results/gpu-<commit>.json")
    a = p.parse_args()
    commit = a.commit or subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    base = pathlib.Path(a.work) if a.work else pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    for shape in a.make.split(",") if a.make else []:
        make_model(shape, base / shape)
    if a.make:
        return
    cases = GROWTH if a.growth else CASES
    results = {"commit": commit, "card": card(), "peers": "this machine" if a.peers else "stored: transformers 5.17 + peft on an H200", "cases": {}}
    print(f"hone {commit} on {results['card']}; peers: {results['peers']}")
    print(f"{'case':26} {'hone tok/s':>11} {'GiB':>6} {'peers':>8} {'GiB':>6} {'ratio':>6} {'before':>8} {'gain':>5}", flush=True)
    out = pathlib.Path(a.out or ROOT / "bench/results" / f"gpu-{'growth-' * a.growth}{re.sub('[^0-9a-z]', '', commit)}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        for name in a.cases.split(",") if a.cases else cases:
            if found := measure(name, cases[name], base, a):
                results["cases"][name] = found
                out.write_text(json.dumps(results, indent=1) + "\n")  # what there is stays if time runs out
    finally:
        if not a.work:
            shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
