"""Preferences over pairs of rows: the preferred answer, then the other."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ...errors import DataError, UsageError, require
from ..data_format import LossOutput
from .base import IGNORE, Loss, aligned


def _sides(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows come in pairs: the preferred answer, then the other."""
    if len(values) % 2:
        raise DataError(f"{len(values)} rows are not pairs", "give each preferred answer followed by the other")
    return values[0::2], values[1::2]


def _row_sums(logps: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (logps * mask).sum(-1)


def _row_means(logps: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _row_sums(logps, mask) / mask.sum(-1).clamp(min=1)


def _mean_nll(logps: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Cross entropy of the preferred answers."""
    return -_row_sums(logps[0::2], mask[0::2]).sum() / mask[0::2].sum().clamp(min=1)


class DPOLoss(Loss):
    """Direct preference optimization over pairs of rows."""

    def __init__(self, beta: float = 0.1, label_smoothing: float = 0.0, loss_type: str = "sigmoid", reference_free: bool = False,
                 sft_weight: float = 0.0, **kwargs: Any) -> None:
        require(loss_type in ("sigmoid", "hinge", "ipo", "kto_pair"), "loss_type", loss_type, "sigmoid, hinge, ipo or kto_pair")
        require(not label_smoothing or loss_type == "sigmoid", "label_smoothing", label_smoothing, "0, or loss_type sigmoid")
        self.beta, self.label_smoothing, self.loss_type = beta, label_smoothing, loss_type
        self.reference_free, self.sft_weight = reference_free, sft_weight

    def _losses(self, chosen: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
        if self.loss_type == "kto_pair":
            return 1 - torch.sigmoid(self.beta * chosen) + torch.sigmoid(self.beta * rejected)
        margins = self.beta * (chosen - rejected)
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
            sums = sums - _row_sums(aligned(ref_logps, mask), mask)
        chosen, rejected = _sides(sums)
        loss = self._losses(chosen, rejected).mean()
        if self.sft_weight:
            loss = loss + self.sft_weight * _mean_nll(logps, mask)
        return LossOutput(loss=loss, num_tokens=0)


class SimPOLoss(Loss):
    """Preference over mean log-probabilities, with a margin, without a reference."""

    def __init__(self, beta: float = 2.5, gamma: float = 0.5, **kwargs: Any) -> None:
        self.beta, self.gamma = beta, gamma

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        mask = inputs["labels"] != IGNORE
        chosen, rejected = _sides(_row_means(outputs["logps"], mask))
        return LossOutput(loss=-F.logsigmoid(self.beta * (chosen - rejected) - self.gamma).mean(), num_tokens=0)


class CPOLoss(Loss):
    """Preference without a reference, and cross entropy of the preferred answers."""

    def __init__(self, beta: float = 0.1, bc_coef: float = 1.0, **kwargs: Any) -> None:
        self.beta, self.bc_coef = beta, bc_coef

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        logps, mask = outputs["logps"], inputs["labels"] != IGNORE
        chosen, rejected = _sides(_row_sums(logps, mask))
        return LossOutput(loss=-F.logsigmoid(self.beta * (chosen - rejected)).mean() + self.bc_coef * _mean_nll(logps, mask), num_tokens=0)


class ORPOLoss(Loss):
    """Cross entropy of the preferred answers, and the odds ratio of both."""

    def __init__(self, lambda_orpo: float = 0.1, **kwargs: Any) -> None:
        self.lambda_orpo = lambda_orpo

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        logps, mask = outputs["logps"], inputs["labels"] != IGNORE
        means = _row_means(logps, mask).clamp(max=-1e-7)
        chosen, rejected = _sides(means - torch.log(-torch.expm1(means)))  # log-odds
        return LossOutput(loss=_mean_nll(logps, mask) - self.lambda_orpo * F.logsigmoid(chosen - rejected).mean(), num_tokens=0)
