#!/usr/bin/env python3
"""PPO steps (rollout, rewards, experience and updates): `hone rlhf --rlhf_type ppo` and trl's PPOTrainer on the same prompts, models and machine.

    bench/ppo.py [--size tiny] [--rollouts 4] [--batch 16] [--answer 64] [--epochs 4]
    bench/ppo.py --size 0.5b --rollouts 3 --batch 2 --answer 32 --epochs 2 --optim sgd

Qwen2 with Qwen's vocabulary and random weights, float32, full training of policy and value model, a reward model of the same shape: an untrained model never ends early, so completions have the full length on
both sides, which take the prompts in the order of the file. A step is a rollout with all of its updates. Prints seconds and processor seconds per step after the first (those of all threads, which a busy machine
hardly affects), for hone the share of each phase, and the matrix products that a step needs. trl 1.12, the last version with PPO, is in .venv/trl-ppo.
"""
import argparse
import json
import os
import tempfile
import time
from statistics import mean

from trl_peer import ROOT, make_model, print_ratio, run_child, run_hone_steps, write_prompts


def make_reward_model(model, folder):
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(1)
    config, tokenizer = AutoConfig.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    config.num_labels, config.pad_token_id = 1, tokenizer.pad_token_id
    AutoModelForSequenceClassification.from_config(config).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def products(model, data, options):
    """Of a step after the first, on average: the tokens of its sequences, the GFLOP of the products that no PPO can leave out, by phase, and the GB of weights that decoding reads.

    The last block is computed for the rows that are read, the head for completions, the first pass over a batch once; attention's own products (below 1 percent) are left out."""
    from transformers import AutoConfig, AutoTokenizer

    config, tokenizer = AutoConfig.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    lengths = [len(tokenizer.apply_chat_template(json.loads(line)["messages"], add_generation_prompt=True, return_dict=False)) for line in open(data)]
    width, layers, queries = config.hidden_size, config.num_hidden_layers, config.hidden_size
    keys = 2 * config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    block, head = 2 * width * (2 * queries + keys + 3 * config.intermediate_size), 2 * width * config.vocab_size
    rollouts = [sum(lengths[i:i + options.batch]) for i in range(options.batch, len(lengths), options.batch)]
    prompt, answers = sum(rollouts) / len(rollouts), options.batch * options.answer

    def forward(tokens, read):
        return ((layers - 1) * block + 2 * width * keys) * tokens + (block - 2 * width * keys) * read

    whole = forward(prompt + answers, answers + options.batch)
    phases = {"prefill": forward(prompt, options.batch) + head * options.batch, "reward": forward(prompt + answers, options.batch), "experience": 3 * whole + 2 * head * answers,
              "training": options.epochs * 2 * (2 * whole + head * answers) + (options.epochs - 1) * (2 * whole + head * answers)}
    weights = 4e-9 * (layers * block / 2 + head / 2)
    return prompt + answers, {name: flop / 1e9 for name, flop in phases.items()}, weights * (options.answer - 1)


def run_hone(options, model, reward_model, data, folder):
    command = [ROOT / "build/bin/hone", "rlhf", "--rlhf_type", "ppo", "--model", model, "--reward_model", reward_model, "--dataset", data, "--output_dir", f"{folder}/hone", "--add_version", "false", "--torch_dtype", "float32",
             "--tuner_type", "full", "--per_device_train_batch_size", options.batch, "--gradient_accumulation_steps", 1, "--num_ppo_epochs", options.epochs, "--max_completion_length", options.answer, "--temperature", "0.7",
             "--max_steps", options.rollouts * options.epochs, "--logging_steps", 1, "--save_strategy", "no", "--gradient_checkpointing", "false", "--learning_rate", "3e-6", "--weight_decay", 0, "--plot_loss", "false", "--split_dataset_ratio", 0, "--optim", options.optim,
             "--dataset_shuffle", "false", "--train_dataloader_shuffle", "false"]
    steps = run_hone_steps(command, f"{folder}/hone")
    ends = [line["train_speed(s/it)"] * (i + 1) for i, line in enumerate(steps)][options.epochs - 1::options.epochs]
    used = [line["processor_seconds"] for line in steps][options.epochs - 1::options.epochs]
    seconds, processor = ([end - begin for begin, end in zip(times, times[1:])] for times in (ends, used))
    print("hone, share of each step:   rollout   reward   experience   training")
    for number, (whole, step) in enumerate(zip(seconds, steps[options.epochs::options.epochs]), 2):
        parts = [step[f"time/{name}"] for name in ("rollout", "reward", "experience")]
        shares = [part / whole for part in (*parts, whole - sum(parts))]
        print(f"step {number:2}, {whole:7.3f} s:         " + "   ".join(f"{share:8.0%}" for share in shares))
    return seconds, processor, steps[0]["completions/mean_length"]


def trl_child(options, model, reward_model, data):
    """In a separate process: seconds and processor seconds of all steps, as one line of JSON."""
    import torch
    from accelerate.data_loader import SeedableRandomSampler
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    load = dict(dtype=torch.float32)
    policy, reference = (AutoModelForCausalLM.from_pretrained(model, **load) for _ in range(2))
    value, reward = (AutoModelForSequenceClassification.from_pretrained(reward_model, num_labels=1, **load) for _ in range(2))
    prompts = [tokenizer.apply_chat_template(json.loads(line)["messages"], add_generation_prompt=True, return_dict=False) for line in open(data)]
    rows = Dataset.from_dict({"input_ids": prompts})
    args = PPOConfig(output_dir=f"{data}.trl", per_device_train_batch_size=options.batch, gradient_accumulation_steps=1, num_ppo_epochs=options.epochs, total_episodes=options.rollouts * options.batch, response_length=options.answer,
                     temperature=0.7, stop_token="eos", num_sample_generations=0, learning_rate=3e-6, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no", disable_tqdm=True, optim=options.optim)
    trainer = PPOTrainer(args=args, processing_class=tokenizer, model=policy, ref_model=reference, reward_model=reward, value_model=value, train_dataset=rows, eval_dataset=rows)
    for sampler in (torch.utils.data.RandomSampler, SeedableRandomSampler):  # trl's loader always shuffles
        sampler.__iter__ = lambda self: iter(range(len(self.data_source)))
    times, used = [time.perf_counter()], [time.process_time()]

    def log(*_):
        times.append(time.perf_counter())
        used.append(time.process_time())

    trainer.log = log
    trainer.train()
    print("RESULT " + json.dumps([[end - begin for begin, end in zip(clock, clock[1:])] for clock in (times, used)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", help="as tools/make_model.py knows it")
    parser.add_argument("--rollouts", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--answer", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--optim", default="adamw_torch", help="with sgd, 0.5B fits into 24 GiB on both sides")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return trl_child(options, *options.child)
    with tempfile.TemporaryDirectory() as folder:
        model, reward_model, data = f"{folder}/model", f"{folder}/reward_model", f"{folder}/prompts.jsonl"
        make_model(options.size, model)
        make_reward_model(model, reward_model)
        write_prompts(data, options.rollouts * options.batch, longest=40)
        seconds, processor, length = run_hone(options, model, reward_model, data, folder)
        ours, our_processor = mean(seconds), mean(processor)
        print(f"hone  {ours:7.3f} s and {our_processor:.2f} processor seconds a step of {options.batch} completions of {length:.0f} tokens, {options.epochs} passes (lowest {min(processor):.2f})")
        tokens, phases, read = products(model, data, options)
        print(f"products of a step of {tokens:.0f} tokens, GFLOP: {', '.join(f'{name} {gflop:.0f}' for name, gflop in phases.items())}; {sum(phases.values()):.0f} in all, and decoding reads {read:.1f} GB of weights")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / ".venv/trl-ppo"), "TRL_EXPERIMENTAL_SILENCE": "1"}
        if found := run_child(__file__, model, reward_model, data, environment=environment):
            times, used = found
            print_ratio(ours, times, f"{options.batch} completions of {options.answer} tokens, {options.epochs} passes")
            print(f"trl   {mean(used[1:]):7.2f} processor seconds a step (lowest {min(used[1:]):.2f}), ratio {mean(used[1:]) / our_processor:.2f}")


if __name__ == "__main__":
    main()
