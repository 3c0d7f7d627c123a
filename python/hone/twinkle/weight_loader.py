"""Sends a model's weights to a sampler in the same process."""
from __future__ import annotations

from typing import Any


class NativeLoader:
    """Of a model and a sampler in the same processes: every one of them calls it."""

    def __call__(self, model: Any, sampler: Any, adapter_name: str = "") -> None:
        sampler.import_weights(model.export_weights(adapter_name=adapter_name))
