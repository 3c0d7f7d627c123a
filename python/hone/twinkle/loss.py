"""Losses over the log-probabilities of labels, [rows, tokens], whose labels are -100 where nothing is learned."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ..errors import DataError, UsageError, require
from .data_format import LossOutput
from .utils import not_supported

IGNORE = -100


class Loss:
    """A loss of a script's own: `inputs` has labels, `outputs` has logps. A LossOutput or a tensor, which is a mean over the rows."""

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(inputs, outputs)")


class CrossEntropyLoss(Loss):
    """Of labeled tokens, a mean over all of an update's. `dft` multiplies each by its probability, held constant."""

    def __init__(self, ignore_index: int = IGNORE, reduction: str = "mean", dft: bool = False, **kwargs: Any) -> None:
        require(ignore_index == IGNORE, "ignore_index", ignore_index, str(IGNORE))
        self.reduction, self.dft = reduction, dft

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        logps, mask = outputs["logps"], inputs["labels"] != IGNORE
        tokens = -logps * logps.detach().exp() if self.dft else -logps
        return LossOutput(loss=(tokens * mask).sum(), num_tokens=mask.sum().clamp(min=1))


def _aligned(values: Any, mask: torch.Tensor) -> torch.Tensor:
    """Numbers of rows (one each), of their answers' tokens, or of all their tokens, as [rows, tokens]."""
    placed = torch.zeros(mask.shape, device=mask.device)
    for row, value in enumerate(values):
        value = torch.as_tensor(value, dtype=torch.float32, device=mask.device).flatten()
        answer = mask[row]
        if value.numel() == 1:
            placed[row][answer] = value
        elif value.numel() == int(answer.sum()):
            placed[row][answer] = value
        elif value.numel() >= mask.shape[1]:
            placed[row] = value[:mask.shape[1]]
        else:
            raise DataError(f"row {row} has {value.numel()} numbers for {int(answer.sum())} tokens of its answer",
                            "give one for each token of the answer, or of the whole row")
    return placed


class GRPOLoss(Loss):
    """Clipped policy gradients: a mean over each answer's tokens, then over the answers. Subclasses change its parts."""

    def __init__(self, epsilon: float = 0.2, epsilon_high: float | None = None, beta: float = 0.0, entropy_coef: float = 0.0, **kwargs: Any) -> None:
        if entropy_coef:
            raise not_supported("entropy_coef", "leave it out")
        self.epsilon, self.epsilon_high, self.beta = epsilon, epsilon if epsilon_high is None else epsilon_high, beta

    def log_ratios(self, logps: torch.Tensor, old_logps: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """How much more likely tokens have become."""
        return (logps - old_logps).clamp(-20, 20)

    def token_losses(self, ratio: torch.Tensor, advantages: torch.Tensor, logps: torch.Tensor) -> torch.Tensor:
        """Of each token."""
        return -torch.minimum(ratio * advantages, ratio.clamp(1 - self.epsilon, 1 + self.epsilon_high) * advantages)

    def summed(self, losses: torch.Tensor, mask: torch.Tensor) -> LossOutput:
        """Over tokens and answers."""
        return LossOutput(loss=((losses * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean(), num_tokens=0)

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], *, old_logps: Any = None, ref_logps: Any = None,
                 advantages: Any = None, trajectories: Sequence[Mapping[str, Any]] | None = None, **kwargs: Any) -> LossOutput:
        logps, mask = outputs["logps"], inputs["labels"] != IGNORE
        if advantages is None and trajectories is not None:
            advantages = [row["advantages"] for row in trajectories]
        if advantages is None:  # a pass for its log-probabilities alone
            return LossOutput(loss=logps.sum() * 0, num_tokens=0)
        old = logps.detach() if old_logps is None else _aligned(old_logps, mask)
        ratio = self.log_ratios(logps, old, mask).exp()
        losses = self.token_losses(ratio, _aligned(advantages, mask), logps)
        if self.beta and ref_logps is not None:
            behind = _aligned(ref_logps, mask) - logps
            losses = losses + self.beta * (behind.exp() - behind - 1)
        return self.summed(losses, mask)


class GSPOLoss(GRPOLoss):
    """Ratios of whole answers."""

    def log_ratios(self, logps: torch.Tensor, old_logps: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        ratios = super().log_ratios(logps, old_logps, mask)
        return ((ratios * mask).sum(-1) / mask.sum(-1).clamp(min=1)).unsqueeze(-1)


class CISPOLoss(GRPOLoss):
    """The ratio, bounded and held constant, weighs log p."""

    def token_losses(self, ratio: torch.Tensor, advantages: torch.Tensor, logps: torch.Tensor) -> torch.Tensor:
        return -ratio.clamp(1 - self.epsilon, 1 + self.epsilon_high).detach() * advantages * logps


class BNPOLoss(GRPOLoss):
    """A mean over all tokens of the answers."""

    def summed(self, losses: torch.Tensor, mask: torch.Tensor) -> LossOutput:
        return LossOutput(loss=(losses * mask).sum(), num_tokens=mask.sum().clamp(min=1))


class DRGRPOLoss(GRPOLoss):
    """A sum over an answer's tokens, divided by the longest an answer may be."""

    def __init__(self, max_completion_length: int = 1024, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_completion_length = max_completion_length

    def summed(self, losses: torch.Tensor, mask: torch.Tensor) -> LossOutput:
        return LossOutput(loss=((losses * mask).sum(-1) / self.max_completion_length).mean(), num_tokens=0)


def _sides(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows come in pairs: the preferred answer, then the other."""
    if len(values) % 2:
        raise DataError(f"{len(values)} rows are no pairs", "give each preferred answer with the other behind it")
    return values[0::2], values[1::2]


def _row_sums(logps: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (logps * mask).sum(-1)


class DPOLoss(Loss):
    """Direct preference optimization over pairs of rows."""

    def __init__(self, beta: float = 0.1, label_smoothing: float = 0.0, loss_type: str = "sigmoid", reference_free: bool = False,
                 sft_weight: float = 0.0, **kwargs: Any) -> None:
        require(loss_type in ("sigmoid", "hinge", "ipo"), "loss_type", loss_type, "sigmoid, hinge or ipo")
        require(not label_smoothing or loss_type == "sigmoid", "label_smoothing", label_smoothing, "0, or loss_type sigmoid")
        self.beta, self.label_smoothing, self.loss_type = beta, label_smoothing, loss_type
        self.reference_free, self.sft_weight = reference_free, sft_weight

    def _losses(self, margins: torch.Tensor) -> torch.Tensor:
        if self.loss_type == "hinge":
            return torch.relu(1 - margins)
        if self.loss_type == "ipo":
            return (margins - 1 / (2 * self.beta))**2
        return -(1 - self.label_smoothing) * F.logsigmoid(margins) - self.label_smoothing * F.logsigmoid(-margins)

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], *, ref_outputs: Mapping[str, Any] | None = None, ref_logps: Any = None,
                 **kwargs: Any) -> LossOutput:
        logps, mask = outputs["logps"], inputs["labels"] != IGNORE
        if ref_logps is None and ref_outputs is not None:
            ref_logps = ref_outputs["logps"]
        sums = _row_sums(logps, mask)
        if not self.reference_free:
            if ref_logps is None:
                raise UsageError("DPOLoss has no reference", "give ref_outputs=model.forward_only(inputs=…, disable_lora=True), or reference_free=True")
            sums = sums - _row_sums(_aligned(ref_logps, mask), mask)
        chosen, rejected = _sides(sums)
        loss = self._losses(self.beta * (chosen - rejected)).mean()
        if self.sft_weight:
            loss = loss - self.sft_weight * _row_sums(logps[0::2], mask[0::2]).sum() / mask[0::2].sum().clamp(min=1)
        return LossOutput(loss=loss, num_tokens=0)


class SimPOLoss(Loss):
    """Preference over mean log-probabilities, with a margin, without a reference."""

    def __init__(self, beta: float = 2.0, gamma: float = 0.5, **kwargs: Any) -> None:
        self.beta, self.gamma = beta, gamma

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        mask = inputs["labels"] != IGNORE
        chosen, rejected = _sides(_row_sums(outputs["logps"], mask) / mask.sum(-1).clamp(min=1))
        return LossOutput(loss=-F.logsigmoid(self.beta * (chosen - rejected) - self.gamma).mean(), num_tokens=0)
