"""Figures of a run, gathered between two looks at them."""
from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any


class Metric:
    """Gathers, calculates, begins again."""

    def __init__(self, device_mesh: Any = None, process_group: Any = None, **kwargs: Any) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets what was gathered."""

    def accumulate(self, inputs: Any = None, outputs: Any = None, **kwargs: Any) -> None:
        """Takes the figures of a pass."""

    def calculate(self) -> dict[str, Any]:
        """The figures so far, by their names."""
        return {}


class TrainFigures(Metric):
    """What a model tells about its training: loss, accuracy, gradient norm, rate, updates, speed."""

    def __init__(self, **kwargs: Any) -> None:
        self._began = time.monotonic()
        super().__init__()

    def reset(self) -> None:
        self._since = time.monotonic()
        self._losses: list[float] = []
        self._accuracies: list[float] = []
        self._updates = 0
        self._norm: float | None = None

    def add_pass(self, figures: Mapping[str, float]) -> None:
        """A micro-batch."""
        self._losses.append(figures["loss"])
        if "token_acc" in figures:
            self._accuracies.append(figures["token_acc"])

    def add_update(self, norm: float) -> None:
        """An update."""
        self._updates += 1
        self._norm = norm

    def report(self, learning_rate: float, updates: int) -> dict[str, Any]:
        """The figures as text, as Twinkle prints them."""
        now = time.monotonic()
        figures: dict[str, Any] = {}
        if self._losses:
            figures["loss"] = f"{statistics.fmean(self._losses):.4f}"
        if self._norm is not None:
            figures["grad_norm"] = f"{self._norm:.6f}"
        if self._accuracies:
            figures["accuracy"] = f"{statistics.fmean(self._accuracies):.2f}"
        figures |= {"learning rate": f"{learning_rate:.6e}", "iters": updates, "total time elapse": f"{now - self._began:.0f} seconds",
                    "speed": f"{self._updates / max(now - self._since, 1e-9):.2f} iters/s"}
        self.reset()
        return figures


class CompletionRewardMetric(Metric):
    """Rewards and lengths of answers."""

    def reset(self) -> None:
        self._rewards: dict[str, list[float]] = {}
        self._lengths: list[int] = []

    def accumulate(self, inputs: Any = None, outputs: Any = None, *, rewards: Mapping[str, Sequence[float]] | None = None,
                   completion_lengths: Sequence[int] | None = None, **kwargs: Any) -> None:
        for name, values in (rewards or {}).items():
            self._rewards.setdefault(name, []).extend(values)
        self._lengths.extend(completion_lengths or ())

    def calculate(self) -> dict[str, float]:
        figures = {}
        for name, values in self._rewards.items():
            figures[f"train/{name}_reward"] = statistics.fmean(values)
            figures[f"train/{name}_reward_std"] = statistics.stdev(values) if len(values) > 1 else 0.0
        if self._lengths:
            figures["train/completion_length"] = statistics.fmean(self._lengths)
        return figures
