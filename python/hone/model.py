"""A language model and its tokenizer."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .library import _hone

if TYPE_CHECKING:
    import torch

    from .data import Batch


class Model:
    """A decoder-only language model with its tokenizer, from a folder in Hugging Face's layout or by the id it has on a hub."""

    def __init__(self, name: str, *, dtype: str | None = None, device: str = "auto", revision: str = "") -> None:
        """Loads weights. `dtype`: float32, bfloat16 or float16; None: as the files have them. `device`: auto, cpu, cuda, cuda:1, npu …"""
        self._model = _hone.Model.load(str(name), dtype=dtype, device=device, revision=revision)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, dtype={self.dtype!r}, device={self.device!r})"

    @property
    def name(self) -> str:
        """As it was given."""
        return self._model.name

    @property
    def folder(self) -> str:
        """Where its files are."""
        return self._model.folder

    @property
    def device(self) -> str:
        """cpu, cuda:0, npu:0 …"""
        return self._model.device

    @property
    def dtype(self) -> str:
        """float32, bfloat16 or float16."""
        return {"Float": "float32", "BFloat16": "bfloat16", "Half": "float16"}[self._model.dtype]

    @property
    def num_parameters(self) -> int:
        """Numbers in its weights, adapters not included."""
        return self._model.num_parameters

    @property
    def vocab_size(self) -> int:
        """Rows of its embedding."""
        return self._model.vocab_size

    @property
    def max_length(self) -> int:
        """Positions that it was made for."""
        return self._model.max_length

    @property
    def eos_token_id(self) -> int | None:
        """The tokenizer's end of text."""
        return self._model.eos_token_id

    def parameters(self) -> dict[str, torch.Tensor]:
        """The weights themselves by their names in the files, not copies; adapters are the trainer's (`Trainer.parameters`)."""
        return dict(self._model.parameters())

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens around it."""
        return self._model.encode(text)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of token ids."""
        return self._model.decode([int(token) for token in ids], skip_special_tokens)

    def logits(self, batch: Batch) -> torch.Tensor:
        """Logits of every position of a batch, [tokens, vocabulary], without gradients."""
        return self._model.logits(batch._batch)

    def logprobs(self, batch: Batch, temperature: float = 1.0) -> torch.Tensor:
        """log p(target) of every position, float32 [tokens], 0 where there is no target; without gradients (`Trainer.logprobs` has them)."""
        return self._model.logprobs(batch._batch, temperature)
