#!/usr/bin/env python3
"""GRPO steps (rollout, rewards and update): `hone rlhf` and trl's GRPOTrainer on the same prompts, model and machine.

    bench/grpo.py [--size tiny] [--steps 6] [--batch 16] [--generations 8] [--answer 64]

Qwen2 with Qwen's vocabulary and random weights, float32, LoRA r8 on all linears, beta 0.04: an untrained model never ends early, so completions have the full length on both
sides. Prints seconds per step after the first, each side in a separate process.
"""
import argparse
import json
import tempfile

from trl_peer import ROOT, make_model, print_ratio, run_child, run_hone_steps, step_clock, write_prompts


def run_hone(options, model, data, folder):
    command = [str(ROOT / "build/bin/hone"), "rlhf", "--rlhf_type", "grpo", "--model", model, "--dataset", data, "--output_dir", f"{folder}/hone", "--add_version", "false", "--torch_dtype", "float32", "--reward_funcs", "repetition",
             "--lora_rank", "8", "--per_device_train_batch_size", str(options.batch), "--num_generations", str(options.generations), "--max_completion_length", str(options.answer), "--temperature", "1.0",
             "--max_steps", str(options.steps), "--logging_steps", "1", "--save_strategy", "no", "--gradient_checkpointing", "false", "--learning_rate", "1e-4", "--plot_loss", "false"]
    steps = run_hone_steps(command, f"{folder}/hone")
    whole = [line["train_speed(s/it)"] * (i + 1) for i, line in enumerate(steps)]
    return (whole[-1] - whole[0]) / (len(steps) - 1), steps[-1]["completions/mean_length"]


def trl_child(options, model, data):
    """In a separate process: the times of all steps, as one line of JSON."""
    import torch
    import trl
    from datasets import load_dataset
    from peft import LoraConfig

    times, clock = step_clock()

    def repetition(completions, **_):
        texts = [completion[0]["content"].lower().split() for completion in completions]
        return [-(1 - len(set(zip(t, t[1:], t[2:]))) / max(1, len(t) - 2)) for t in texts]

    args = trl.GRPOConfig(output_dir=f"{data}.trl", per_device_train_batch_size=options.batch, num_generations=options.generations, max_completion_length=options.answer, temperature=1.0, beta=0.04, loss_type="grpo",
                          max_steps=options.steps, learning_rate=1e-4, logging_steps=1, report_to=[], use_cpu=True, bf16=False, save_strategy="no", gradient_checkpointing=False, disable_tqdm=True,
                          model_init_kwargs={"dtype": torch.float32})
    adapter = LoraConfig(r=8, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    dataset = load_dataset("json", data_files=data, split="train").remove_columns("messages")
    trainer = trl.GRPOTrainer(model=model, reward_funcs=repetition, args=args, train_dataset=dataset, peft_config=adapter, callbacks=[clock])
    trainer.train()
    lengths = [line["completions/mean_length"] for line in trainer.state.log_history if "completions/mean_length" in line]
    print("RESULT " + json.dumps({"times": times, "length": lengths[-1]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", help="as tools/make_model.py knows it")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--answer", type=int, default=64)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return trl_child(options, *options.child)
    with tempfile.TemporaryDirectory() as folder:
        model, data = f"{folder}/model", f"{folder}/prompts.jsonl"
        make_model(options.size, model)
        write_prompts(data, options.steps * options.batch, longest=60)
        ours, length = run_hone(options, model, data, folder)
        print(f"hone  {ours:7.3f} s a step of {options.batch} answers of {length:.0f} tokens")
        if result := run_child(__file__, model, data):
            print_ratio(ours, result["times"], f"{options.batch} answers of {result['length']:.0f} tokens")


if __name__ == "__main__":
    main()
