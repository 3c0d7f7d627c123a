"""peft's LoraConfig as hone's."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import UsageError
from ...trainer import LoraConfig
from ..utils import get_logger

_KNOWN = {"r", "lora_alpha", "lora_dropout", "target_modules", "target_parameters", "modules_to_save", "use_rslora", "use_dora", "init_lora_weights"}
_NO_MATTER = {"peft_type", "task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision", "inference_mode", "runtime_config"}


def _initialization(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _present(targets: list[str], weights: Iterable[str]) -> list[str]:
    """Those of several target modules that the model has: as with peft, a list may serve several families. hone reports a list of which it has none."""
    modules = {name.removesuffix(".weight") for name in weights}
    found = [target for target in targets if target == "all-linear" or any(module == target or module.endswith(f".{target}") for module in modules)]
    if not found or len(found) == len(targets):
        return targets
    get_logger().warning("target_modules: the model has no %s", ", ".join(sorted(set(targets) - set(found))))
    return found


def lora_config(config: Any, weights: Iterable[str] = ()) -> LoraConfig:
    """Refuses settings that hone would not follow. `weights` are the names of the model's."""
    if type(config).__name__ != "LoraConfig":
        raise UsageError(f"the adapter's configuration is a {type(config).__name__}", "expected peft's LoraConfig")
    if isinstance(config, LoraConfig):
        return config
    usual = type(config)()
    for name, value in vars(config).items():
        if name not in _KNOWN | _NO_MATTER and not name.startswith("_") and value != getattr(usual, name, None):
            raise UsageError(f"LoraConfig's {name} is {value!r}", "leave it as it is by default: hone's twinkle does not follow it")
    targets = config.target_modules
    targets = [targets] if isinstance(targets, str) else _present(sorted(targets or ["all-linear"]), weights)
    parameters = list(getattr(config, "target_parameters", None) or ())
    return LoraConfig(rank=config.r, alpha=config.lora_alpha, dropout=config.lora_dropout, target_modules=targets, target_parameters=parameters,
                      modules_to_save=list(config.modules_to_save or ()), use_rslora=config.use_rslora, use_dora=config.use_dora,
                      init_weights=_initialization(config.init_lora_weights))
