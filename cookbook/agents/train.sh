#!/bin/bash
# nano learns to use a calculator: it imitates rows that ask it and rows that guess, then GRPO finds out which one pays. The calculator is an MCP server that runs during the training. Draws the reward and the calls of an episode.
set -e
cd "$(dirname "$0")/../.."
hone=${HONE_BIN:-build/bin/hone}
port=${PORT:-9000}
out=${OUT:-output/agents}
python3 cookbook/agents/make_data.py "$out"
"$hone" sft --model models/nano --dataset "$out/imitate.jsonl" --tuner_type full --torch_dtype float32 --learning_rate 2e-3 --num_train_epochs "${EPOCHS:-3}" --per_device_train_batch_size 32 \
  --gradient_accumulation_steps 1 --save_only_model true --output_dir "$out/imitated" --add_version false --create_checkpoint_symlink true
python3 cookbook/agents/calculator.py "$port" &
server=$!
trap 'kill $server' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
"$hone" rlhf --rlhf_type grpo --model "$out/imitated/last" --dataset "$out/learn.jsonl" --tuner_type full --torch_dtype float32 --reward_funcs accuracy \
  --multi_turn_scheduler hermes_tools --max_turns 3 --mcp_servers "http://127.0.0.1:$port/mcp" \
  --num_generations 8 --per_device_train_batch_size 32 --max_completion_length 96 --beta 0 --learning_rate 1e-4 --lr_scheduler_type constant \
  --max_steps "${STEPS:-25}" --logging_steps 1 --log_completions true --output_dir "$out/learnt" --add_version false "$@"
python3 cookbook/curve.py "$out/reward.svg" reward "mean reward=$out/learnt/logging.jsonl"
python3 cookbook/curve.py "$out/calls.svg" tools/calls "calls of an episode=$out/learnt/logging.jsonl"
