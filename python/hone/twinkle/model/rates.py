"""The optimizer and the rates that a script asks for."""
from __future__ import annotations

import math
from typing import Any

import torch
from torch.optim import lr_scheduler

from ...errors import UsageError
from ..module import scheduler as schedulers
from ..utils import construct

_OPTIMIZERS = {"AdamW": "adamw_torch", "Adam": "adamw_torch", "default": "adamw_torch", "Muon": "muon"}
_MUON = {"adjust_lr_fn": "match_rms_adamw", "momentum": 0.95, "nesterov": True, "ns_steps": 5, "ns_coefficients": (3.4445, -4.7750, 2.0315)}


class Rates:
    """An optimizer's settings, and torch's schedule of its rate, which is stepped together with the one that hone runs."""

    def __init__(self, optimizer: Any, lr: float = 1e-5, weight_decay: float | None = None, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, **kwargs: Any) -> None:
        name = optimizer if isinstance(optimizer, str) else getattr(optimizer, "__name__", type(optimizer).__name__)
        if name not in _OPTIMIZERS:
            raise UsageError(f"the optimizer is {name}", "expected AdamW, Adam, Muon or default; hone sft has more of them")
        self.needs_whole_matrices = name == "Muon"
        if name == "Muon":
            weight_decay, eps = 0.1 if weight_decay is None else weight_decay, 1e-8
            _check_muon(kwargs)
        weight_decay = 0.01 if weight_decay is None else weight_decay
        unknown = set(kwargs) - {"foreach", "fused", "params", "optimizer_cls"}
        if unknown:
            raise UsageError(f"{name} is given {', '.join(sorted(unknown))}", "expected lr, weight_decay, betas and eps")
        if name == "Adam" and weight_decay and "weight_decay" in kwargs:
            raise UsageError(f"Adam with weight_decay {weight_decay}", "take AdamW")
        self.settings: dict[str, Any] = {"optimizer": _OPTIMIZERS[name], "learning_rate": lr, "weight_decay": 0.0 if name == "Adam" else weight_decay, "adam_beta1": betas[0],
                         "adam_beta2": betas[1], "adam_epsilon": eps}
        self._stand_in = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
        self._schedule: lr_scheduler.LRScheduler | None = None

    def set_schedule(self, given: Any, **kwargs: Any) -> None:
        """One of torch's schedulers or Twinkle's, by class or name; default is Megatron's cosine."""
        if isinstance(given, lr_scheduler.LRScheduler):
            raise UsageError("the schedule is an instance, of an optimizer that hone does not run", "give its class and settings")
        if given == "default":
            given, kwargs = _megatron, {**kwargs, "rate": self.settings["learning_rate"]}
            self._schedule = given(self._stand_in, **kwargs)
            return
        self._schedule = construct(given, lr_scheduler.LRScheduler, [lr_scheduler, schedulers], optimizer=self._stand_in, **kwargs)

    @property
    def learning_rate(self) -> float:
        """Of the next update."""
        return float(self._stand_in.param_groups[0]["lr"])

    @property
    def schedule_name(self) -> str:
        """For reports."""
        return type(self._schedule).__name__ if self._schedule else "constant"

    def set_rate(self, lr: float) -> None:
        """From now on."""
        self._stand_in.param_groups[0]["lr"] = lr

    def updated(self) -> None:
        """An update was made."""
        self._stand_in.step()

    def advance(self) -> None:
        """The next rate."""
        if self._schedule:
            self._schedule.step()

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"rate": self.learning_rate, "schedule": {name: value for name, value in self._schedule.state_dict().items() if name != "lr_lambdas"}
                if self._schedule else None}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from it."""
        self.set_rate(state["rate"])
        if self._schedule and state["schedule"]:
            self._schedule.load_state_dict({**self._schedule.state_dict(), **state["schedule"]})


def _check_muon(given: dict[str, Any]) -> None:
    """Takes torch's settings of Muon out of what was given; hone's has one value of each, which is torch's but for adjust_lr_fn."""
    for name, value in _MUON.items():
        found = given.pop(name, None if name == "adjust_lr_fn" else value)
        if found != value:
            raise UsageError(f"Muon's {name} is {found!r}", f"expected {value!r}")


def _megatron(stand_in: Any, rate: float, lr_decay_steps: int = 1, lr_warmup_steps: int = 0, max_lr: float | None = None, min_lr: float = 0.0,
              **kwargs: Any) -> lr_scheduler.LRScheduler:
    def factor(step: int) -> float:
        if step < lr_warmup_steps:
            return step / max(1, lr_warmup_steps)
        progress = min((step - lr_warmup_steps) / max(1, lr_decay_steps - lr_warmup_steps), 1.0)
        return (min_lr + (rate - min_lr) * (1 + math.cos(math.pi * progress)) / 2) / rate

    return lr_scheduler.LambdaLR(stand_in, factor)
