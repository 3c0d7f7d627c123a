"""Generalized knowledge distillation: the divergence from a teacher at every labeled position."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...errors import UsageError, require
from ..data_format import LossOutput
from .base import IGNORE, Loss


def _kl(from_logps: torch.Tensor, to_logps: torch.Tensor) -> torch.Tensor:
    return (from_logps.exp() * (from_logps - to_logps)).sum()


class GKDLoss(Loss):
    """The generalized Jensen-Shannon divergence between student and teacher: `beta` 0 is KL(teacher || student), 1 KL(student || teacher).

    The teacher says teacher_topk_logprobs of teacher_topk_indices, [rows, tokens, k], or teacher_logits, [rows, tokens, vocabulary], of which
    `topk` takes the most likely. Of the student only the logits of those tokens are computed."""

    def __init__(self, beta: float = 0.5, temperature: float = 1.0, **kwargs: Any) -> None:
        require(0 <= beta <= 1, "beta", beta, "a number from 0 to 1")
        require(temperature > 0, "temperature", temperature, "a number above 0")
        self.beta, self.temperature = beta, temperature
        self.require_logits = True

    @staticmethod
    def teacher(extra: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The teacher's scores, and their tokens; None: all tokens."""
        scores, tokens = extra.get("teacher_topk_logprobs"), extra.get("teacher_topk_indices")
        if scores is not None and tokens is not None:
            return torch.as_tensor(scores), torch.as_tensor(tokens)
        scores = extra.get("teacher_logits")
        if scores is None:
            raise UsageError("GKDLoss has no teacher", "give teacher_topk_logprobs and teacher_topk_indices, or teacher_logits")
        return torch.as_tensor(scores).topk(extra["topk"]) if extra.get("topk") else (torch.as_tensor(scores), None)

    def logit_tokens(self, extra: Mapping[str, Any]) -> torch.Tensor | None:
        """Tokens whose logits outputs["logits"] are to be, [rows, tokens, k]; None: all."""
        return self.teacher(extra)[1]

    def _divergence(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        if self.beta == 0:
            return _kl(teacher, student)
        if self.beta == 1:
            return _kl(student, teacher)
        beta = torch.tensor(self.beta, device=student.device)
        mixture = torch.logaddexp(student + torch.log1p(-beta), teacher + beta.log())
        return self.beta * _kl(teacher, mixture) + (1 - self.beta) * _kl(student, mixture)

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        mask, student = inputs["labels"] != IGNORE, outputs["logits"]
        scores, tokens = self.teacher(kwargs)
        scores = scores[:, :mask.shape[1]].to(student.device, torch.float32)
        if tokens is not None and student.shape[-1] != tokens.shape[-1]:  # of a script that has the logits of all tokens
            student = student.gather(-1, tokens[:, :mask.shape[1]].to(student.device))
        common = min(student.shape[-1], scores.shape[-1])  # one vocabulary may be padded further than the other
        student, teacher = (values[..., :common][mask].div(self.temperature).log_softmax(-1) for values in (student.float(), scores))
        return LossOutput(loss=self._divergence(student, teacher), num_tokens=mask.sum().clamp(min=1))
