#!/usr/bin/env bash
# hone's main job in a minute: ask, fine-tune with LoRA, plot, merge, ask again. Needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${HONE_BIN:-build/bin/hone}
out=${DEMO_OUT:-output/demo}
questions=("Who are you?" "Who trained you?" "What is the capital of France?")

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
run() { echo "\$ $*"; "$@"; }
ask() { # one process answers all questions, each in a fresh conversation
  printf '%s\nclear\n' "${questions[@]}" | "$hone" infer "$@" --stream true --max_new_tokens 48 --temperature 0 --log_level error
}

rm -rf "$out"
say "1. The model before"
ask --model models/nano

say "2. Fine-tune it with LoRA to know who it is"
run "$hone" sft --model models/nano --dataset data/demo.jsonl --tuner_type lora --lora_rank 16 --lora_alpha 32 \
  --learning_rate 2e-3 --num_train_epochs 15 --per_device_train_batch_size 8 --gradient_accumulation_steps 1 --gradient_checkpointing false \
  --save_steps 500 --logging_steps 5 --output_dir "$out" --add_version false --create_checkpoint_symlink true

say "3. Merge the adapter into the model"
run "$hone" export --adapters "$out/last" --merge_lora true --output_dir "$out/merged"

say "4. The model after"
ask --model "$out/merged"
say "The loss curve is $out/images/train_loss.png"
