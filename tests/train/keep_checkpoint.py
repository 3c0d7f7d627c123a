"""Writes a checkpoint of this version for tests/train/checkpoints: `keep_checkpoint.py NAME`, once for each change of what a checkpoint holds.

A tiny model, its data, a checkpoint after two steps, and the losses of the two steps that follow it, which later versions must come to as well."""
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from train_testing import ENVIRONMENT, hone_binary, sentence, small_tokenizer

FOLDER = Path(__file__).resolve().parent / "checkpoints"
SETTINGS = dict(tuner_type="lora", lora_rank=2, target_modules="q_proj", lora_dropout=0.1, torch_dtype="float32", max_steps=4, save_steps=2, logging_steps=1, seed=7, max_length=64,
                per_device_train_batch_size=2, gradient_accumulation_steps=1, learning_rate="1e-2", split_dataset_ratio=0, use_cpu="true")


def make_model(folder):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = small_tokenizer()
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                         max_position_embeddings=128, tie_word_embeddings=True, eos_token_id=tokenizer.eos_token_id)
    Qwen2ForCausalLM(config).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(name):
    with tempfile.TemporaryDirectory() as made:
        made = Path(made)
        make_model(made / "model")
        rng = random.Random(3)
        rows = [{"messages": [{"role": "user", "content": sentence(rng, 3)}, {"role": "assistant", "content": sentence(rng, 4)}]} for _ in range(16)]
        (made / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = ["sft", "--model", "model", "--dataset", "rows.jsonl", *[str(word) for key, value in SETTINGS.items() for word in (f"--{key}", value)]]
        subprocess.run([str(hone_binary().resolve()), *words, "--output_dir", "out", "--add_version", "false"], check=True, env=ENVIRONMENT, cwd=made, stdout=subprocess.DEVNULL)
        events = [json.loads(line) for line in (made / "out/logging.jsonl").read_text().splitlines()]
        losses = [event["loss"] for event in events if "loss" in event]
        shutil.move(made / "out/checkpoint-2", made / "checkpoint-2")
        shutil.rmtree(made / "out")
        (made / "story.json").write_text(json.dumps({"command": words, "losses": losses[2:]}, indent=1) + "\n")
        shutil.copytree(made, FOLDER / name, dirs_exist_ok=True)


if __name__ == "__main__":
    main(sys.argv[1])
