"""Rows to the model's input. hone puts sequences end to end without padding, whatever a processor's arguments say."""
from __future__ import annotations

from typing import Any


class InputProcessor:
    """Keeps rows as they are: the model makes its batches."""

    def __init__(self, device_mesh: Any = None, padding_free: bool = False, framework: str = "transformers", padding_side: str = "right",
                 **kwargs: Any) -> None:
        self.padding_side = padding_side

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        return inputs


class GRPOLossProcessor(InputProcessor):
    """The same for answers that were sampled."""
