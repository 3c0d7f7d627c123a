"""Figures of a run, gathered between two looks at them."""
from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..data import IGNORE
from .loss.base import aligned
from .utils import not_supported


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

    def sums(self) -> dict[str, float] | None:
        """What was gathered here, as numbers that add up over processes, but for those named max_…; None: it does not, and calculate() is of
        this process."""
        return None

    def take_sums(self, sums: Mapping[str, float]) -> None:
        """Those of all processes, before calculate()."""


class TrainFigures(Metric):
    """What a model tells about its training: loss, accuracy, gradient norm, rate, updates, speed."""

    def __init__(self, **kwargs: Any) -> None:
        self._began = time.monotonic()
        super().__init__()

    def reset(self) -> None:
        self._since = time.monotonic()
        self._loss = self._items = 0.0
        self._accuracies: list[float] = []
        self._updates = 0
        self._norm: float | None = None

    def add_pass(self, figures: Mapping[str, float], items: float = 1) -> None:
        """A pass, whose loss is a mean over `items`."""
        self._loss += figures["loss"] * items
        self._items += items
        if "token_acc" in figures:
            self._accuracies.append(figures["token_acc"])

    def add_update(self, norm: float) -> None:
        """An update."""
        self._updates += 1
        self._norm = norm

    def sums(self) -> dict[str, float]:
        return {"loss": self._loss, "items": self._items}

    def take_sums(self, sums: Mapping[str, float]) -> None:
        self._loss, self._items = sums["loss"], sums["items"]

    def report(self, learning_rate: float, updates: int) -> dict[str, Any]:
        """The figures as text, as Twinkle prints them."""
        now = time.monotonic()
        figures: dict[str, Any] = {}
        if self._items:
            figures["loss"] = f"{self._loss / self._items:.4f}"
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


class DPOMetric(Metric):
    """What the policy and the reference think of preferred answers and the others, over pairs of rows."""

    def __init__(self, device_mesh: Any = None, process_group: Any = None, ignore_index: int = IGNORE, beta: float = 0.1, **kwargs: Any) -> None:
        self.ignore_index, self.beta = ignore_index, beta
        super().__init__()

    def reset(self) -> None:
        self._sums: dict[str, float] = {}

    def accumulate(self, inputs: Any = None, outputs: Any = None, *, ref_outputs: Any = None, ref_logps: Any = None, **kwargs: Any) -> None:
        labels = torch.as_tensor(inputs["labels"]).to(outputs["logps"].device)
        sums = (outputs["logps"].detach() * (labels != self.ignore_index)).sum(-1)
        found = {"count": sums[0::2].numel(), "chosen": sums[0::2].sum(), "rejected": sums[1::2].sum()}
        reference = ref_outputs["logps"] if ref_outputs is not None else ref_logps
        if reference is not None:
            reference = torch.as_tensor(reference).to(sums)[:, :labels.shape[1]]
            reference = (reference * (labels != self.ignore_index)).sum(-1)
            margins = sums - reference
            found |= {"ref_count": sums[0::2].numel(), "ref_chosen": reference[0::2].sum(), "ref_rejected": reference[1::2].sum(),
                      "reward_chosen": self.beta * margins[0::2].sum(), "reward_rejected": self.beta * margins[1::2].sum(),
                      "correct": (margins[0::2] > margins[1::2]).sum()}
        for name, value in found.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value)

    def sums(self) -> dict[str, float]:
        return self._sums

    def take_sums(self, sums: Mapping[str, float]) -> None:
        self._sums = dict(sums)

    def calculate(self) -> dict[str, str]:
        count, compared = self._sums.get("count", 0.0), self._sums.get("ref_count", 0.0)
        figures = {f"logps/{side}": f"{self._sums[side] / count:.2f}" for side in ("chosen", "rejected") if count}
        if compared:
            figures |= {f"logps/ref_{side}": f"{self._sums[f'ref_{side}'] / compared:.2f}" for side in ("chosen", "rejected")}
            good, bad = self._sums["reward_chosen"] / compared, self._sums["reward_rejected"] / compared
            figures |= {"rewards/chosen": f"{good:.4f}", "rewards/rejected": f"{bad:.4f}", "rewards/margins": f"{good - bad:.4f}",
                        "rewards/accuracies": f"{self._sums['correct'] / compared * 100:.1f}%"}
        self.reset()
        return figures


class GRPOMetric(Metric):
    """How far the policy has moved from the one that sampled, over the tokens of answers: log-probabilities, KL by Schulman's third estimator, and
    how much the bounds of the loss cut off."""

    def __init__(self, device_mesh: Any = None, process_group: Any = None, ignore_index: int = IGNORE, temperature: float = 1.0, epsilon: float = 0.2,
                 epsilon_high: float | None = None, top_k_kl: int = 0, **kwargs: Any) -> None:
        if top_k_kl:
            raise not_supported("top_k_kl", "leave it out: the largest KL of a token is reported as train/token_kl_max")
        self.ignore_index, self.temperature = ignore_index, temperature
        self.epsilon, self.epsilon_high = epsilon, epsilon if epsilon_high is None else epsilon_high
        super().__init__()

    def reset(self) -> None:
        self._sums: dict[str, float] = {}

    def clipped(self, log_ratios: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What is cut off below and above, and out of what."""
        ratios = log_ratios.exp()
        return (ratios < 1 - self.epsilon) & (advantages < 0) & mask, (ratios > 1 + self.epsilon_high) & (advantages > 0) & mask, mask

    def accumulate(self, inputs: Any = None, outputs: Any = None, *, old_logps: Any = None, advantages: Any = None, **kwargs: Any) -> None:
        if isinstance(outputs["logps"], list):  # those of each row by itself
            for number, (row, logps) in enumerate(zip(inputs, outputs["logps"])):
                labels = torch.as_tensor(row["labels"]).reshape(1, -1)
                labels = torch.nn.functional.pad(labels, (0, logps.shape[1] - labels.shape[1]), value=self.ignore_index)
                self.accumulate({"labels": labels}, {"logps": logps}, old_logps=None if old_logps is None else old_logps[number:number + 1],
                                advantages=None if advantages is None else advantages[number:number + 1])
            return
        logps = outputs["logps"].detach().float() * self.temperature
        mask = torch.as_tensor(inputs["labels"]).to(logps.device) != self.ignore_index
        if not mask.any():
            return
        found = {"tokens": mask.sum(), "new": logps[mask].sum()}
        if old_logps is not None:
            old = aligned(old_logps, mask) * self.temperature
            moved = logps - old
            divergence = (moved.exp() - moved - 1)[mask]
            found |= {"compared": mask.sum(), "old": old[mask].sum(), "moved": moved[mask].sum(), "kl": divergence.sum(), "max_kl": divergence.max(),
                      "max_ratio": moved[mask].max().exp()}
            if advantages is not None:
                low, high, all_of_them = self.clipped(moved, aligned(advantages, mask), mask)
                found |= {"clip_low": low.sum(), "clip_high": high.sum(), "clip_count": all_of_them.sum()}
        for name, value in found.items():
            before = self._sums.get(name, 0.0)
            self._sums[name] = max(before, float(value)) if name.startswith("max_") else before + float(value)

    def sums(self) -> dict[str, float]:
        return self._sums

    def take_sums(self, sums: Mapping[str, float]) -> None:
        self._sums = dict(sums)

    def calculate(self) -> dict[str, float]:
        found, figures = self._sums, {}
        if count := found.get("tokens"):
            figures = {"train/policy_confidence": math.exp(found["new"] / count), "train/mean_new_logp": found["new"] / count}
        if compared := found.get("compared"):
            figures |= {"train/mean_old_logp": found["old"] / compared, "train/logp_diff_mean": found["moved"] / compared,
                        "train/approx_kl": found["kl"] / compared, "train/token_kl_max": found["max_kl"], "train/token_ratio_max": found["max_ratio"]}
        if total := found.get("clip_count"):
            figures |= {"train/clip_ratio_low": found["clip_low"] / total, "train/clip_ratio_high": found["clip_high"] / total,
                        "train/clip_ratio": (found["clip_low"] + found["clip_high"]) / total}
        self.reset()
        return figures


PPOMetric = GRPOMetric


class GSPOMetric(GRPOMetric):
    """Ratios are of whole answers."""

    def clipped(self, log_ratios: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        def mean(values: torch.Tensor) -> torch.Tensor:
            return (values * mask).sum(-1) / mask.sum(-1).clamp(min=1)

        return super().clipped(mean(log_ratios), mean(advantages), mask.any(-1))


class CISPOMetric(GRPOMetric):
    """Bounds hold for good and bad answers alike."""

    def clipped(self, log_ratios: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        ratios = log_ratios.exp()
        return (ratios < 1 - self.epsilon) & mask, (ratios > 1 + self.epsilon_high) & mask, mask
