"""Policy gradients over answers that were sampled."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...errors import require
from ..data_format import LossOutput
from ..utils import not_supported
from .base import IGNORE, Loss, aligned


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
        old = logps.detach() if old_logps is None else aligned(old_logps, mask)
        ratio = self.log_ratios(logps, old, mask).exp()
        losses = self.token_losses(ratio, aligned(advantages, mask), logps)
        if self.beta and ref_logps is not None:
            behind = aligned(ref_logps, mask) - logps
            losses = losses + self.beta * (behind.exp() - behind - 1)
        return self.summed(losses, mask)


class GSPOLoss(GRPOLoss):
    """Ratios of whole answers."""

    def log_ratios(self, logps: torch.Tensor, old_logps: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        ratios = super().log_ratios(logps, old_logps, mask)
        return ((ratios * mask).sum(-1) / mask.sum(-1).clamp(min=1)).unsqueeze(-1)


class SAPOLoss(GRPOLoss):
    """A smooth gate in the place of the bound."""

    def __init__(self, tau_pos: float = 1.0, tau_neg: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tau_pos, self.tau_neg = tau_pos, tau_neg

    def token_losses(self, ratio: torch.Tensor, advantages: torch.Tensor, logps: torch.Tensor) -> torch.Tensor:
        good, bad = (torch.sigmoid(tau * (ratio - 1)) * (4 / tau) for tau in (self.tau_pos, self.tau_neg))
        return -torch.where(advantages > 0, good, bad) * advantages


class BNPOLoss(GRPOLoss):
    """A mean over all tokens of the answers."""

    def summed(self, losses: torch.Tensor, mask: torch.Tensor) -> LossOutput:
        return LossOutput(loss=(losses * mask).sum(), num_tokens=mask.sum().clamp(min=1))


class CISPOLoss(BNPOLoss):
    """The ratio, bounded from above and held constant, weighs log p."""

    def token_losses(self, ratio: torch.Tensor, advantages: torch.Tensor, logps: torch.Tensor) -> torch.Tensor:
        return -ratio.clamp(max=1 + self.epsilon).detach() * advantages * logps


class PPOLoss(BNPOLoss):
    """PPO's policy loss, whose advantages come from a value model. `loss_agg_mode`: token-mean, or GRPO's seq-mean-token-mean."""

    def __init__(self, loss_agg_mode: str = "token-mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require(loss_agg_mode in ("token-mean", "seq-mean-token-mean"), "loss_agg_mode", loss_agg_mode, "token-mean or seq-mean-token-mean")
        self.loss_agg_mode = loss_agg_mode

    def summed(self, losses: torch.Tensor, mask: torch.Tensor) -> LossOutput:
        return super().summed(losses, mask) if self.loss_agg_mode == "token-mean" else GRPOLoss.summed(self, losses, mask)


class DRGRPOLoss(GRPOLoss):
    """A sum over an answer's tokens, divided by the longest an answer may be."""

    def __init__(self, max_completion_length: int = 1024, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_completion_length = max_completion_length

    def summed(self, losses: torch.Tensor, mask: torch.Tensor) -> LossOutput:
        return LossOutput(loss=((losses * mask).sum(-1) / self.max_completion_length).mean(), num_tokens=0)
