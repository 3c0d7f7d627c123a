#!/usr/bin/env bash
# Direct preference optimisation in half a minute: pairs say that an answer with an offer to go on is the better one. Needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
hone=${HONE_BIN:-build/bin/hone}
out=${DEMO_OUT:-output/preference}
questions=("What is the capital of France?" "What sound does an owl make?" "What is the opposite of hot?") # none of them is in the pairs

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
run() { echo "\$ $*"; "$@"; }
ask() { # one process answers all questions, each in a fresh conversation
  printf '%s\nclear\n' "${questions[@]}" | "$hone" infer "$@" --stream true --max_new_tokens 24 --temperature 0 --log_level error
}

rm -rf "$out"
say "1. The model before"
ask --model models/nano

say "2. Learn from 95 pairs which answer is better"
run "$hone" rlhf --rlhf_type dpo --model models/nano --dataset data/preferences.jsonl --split_dataset_ratio 0.2 \
  --rpo_alpha 1.0 --tuner_type lora --lora_rank 16 --learning_rate 1e-3 --num_train_epochs 8 --per_device_train_batch_size 8 --per_device_eval_batch_size 8 --gradient_accumulation_steps 1 \
  --eval_strategy epoch --save_strategy epoch --logging_steps 5 --gradient_checkpointing false \
  --output_dir "$out" --add_version false --create_checkpoint_symlink true

say "3. The model after"
ask --adapters "$out/last"
say "The share of pairs that are ranked correctly: $out/images/train_rewards_accuracies.png"
