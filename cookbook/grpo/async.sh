#!/bin/bash
# The same GRPO twice, with the completions of a rollout server: one after the other, and the next rollout generated while this one trains. A reward of one's own asks for
# long answers. Draws the reward of both by the seconds that they took.
set -e
cd "$(dirname "$0")/../.."
hone=${HONE_BIN:-build/bin/hone}
port=${PORT:-8100}
python3 cookbook/ppo/reward_server.py $((port + 1)) &
reward=$!
trap 'kill $reward' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null; do sleep 0.1; done
folder=$(mktemp -d)
for run in synchronous asynchronous; do
  OMP_NUM_THREADS=1 "$hone" rollout --model models/nano --torch_dtype float32 --port "$port" --verbose false &
  server=$!
  trap 'kill $server $reward' EXIT
  until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.1; done
  OMP_NUM_THREADS=1 "$hone" rlhf --rlhf_type grpo --model models/nano --dataset data/prompts.jsonl --tuner_type full --torch_dtype float32 \
    --reward_funcs "http://127.0.0.1:$((port + 1))/talkative" --num_generations 8 --per_device_train_batch_size 32 --max_completion_length 48 --beta 0 \
    --learning_rate 1e-4 --lr_scheduler_type constant --max_steps "${STEPS:-60}" --logging_steps 1 --save_strategy no --vllm_mode server --vllm_server_base_url "http://127.0.0.1:$port" \
    --async_generate "$([ $run = asynchronous ] && echo true || echo false)" --output_dir "$folder/$run" --add_version false "$@"
  kill $server
  wait $server 2>/dev/null || true
  trap 'kill $reward' EXIT
done
mkdir -p output
python3 cookbook/curve.py output/grpo-async.svg reward --seconds "synchronous=$folder/synchronous/logging.jsonl" "asynchronous=$folder/asynchronous/logging.jsonl"
python3 - "$folder" <<'PYTHON'
import json
import sys

runs = {run: [event for event in map(json.loads, open(f"{sys.argv[1]}/{run}/logging.jsonl")) if "reward" in event] for run in ("synchronous", "asynchronous")}
mean = lambda events: sum(event["reward"] for event in events) / len(events)
wanted = mean(runs["synchronous"][-5:])
for run, events in runs.items():
    seconds = lambda step: events[step]["train_speed(s/it)"] * (step + 1)
    print(f"{run}: reward {events[0]['reward']:.3f} before, {mean(events[-5:]):.3f} over the last five of {len(events)} steps, {seconds(-1 % len(events)):.1f} seconds")
    reached = next((step for step in range(min(4, len(events) - 1), len(events)) if mean(events[max(0, step - 4):step + 1]) >= wanted), None)
    print(f"  {wanted:.3f}, the synchronous run's last mean of five: " + ("not reached" if reached is None else f"first reached after {reached + 1} steps, {seconds(reached):.1f} seconds"))
PYTHON
