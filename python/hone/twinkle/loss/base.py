"""What losses are: over log-probabilities or logits of rows, [rows, tokens], whose labels are -100 where nothing is learned."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...errors import DataError
from ..data_format import LossOutput

IGNORE = -100


class Loss:
    """A loss of a script's own: `inputs` has labels, `outputs` has logps, and logits where `require_logits` is true. It gives a LossOutput,
    or a tensor, which is a mean over the rows."""

    require_logits = False

    def __call__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], **kwargs: Any) -> LossOutput:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(inputs, outputs)")


def aligned(values: Any, mask: torch.Tensor) -> torch.Tensor:
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
