"""Model folders with random weights and a small vocabulary, as tools/make_model.py writes them. They are made in the test's own process: a program of
its own would first import torch and transformers, which takes longer than all the rest."""
import functools
import json
import runpy
from pathlib import Path


@functools.cache
def make_model():
    return runpy.run_path(str(Path(__file__).resolve().parents[1] / "tools/make_model.py"))["main"]


def tiny_model(folder, family="qwen2", size="tiny", **config):
    """→ folder. `config`: fields of its config.json."""
    make_model()(["--family", family, "--size", size, "--vocab", "small", "--config", json.dumps(config), "--out", str(folder)])
    return folder
