#!/usr/bin/env python3
"""GRPO steps with a rollout server: sequential, and with the next rollout generated during training.

    bench/grpo_async.py [--size tiny] [--steps 8] [--batch 16] [--generations 8] [--answer 64] [--threads 1]

Qwen2 with Qwen's vocabulary and random weights, float32, LoRA r8 on all linears, beta 0. The server and the trainer have --threads cores each; the in-process engine has the cores of both. Prints
seconds per step after the second.
"""
import argparse
import os
import re
import subprocess
import tempfile
import threading

from trl_peer import ROOT, make_model, run_hone_steps, write_prompts


class Server:
    def __init__(self, model, threads):
        command = [ROOT / "build/bin/hone", "rollout", "--model", model, "--torch_dtype", "float32", "--port", "0", "--verbose", "false"]
        self.process = subprocess.Popen([str(argument) for argument in command], stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads), "NO_COLOR": "1"})
        self.url = next(found[1] for line in self.process.stderr if (found := re.search(r"is served at (http://\S+)", line)))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def seconds(options, model, data, folder, threads, *more):
    os.environ["OMP_NUM_THREADS"] = str(threads)
    command = [ROOT / "build/bin/hone", "rlhf", "--rlhf_type", "grpo", "--model", model, "--dataset", data, "--output_dir", folder, "--add_version", "false", "--torch_dtype", "float32", "--reward_funcs", "repetition", "--beta", "0",
             "--lora_rank", "8", "--per_device_train_batch_size", options.batch, "--num_generations", options.generations, "--max_completion_length", options.answer, "--max_steps", options.steps, "--logging_steps", "1",
             "--save_strategy", "no", "--gradient_checkpointing", "false", "--learning_rate", "1e-4", "--plot_loss", "false", *more]
    steps = run_hone_steps(command, folder)
    whole = [line["train_speed(s/it)"] * (i + 1) for i, line in enumerate(steps)]
    return (whole[-1] - whole[1]) / (len(steps) - 2), steps[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", help="as tools/make_model.py knows it")
    for name, default in (("steps", 8), ("batch", 16), ("generations", 8), ("answer", 64), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, data = f"{folder}/model", f"{folder}/prompts.jsonl"
        make_model(options.size, model)
        write_prompts(data, 64, 40)
        inside, _ = seconds(options, model, data, f"{folder}/inside", 2 * options.threads)
        print(f"inside        {inside:7.3f} s a step, both shares of the cores")
        server = Server(model, options.threads)
        try:
            served = ["--vllm_mode", "server", "--vllm_server_base_url", server.url]
            plain, step = seconds(options, model, data, f"{folder}/plain", options.threads, *served)
            print(f"server        {plain:7.3f} s a step, {step['rollout/push_seconds']:.3f} s of it sending {step['rollout/push_bytes'] / 1e6:.1f} MB")
            ahead, step = seconds(options, model, data, f"{folder}/ahead", options.threads, *served, "--async_generate", "true")
            print(f"asynchronous  {ahead:7.3f} s a step, {step['rollout/staleness']:.0f} update of lag")
            print(f"ratio         {plain / ahead:7.2f}")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
