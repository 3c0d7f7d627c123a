#!/usr/bin/env bash
# A tiny model learns to name colours, or tones, in about a minute on two cores:
#   bash cookbook/vision/train.sh output/vision
#   bash cookbook/vision/train.sh output/tones tones
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-output/vision} what=${2:-vision}
export PATH="$PWD/build/bin:$PATH" MAX_PIXELS=3136
.venv/bin/python "cookbook/vision/make_$what.py" "$out"
answer() { swift infer --model "$1" --val_dataset "$out/val.jsonl" --result_path "$2" --system '' --max_new_tokens 8 --temperature 0 --torch_dtype float32; }
right() { .venv/bin/python -c "import json, sys; rows = [json.loads(line) for line in open(sys.argv[1])]; print(sum(r['response'].strip() == r['labels'] for r in rows) / len(rows))" "$1"; }
answer "$out/model" "$out/before.jsonl"
swift sft --model "$out/model" --dataset "$out/train.jsonl" --tuner_type full --freeze_vit false --freeze_aligner false --torch_dtype float32 --system '' \
  --num_train_epochs 5 --per_device_train_batch_size 16 --learning_rate 2e-3 --save_strategy epoch --save_total_limit 1 --split_dataset_ratio 0 \
  --add_version false --output_dir "$out/run" --logging_steps 8
answer "$(ls -d "$out"/run/checkpoint-* | tail -1)" "$out/after.jsonl"
echo "before: $(right "$out/before.jsonl")"
echo "after: $(right "$out/after.jsonl")"
