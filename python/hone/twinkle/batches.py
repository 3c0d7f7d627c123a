"""Rows of a script as hone's batches, and packed numbers as rows again."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from ..data import IGNORE, Batch
from ..errors import UsageError
from .data_format import ModelOutput
from .loss import Loss
from .template import Template

if TYPE_CHECKING:
    from ..trainer import Trainer

_NOTHING: dict[str, Any] = {"input_ids": [0, 0], "labels": [IGNORE, IGNORE]}  # of a process without rows: it computes along, and counts for nothing


def _array(values: Any) -> np.ndarray:
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values, np.int64).reshape(-1)


class Rows:
    """The rows of a pass."""

    def __init__(self, features: list[Mapping[str, Any]], replays: bool = False) -> None:
        """`replays`: passes take the rows' `routed_experts`."""
        self.features = features
        self.replays = replays

    @classmethod
    def of(cls, inputs: Any, template: Template | None, replays: bool = False) -> Rows:
        """Of features, or of conversations that the template encodes."""
        rows: list[Any] = [inputs] if isinstance(inputs, Mapping) else list(inputs)
        if rows and "input_ids" not in rows[0]:
            if template is None:
                raise UsageError("the rows are conversations, and the model has no template", "call set_template() first, or encode the dataset")
            rows = template.batch_encode(rows)
        if replays and any(row.get("routed_experts") is None for row in rows):
            raise UsageError("a row has no routed_experts to replay",
                             "sample with engine_args={'enable_return_routed_experts': True}, or add those that forward_only() records")
        return cls(rows, replays)

    @cached_property
    def batch(self) -> Batch:
        """hone's batch. Its labels stand at their own token."""
        rows = []
        for feature in self.features:
            ids = _array(feature["input_ids"])
            labels = np.full_like(ids, IGNORE)
            labels[1:] = _array(feature["labels"])[:-1] if feature.get("labels") is not None else ids[1:]
            rows.append({"input_ids": ids, "labels": labels, "media": feature["media"].handle if feature.get("media") is not None else None,
                         "routed_experts": feature["routed_experts"][:len(ids)] if self.replays else None})  # without the padding of a recorded batch
        return Batch.from_rows(rows or [_NOTHING])

    def padded(self, packed: torch.Tensor, value: float = 0.0) -> torch.Tensor:
        """Numbers of all tokens as [rows, longest]."""
        ends = self.batch.cu_seqlens
        return pad_sequence([packed[begin:end] for begin, end in zip(ends, ends[1:])], batch_first=True, padding_value=value)

    def packed(self, values: torch.Tensor) -> torch.Tensor:
        """The other way: [rows, longest or more, …] as numbers of all tokens; zeros where a row has none."""
        ends = self.batch.cu_seqlens
        whole = values.new_zeros((ends[-1], *values.shape[2:]))
        for row, (begin, end) in enumerate(zip(ends, ends[1:])):
            if row < len(values):
                known = values[row, :end - begin]
                whole[begin:begin + len(known)] = known
        return whole

    def outputs(self, trainer: Trainer, loss: Loss, extra: Mapping[str, Any], temperature: float = 1.0) -> ModelOutput:
        """A pass with gradients: log-probabilities of the labels, or the logits that a loss asks for."""
        if not getattr(loss, "require_logits", False):
            return ModelOutput(logps=self.padded(trainer.logprobs(self.batch, temperature)))
        tokens = loss.logit_tokens(extra) if hasattr(loss, "logit_tokens") else None
        if tokens is not None:
            return ModelOutput(logps=None, logits=self.padded(trainer.logits(self.batch, self.packed(tokens))))
        logits = trainer.logits(self.batch)
        targets = self.batch.targets.to(logits.device)
        logps = (logits / temperature).log_softmax(-1).gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1) * (targets >= 0)
        return ModelOutput(logps=self.padded(logps), logits=self.padded(logits))

    @cached_property
    def labels(self) -> torch.Tensor:
        """What each position predicts, [rows, longest], -100 where nothing."""
        return self.padded(self.batch.targets, IGNORE)

    def loss(self, loss: Loss, outputs: ModelOutput, extra: Mapping[str, Any]) -> tuple[torch.Tensor, float]:
        """A loss as a sum, and over how many items: tokens, or rows where it is a mean over them."""
        given = outputs["logps"] if outputs["logps"] is not None else outputs["logits"]
        if not self.features:
            return given.sum() * 0, 0
        labels = self.labels.to(given.device)
        found = loss({"labels": labels, "input_ids": None}, outputs, **extra)
        value, tokens = (found["loss"], float(found.get("num_tokens") or 0)) if isinstance(found, Mapping) else (found, 0.0)
        return (value, tokens) if tokens > 0 else (value * len(self.features), len(self.features))

    def split(self, size: int | None, extra: Mapping[str, Any]) -> Iterator[tuple[Rows, dict[str, Any]]]:
        """Micro-batches, each with its part of what was given for every row."""
        count = len(self.features)
        if not size or count <= size:
            yield self, dict(extra)
            return
        for begin in range(0, count, size):
            part = slice(begin, begin + size)
            yield Rows(self.features[part], self.replays), {name: _cut(value, part, count) for name, value in extra.items()}


def _cut(value: Any, part: slice, count: int) -> Any:
    if isinstance(value, ModelOutput):
        return value.part(part)
    return value[part] if isinstance(value, (list, tuple, np.ndarray, torch.Tensor)) and len(value) == count else value


def join_outputs(outputs: list[ModelOutput], device_mesh: Any = None) -> ModelOutput:
    """The rows of all data ranks; of those that computed the same rows, the first one's."""
    if device_mesh is not None and device_mesh.world_size == len(outputs):
        ranks = [device_mesh.get_data_rank_from_global_rank(rank) for rank in range(len(outputs))]
        outputs = [outputs[ranks.index(number)] for number in range(device_mesh.data_world_size)]
    elif device_mesh is not None and device_mesh.world_size == 1:  # everybody got all rows
        outputs = outputs[:1]
    joined: dict[str, Any] = {name: _join_rows([output[name] for output in outputs], value) for name, value in (("logps", 0), ("routed_experts", -1))
                              if outputs[0].get(name) is not None}
    if "loss" in outputs[0]:
        joined["loss"] = sum(output["loss"] for output in outputs) / len(outputs)
    return ModelOutput(**{"logps": None, **joined})


def _join_rows(values: list[torch.Tensor], padding: int) -> torch.Tensor:
    """[rows, longest, …] of all, where `longest` differs between them."""
    longest = max(value.shape[1] for value in values)
    return torch.cat([torch.nn.functional.pad(value, (0, 0) * (value.dim() - 2) + (0, longest - value.shape[1]), value=padding) for value in values])
