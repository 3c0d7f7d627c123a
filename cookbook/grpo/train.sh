#!/bin/bash
# Teaches a small model short sentences with your own reward: its server runs during the training and ends with it.
set -e
cd "$(dirname "$0")/../.."
hone=${HONE_BIN:-build/bin/hone}
port=${PORT:-9000}
python3 cookbook/grpo/reward_server.py "$port" &
server=$!
trap 'kill $server' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
"$hone" rlhf --rlhf_type grpo --model models/nano --dataset data/prompts.jsonl \
  --reward_funcs "http://127.0.0.1:$port/sentence" repetition --reward_weights 1 0.5 \
  --num_generations 8 --per_device_train_batch_size 32 --max_completion_length 48 --learning_rate 1e-3 \
  --max_steps "${STEPS:-20}" --logging_steps 1 --log_completions true --output_dir output/grpo --add_version false "$@"
