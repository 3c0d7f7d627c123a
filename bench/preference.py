#!/usr/bin/env python3
"""DPO steps: `hone rlhf` and trl's DPOTrainer on the same pairs, model and machine.

    bench/preference.py [--size 0.5b] [--steps 6] [--batch 4] [--tuner full]

Pairs of uneven lengths, Qwen2 with Qwen's vocabulary and random weights, float32, LoRA r8 on all linears or full tuning. Prints tokens/s of all
steps (tokens of rows, without padding) and peak resident memory, each side in a separate process.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

from trl_peer import ROOT, make_model, step_clock


def rows(path, count):
    rng = random.Random(0)
    words = [line.split()[0] for line in (ROOT / "README.md").read_text().splitlines() if line.split()]
    text = lambda low, high: " ".join(rng.choices(words, k=rng.randint(low, high)))  # noqa: E731
    with open(path, "w") as file:
        for _ in range(count):
            file.write(json.dumps({"prompt": text(8, 60), "chosen": text(10, 100), "rejected": text(10, 100)}) + "\n")


def run_hone(options, model, data, folder):
    words = [str(ROOT / "build/bin/hone"), "rlhf", "--rlhf_type", "dpo", "--model", model, "--dataset", data, "--output_dir", f"{folder}/hone", "--add_version", "false", "--torch_dtype", "float32",
             "--tuner_type", options.tuner, "--lora_rank", "8", "--per_device_train_batch_size", str(options.batch), "--gradient_accumulation_steps", "1", "--max_steps", str(options.steps),
             "--logging_steps", "1", "--save_strategy", "no", "--gradient_checkpointing", "false", "--learning_rate", "1e-4", "--train_dataloader_shuffle", "false", "--dataset_shuffle", "false",
             "--max_length", "1024", "--include_tokens_per_second", "true", "--plot_loss", "false"]
    with open(f"{folder}/hone.log", "w+") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)  # of this one alone
        if status:
            sys.exit(pathlib.Path(log.name).read_text()[-2000:])
    lines = [json.loads(line) for line in pathlib.Path(f"{folder}/hone/logging.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line and "epoch" in line]
    rate = next(line["train_tokens_per_second"] for line in lines if "train_tokens_per_second" in line)
    return rate, steps, used.ru_maxrss / 1e6


def trl_child(options, model, data):
    """In a separate process: the times of all steps and the peak, as one line of JSON."""
    import torch
    import trl
    from datasets import load_dataset
    from peft import LoraConfig

    times, clock = step_clock()

    args = trl.DPOConfig(output_dir=f"{data}.trl", per_device_train_batch_size=options.batch, max_steps=options.steps, learning_rate=1e-4, logging_steps=1, report_to=[], use_cpu=True, bf16=False,
                         train_sampling_strategy="sequential", save_strategy="no", gradient_checkpointing=False, disable_tqdm=True, max_length=1024, model_init_kwargs={"dtype": torch.float32})
    chat = lambda row: {name: [{"role": role, "content": row[name]}] for name, role in (("prompt", "user"), ("chosen", "assistant"), ("rejected", "assistant"))}  # noqa: E731
    adapter = None if options.tuner == "full" else LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = trl.DPOTrainer(model=model, args=args, train_dataset=load_dataset("json", data_files=data, split="train").map(chat), peft_config=adapter, callbacks=[clock])
    trainer.train()
    lengths = [len(row["prompt_ids"]) * 2 + len(row["chosen_ids"]) + len(row["rejected_ids"]) for row in trainer.train_dataset.select(range(options.steps * options.batch))]
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    print("RESULT " + json.dumps({"times": times, "lengths": lengths, "losses": losses, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", help="as tools/make_model.py knows it")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tuner", default="lora", choices=("lora", "full"))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return trl_child(options, *options.child)
    with tempfile.TemporaryDirectory() as folder:
        model, data = f"{folder}/model", f"{folder}/pairs.jsonl"
        make_model(options.size, model)
        rows(data, options.steps * options.batch)
        ours, steps, peak = run_hone(options, model, data, folder)
        print(f"hone  {ours:8.0f} tokens/s, {peak:5.2f} GB, losses {steps[0]['loss']:.4f} … {steps[-1]['loss']:.4f}")
        child = subprocess.run([sys.executable, __file__, "--steps", str(options.steps), "--batch", str(options.batch), "--tuner", options.tuner, "--child", model, data], capture_output=True, text=True)
        found = [json.loads(line[7:]) for line in child.stdout.splitlines() if line.startswith("RESULT ")]
        if not found:
            sys.exit(f"trl   no result: {child.stderr[-1500:]}")
        theirs = sum(found[0]["lengths"]) / sum(found[0]["times"])
        print(f"trl   {theirs:8.0f} tokens/s, {found[0]['peak']:5.2f} GB, losses {found[0]['losses'][0]:.4f} … {found[0]['losses'][-1]:.4f}")
        print(f"ratio {ours / theirs:8.2f}           {peak / found[0]['peak']:5.2f}")


if __name__ == "__main__":
    main()
