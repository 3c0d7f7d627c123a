#!/usr/bin/env python3
"""GRPO steps on an NVIDIA GPU (generation and update): `hone rlhf` and the same step in transformers + peft with `generate`.

    bench/grpo_gpu.py [--prompts 64] [--generations 8] [--answer 256] [--steps 5] [--work FOLDER] [--only hone|peer]

Qwen2.5-0.5B's shape with random weights, bf16, LoRA r8 on all linears, beta 0.04: an untrained model never ends early, so completions have the full length on both sides.
The peer does what trl's GRPOTrainer does without vLLM, and nothing else: `generate` with sampling for all completions at once, log-probabilities of the
reference with the adapter off, then forward and backward over micro-batches of the same completions, clipping and AdamW. Rewards are random on its side.
Prints seconds per step after the first, each side in a separate process.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import gpu
from trl_peer import ROOT, run_hone_steps

PEER = r"""
import json, sys, time, torch, transformers, peft
s = json.loads(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_pretrained(s["model"], dtype=torch.bfloat16, attn_implementation="sdpa").cuda()
model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear"))
for p in model.parameters():
    if p.requires_grad: p.data = p.data.float()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
rows, answer, length = s["prompts"] * s["generations"], s["answer"], s["length"]

def logps(tokens):
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(input_ids=tokens, logits_to_keep=answer + 1, use_cache=False).logits[:, :-1]
    return torch.stack([torch.log_softmax(row, -1).gather(-1, own.unsqueeze(-1)).squeeze(-1) for row, own in zip(logits.float(), tokens[:, -answer:])])

times, parts = [], []
for step in range(s["steps"]):
    torch.cuda.synchronize(); began = time.perf_counter()
    prompts = torch.randint(1000, (s["prompts"], length), device="cuda").repeat_interleave(s["generations"], 0)
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        tokens = model.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=answer, min_new_tokens=answer, do_sample=True, temperature=1.0, top_k=0, pad_token_id=0)
    torch.cuda.synchronize(); written = time.perf_counter()
    model.train()
    advantages = torch.randn(rows, device="cuda")
    batches = list(range(0, rows, s["micro"]))
    with torch.no_grad(), model.disable_adapter():
        reference = [logps(tokens[i:i + s["micro"]]) for i in batches]
    for i, ref in zip(batches, reference):
        own = logps(tokens[i:i + s["micro"]])
        gap = ref - own
        loss = (-(own - own.detach()).exp() * advantages[i:i + s["micro"], None] + 0.04 * (gap.exp() - gap - 1)).mean() / len(batches)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step(); optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize(); times.append(time.perf_counter() - began); parts.append(written - began)
print(json.dumps({"times": times, "writing": parts, "gib": torch.cuda.max_memory_allocated() / 2**30}))
"""


def write_prompts(path, count):
    rng = random.Random(0)
    with open(path, "w") as file:
        for _ in range(count):
            words = " ".join(f"word{rng.randrange(97)}" for _ in range(rng.randint(8, 40)))
            file.write(json.dumps({"messages": [{"role": "user", "content": words}]}) + "\n")


def run_hone(o, model, folder):
    data, out = folder / "prompts.jsonl", folder / "out"
    write_prompts(data, o.prompts * o.steps)
    command = [os.environ.get("HONE_BIN", ROOT / "build/bin/hone"), "rlhf", "--rlhf_type", "grpo", "--model", model, "--dataset", data, "--output_dir", out, "--add_version", "false", "--torch_dtype", "bfloat16",
             "--reward_funcs", "repetition", "--lora_rank", 8, "--lora_dropout", 0, "--beta", 0.04, "--per_device_train_batch_size", o.micro, "--gradient_accumulation_steps", o.prompts * o.generations // o.micro, "--num_generations", o.generations,
             "--vllm_max_num_seqs", o.prompts * o.generations, "--max_completion_length", o.answer, "--temperature", 1.0, "--top_k", 0, "--top_p", 1.0, "--max_steps", o.steps, "--logging_steps", 1, "--save_strategy", "no", "--gradient_checkpointing", "false", "--learning_rate", "1e-4",
             "--plot_loss", "false", *o.options.split()]
    steps = run_hone_steps(command, out)
    whole = [line["train_speed(s/it)"] * (i + 1) for i, line in enumerate(steps)]
    return {"step": (whole[-1] - whole[0]) / (len(steps) - 1), "length": steps[-1]["completions/mean_length"], "gib": steps[-1].get("memory(GiB)"),
            "times": [b - a for a, b in zip([0] + whole, whole)], "last": steps[-1]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", default="qwen2-0.5b")
    p.add_argument("--prompts", type=int, default=64)
    p.add_argument("--generations", type=int, default=8)
    p.add_argument("--answer", type=int, default=256)
    p.add_argument("--micro", type=int, default=64, help="answers that one backward pass sees")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--work", default="", help="folder with or for the model; none: one that is removed")
    p.add_argument("--only", default="")
    p.add_argument("--options", default="", help="more options for hone")
    o = p.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        folder = pathlib.Path(folder)
        model = pathlib.Path(o.work or folder) / o.shape
        if not model.exists():
            gpu.make_model(o.shape, model)
        ours = theirs = None
        if o.only != "peer":
            ours = run_hone(o, model, folder)
            print(f"hone  {ours['step']:7.3f} s a step of {o.prompts} x {o.generations} answers of {ours['length']:.0f} tokens; {json.dumps(ours)}", flush=True)
        if o.only != "hone":
            settings = {"model": str(model), "prompts": o.prompts, "generations": o.generations, "answer": o.answer, "micro": o.micro, "length": 60, "steps": min(o.steps, 3)}
            done = subprocess.run([sys.executable, "-c", PEER, json.dumps(settings)], capture_output=True, text=True)
            if done.returncode:
                print("peer: not measured\n" + done.stderr[-1500:])
            else:
                theirs = json.loads(done.stdout.splitlines()[-1])
                print(f"peer  {min(theirs['times'][1:]):7.3f} s a step, of which writing {min(theirs['writing'][1:]):.3f}; {json.dumps(theirs)}", flush=True)
        if ours and theirs:
            print(f"ratio {min(theirs['times'][1:]) / ours['step']:7.2f}")


if __name__ == "__main__":
    main()
