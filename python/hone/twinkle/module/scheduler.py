"""Rates with a warm-up, as torch's schedulers."""
from __future__ import annotations

import math
from typing import Any

from torch.optim.lr_scheduler import LambdaLR


class _Warmup(LambdaLR):
    @staticmethod
    def falling(progress: float) -> float:
        """The factor behind the warmup, by how much of the steps there is done."""
        raise NotImplementedError("a schedule says how it falls")

    def __init__(self, optimizer: Any, num_warmup_steps: int = 0, num_training_steps: int = 1, last_epoch: int = -1, **kwargs: Any) -> None:
        def factor(step: int) -> float:
            if step < num_warmup_steps:
                return step / max(1, num_warmup_steps)
            return self.falling(min((step - num_warmup_steps) / max(1, num_training_steps - num_warmup_steps), 1.0))

        super().__init__(optimizer, factor, last_epoch)


class LinearWarmupScheduler(_Warmup):
    """Rises to the rate, then falls to 0 in a line."""

    @staticmethod
    def falling(progress: float) -> float:
        """What is left of the rate."""
        return 1 - progress


class CosineWarmupScheduler(_Warmup):
    """Rises to the rate, then falls to 0 along a cosine."""

    @staticmethod
    def falling(progress: float) -> float:
        """What is left of the rate."""
        return (1 + math.cos(math.pi * progress)) / 2
