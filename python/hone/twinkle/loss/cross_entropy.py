"""Cross entropy, under each of Twinkle's names: hone never has the logits of all tokens at once."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import require
from ..data_format import LossOutput
from .base import IGNORE, Loss


class CrossEntropyLoss(Loss):
    """Of labeled tokens, a mean over all of an update's. `dft` multiplies each by its probability, held constant."""

    def __init__(self, ignore_index: int = IGNORE, reduction: str = "mean", dft: bool = False, **kwargs: Any) -> None:
        require(ignore_index == IGNORE, "ignore_index", ignore_index, str(IGNORE))
        self.reduction, self.dft = reduction, dft

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        logps, mask = outputs["logps"], inputs["labels"] != IGNORE
        tokens = -logps * logps.detach().exp() if self.dft else -logps
        return LossOutput(loss=(tokens * mask).sum(), num_tokens=mask.sum().clamp(min=1))


ChunkedCrossEntropyLoss = LigerFusedLinearCrossEntropyLoss = CrossEntropyLoss
