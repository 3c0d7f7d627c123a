#!/usr/bin/env bash
# Makes models/nano from nothing: data, vocabulary, pre-training, chat tuning, export to bfloat16. About ten minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
hone=${HONE_BIN:-build/bin/hone}
factory=$(dirname "$hone")/llamafactory-cli
.venv/bin/python cookbook/nano/make_data.py --out .cache/nano
.venv/bin/python cookbook/nano/make_model.py --data .cache/nano --out .cache/nano/start
"$factory" train cookbook/nano/pretrain.yaml
"$factory" train cookbook/nano/chat.yaml
"$hone" export --model .cache/nano/chat --load_args false --output_dir .cache/nano/export --torch_dtype bfloat16 --exist_ok true
for file in config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json; do
  cp ".cache/nano/export/$file" models/nano/
done
