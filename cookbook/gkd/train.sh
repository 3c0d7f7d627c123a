#!/bin/bash
# Distills a small teacher into its own base model: half of the batches are rows, half are completions the student generates. Prints how much of the gap to the teacher is closed, on rows that were held out, and draws it.
set -e
cd "$(dirname "$0")/../.."
hone=${HONE_BIN:-build/bin/hone}
common=(--model models/nano --dataset data/demo.jsonl --tuner_type full --per_device_train_batch_size 8 --gradient_accumulation_steps 1 --max_length 256 --split_dataset_ratio 0.25 --add_version false --create_checkpoint_symlink true)
"$hone" sft "${common[@]}" --learning_rate 1e-3 --num_train_epochs 10 --output_dir output/gkd-teacher
"$hone" rlhf --rlhf_type gkd "${common[@]}" --teacher_model output/gkd-teacher/last --lmbda 0.5 --beta 0.5 --temperature 1 --max_completion_length 32 \
  --learning_rate 1e-3 --max_steps "${STEPS:-120}" --eval_on_start true --eval_strategy steps --eval_steps 40 --save_strategy no --logging_steps 1 --output_dir output/gkd "$@"
python3 cookbook/curve.py output/gkd.svg eval_loss "divergence from the teacher=output/gkd/logging.jsonl"
python3 - output/gkd/logging.jsonl <<'PYTHON'
import json
import sys

losses = [event["eval_loss"] for event in map(json.loads, open(sys.argv[1])) if "eval_loss" in event]
print(f"divergence from the teacher on held-out rows: {losses[0]:.4f} before, {losses[-1]:.4f} after; {1 - losses[-1] / losses[0]:.0%} of the gap is closed")
PYTHON
