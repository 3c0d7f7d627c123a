#!/usr/bin/env python3
"""Random layouts against one process: each case trains on one layout, then continues from one of its checkpoints on another.

    tests/parallel/sweep.py --seed 1 --cases 40 [--only 17] [--work /tmp/sweep]

Losses, gradient norms and final weights of both runs must be those of one process on the same global batches. Prints the cases that
differ and how, and ends with their number. The tests in this folder hold a small, fixed part of what it walks through.
"""
import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from parallel_testing import GLOBAL_BATCH, Run, command, environment, hone_binary, sentence, small_tokenizer, weights
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

STRATEGIES = {
    "ddp": {},
    "ddp, small buckets": dict(ddp_bucket_cap_mb=1),
    "zero1": dict(deepspeed="zero1"),
    "zero2": dict(deepspeed="zero2"),
    "zero3": dict(deepspeed="zero3"),
    "zero2_offload": dict(deepspeed="zero2_offload"),
    "zero3_offload": dict(deepspeed="zero3_offload"),
    "full_shard": dict(fsdp="full_shard auto_wrap"),
    "shard_grad_op": dict(fsdp="shard_grad_op auto_wrap"),
    "no_shard": dict(fsdp="no_shard"),
    "offload of activations": dict(fsdp="full_shard", fsdp_config='{"activation_checkpointing": true, "activation_cpu_offload": true}'),
    "without prefetch": dict(fsdp="full_shard", fsdp_config='{"backward_prefetch": "no_prefetch"}'),
    "hybrid zero2": dict(deepspeed="zero2", parallelism_config='{"dp_replicate_size": 2, "dp_shard_size": 2}'),
    "hybrid full_shard": dict(fsdp="full_shard", parallelism_config='{"dp_replicate_size": 2, "dp_shard_size": 2}'),
}
TUNERS = {
    "lora": dict(tuner_type="lora"),
    "dora": dict(tuner_type="lora", use_dora="true"),
    "lora+head": dict(tuner_type="lora", modules_to_save="lm_head"),
    "full": dict(tuner_type="full"),
    "freeze": dict(tuner_type="full", freeze_parameters_ratio="0.5"),
}
# What of a run does not depend on its layout: a reference is run once for each.
TASKS = dict(tuner=["lora", "lora", "dora", "lora+head", "full", "full", "full", "freeze"], optim=["adamw_torch", "adamw_torch", "sgd"], gradient_accumulation_steps=[1, 3], torch_dtype=["float32", "float32", "float32", "bfloat16", "float16"],
             rows=[28, 36, 44], shape=["tied", "untied", "normed"], answers=["short", "missing"], decay=[0, 0.1])
TOLERANCE = {"float32": dict(loss=1e-5, norm=1e-3, weight=1e-5), **dict.fromkeys(("bfloat16", "float16"), dict(loss=2e-2, norm=6e-2, weight=3e-2))}


def make_model(folder, shape, tokenizer):
    common = dict(vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                  max_position_embeddings=512, tie_word_embeddings=shape != "untied", eos_token_id=tokenizer.eos_token_id)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(head_dim=16, **common)) if shape == "normed" else Qwen2ForCausalLM(Qwen2Config(**common))
    model.float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_rows(path, count, answers):
    """With answers that are missing: questions so long that what is cut off at the end is all there was to learn."""
    rng = random.Random(count)
    with open(path, "w") as file:
        for row in range(count):
            long = answers == "missing" and row % 3 == 0
            question, answer = sentence(rng, 60 if long else rng.randint(2, 9)), sentence(rng, rng.randint(2, 16))
            file.write(json.dumps({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}) + "\n")


class Sweep:
    def __init__(self, work):
        self.work, self.references, self.count = pathlib.Path(work), {}, 0
        tokenizer = small_tokenizer()
        for shape in TASKS["shape"]:
            make_model(self.work / shape, shape, tokenizer)
        for rows in TASKS["rows"]:
            for answers in TASKS["answers"]:
                make_rows(self.work / f"{rows}-{answers}.jsonl", rows, answers)

    def run(self, task, world, strategy, **options):
        self.count += 1
        folder = self.work / f"run-{self.count}"
        settings = dict(max_steps=-1, num_train_epochs=2, per_device_train_batch_size=GLOBAL_BATCH // world, save_steps=100, peer_timeout=30, max_length=48,
                        truncation_strategy="right", adam_epsilon="1e-5", eval_strategy="epoch", val_dataset=self.work / "28-short.jsonl", per_device_eval_batch_size=4)
        settings.update({key: value for key, value in task.items() if key not in ("tuner", "rows", "shape", "answers", "decay")}, weight_decay=task["decay"], **TUNERS[task["tuner"]], **strategy)
        settings.update(options)
        line = [str(hone_binary()), "sft", *command(self.work / task["shape"], self.work / f"{task['rows']}-{task['answers']}.jsonl", folder, **settings)]
        launched = dict(RANK=0, WORLD_SIZE=1, LOCAL_RANK=0) if world == 1 and strategy else {}  # a launched world of one is spread too
        return Run(subprocess.run(line, capture_output=True, text=True, env=environment(world, **launched), timeout=600), folder)

    def reference(self, task):
        key = tuple(sorted(task.items()))
        if key not in self.references:
            self.references[key] = self.run(task, 1, {})
            if self.references[key].code:
                sys.exit(f"one process: {task}\n{self.references[key].err}")
        return self.references[key]


def values(run, name):
    return [event[name] for event in run.log() if name in event and "log_history" not in event]


def worst(ours, theirs, relative=False):
    if len(ours) != len(theirs):
        return math.inf
    return max((abs(a - b) / (max(abs(b), 1e-3) if relative else 1) for a, b in zip(ours, theirs)), default=0.0)


def differences(run, whole, tolerance, skipped=0):
    """What of `run`, which began after `skipped` steps, is not as in `whole`."""
    if run.code:
        return [f"exit code {run.code}: {run.err[-1500:]}"]
    ours, theirs = weights(run), weights(whole)
    evaluated = values(run, "eval_loss")
    found = {"loss": worst(values(run, "loss"), values(whole, "loss")[skipped:]),
             "norm": worst(values(run, "grad_norm"), values(whole, "grad_norm")[skipped:], relative=True),
             "eval_loss": worst(evaluated, values(whole, "eval_loss")[-len(evaluated):]),
             "weight": max((ours[name].float() - theirs[name].float()).abs().max().item() for name in theirs) if ours.keys() == theirs.keys() else math.inf}
    limits = {**tolerance, "eval_loss": tolerance["loss"]}
    return [f"{name} differs by {value:.2g}" for name, value in found.items() if not value <= limits[name]]


def draw_layout(rng):
    world = rng.choice([1, 2, 2, 4, 4])
    strategy = rng.choice([name for name in STRATEGIES if world == 4 or "hybrid" not in name])
    options = dict(STRATEGIES[strategy], gradient_checkpointing=rng.choice(["true", "false"]))
    if world > 1 and "hybrid" not in strategy and rng.random() < 0.25:
        shared = rng.choice([2, world])
        options.update(sequence_parallel_size=shared, per_device_train_batch_size=GLOBAL_BATCH * shared // world)
    return world, strategy, options


def try_case(sweep, rng):
    task = {key: rng.choice(choices) for key, choices in TASKS.items()}
    whole, tolerance = sweep.reference(task), TOLERANCE[task["torch_dtype"]]
    steps = len(values(whole, "loss"))
    world, name, options = draw_layout(rng)
    save = rng.randint(1, steps - 1)
    text = f"{' '.join(map(str, task.values()))}: {name} on {world}{' sp ' + str(options['sequence_parallel_size']) if 'sequence_parallel_size' in options else ''}"
    run = sweep.run(task, world, options, save_steps=save)
    problems = differences(run, whole, tolerance)
    if run.code == 0:
        after, other, more = draw_layout(rng)
        text += f", from step {save} {other} on {after}{' sp ' + str(more['sequence_parallel_size']) if 'sequence_parallel_size' in more else ''}"
        resumed = sweep.run(task, after, more, resume_from_checkpoint=run.folder / f"checkpoint-{save}")
        problems += [f"resumed: {problem}" for problem in differences(resumed, whole, tolerance, save)]
    return text, problems


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--cases", type=int, default=40)
    p.add_argument("--only", type=int)
    p.add_argument("--work")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if a.work:
            pathlib.Path(a.work).mkdir(parents=True, exist_ok=True)
        sweep, failed = Sweep(a.work or folder), 0
        for case in [a.only] if a.only is not None else range(a.first, a.first + a.cases):
            text, problems = try_case(sweep, random.Random(a.seed * 100003 + case))
            failed += bool(problems)
            print(f"{case:4} {'FAIL' if problems else 'ok  '} {text}{''.join(chr(10) + '       ' + problem for problem in problems)}", flush=True)
    sys.exit(f"{failed} of the cases differ" if failed else 0)


if __name__ == "__main__":
    main()
