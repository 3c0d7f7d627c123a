"""A model's weights to a sampler in other processes."""
from __future__ import annotations

from typing import Any


class CheckpointEngineManager:
    """Sends the trained weights to the sampler, and only these, through Ray's object store: an adapter stays one, whatever `merge_and_sync` says."""

    def __init__(self, model: Any, sampler: Any, platform: str = "GPU") -> None:
        self.model, self.sampler = model, sampler

    def sync_weights(self, merge_and_sync: bool = True, **kwargs: Any) -> None:
        """The sampler's next answers are those of the model's newest weights."""
        self.sampler.import_weights(self.model.export_weights())
