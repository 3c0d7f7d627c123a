"""Logits of a few tokens from hone and its peers."""
import json
import os
import subprocess
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

HONE = os.environ.get("HONE_BIN", str(Path(__file__).resolve().parents[2] / "build/bin/hone"))
TOKENS = [[3, 17, 42, 8, 95, 0, 21], [5, 9]]


def spread(model, seed):
    """Random weights wide enough that every part of the model shows in the logits."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2 + (1.0 if parameter.ndim == 1 else 0.0))
    return model


def base_model(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def run(*words, ok=True):
    # Matrices are tiny here, and tests share the cores.
    done = subprocess.run([HONE, *map(str, words)], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert not ok or done.returncode == 0, done.stderr
    return done


def hone_outputs(folder, model, *more):
    (folder / "tokens.json").write_text(json.dumps({"sequences": TOKENS}))
    run("logits", "--model", model, "--input", folder / "tokens.json", "--output", folder / "logits.safetensors",
        "--torch_dtype", "float32", *more)
    return load_file(folder / "logits.safetensors")


def peer_logits(model):
    with torch.no_grad():
        return torch.cat([model(input_ids=torch.tensor([row])).logits[0] for row in TOKENS]).float()
