"""What scripts ask about a model as transformers has it: its configuration and the tree of its modules."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..utils import not_supported

_OF_THE_CACHE = {"use_cache", "_name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures"}  # change nothing here


def module_tree(folder: str) -> Any:
    """transformers' modules without weights: for scripts that look at their classes. hone computes with its own."""
    try:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    except ImportError as problem:
        raise not_supported("model.model without transformers", "pip install transformers, or leave it out") from problem
    config = AutoConfig.from_pretrained(folder)
    kind: Any = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(config)


def check_config(config: Any, folder: str) -> None:
    """Refuses a configuration that is another than the folder's, whose weights are read by its own."""
    saved = json.loads(Path(folder, "config.json").read_text())
    given = config if isinstance(config, dict) else config.to_dict()
    for name, value in saved.items():
        if name not in _OF_THE_CACHE and name in given and not isinstance(value, dict) and given[name] != value:
            raise UsageError(f"config has {name} {given[name]!r}, and {folder}/config.json {value!r}", "leave it as the folder has it")
