#!/bin/bash
# Teaches a small model long answers with PPO and your own reward: its server runs during the training and ends with it. A head on the policy's own states is the critic.
set -e
cd "$(dirname "$0")/../.."
hone=${HONE_BIN:-build/bin/hone}
port=${PORT:-9000}
python3 cookbook/ppo/reward_server.py "$port" &
server=$!
trap 'kill $server' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
"$hone" rlhf --rlhf_type ppo --model models/nano --dataset data/prompts.jsonl --reward_funcs "http://127.0.0.1:$port/talkative" --tuner_type full --torch_dtype float32 \
  --max_completion_length 40 --per_device_train_batch_size 24 --gradient_accumulation_steps 1 --num_ppo_epochs 4 --learning_rate 1e-4 --lr_scheduler_type constant --lam 1 --kl_coef 0.01 \
  --max_steps "${STEPS:-100}" --logging_steps 1 --log_completions true --output_dir output/ppo-talkative --add_version false "$@"
