"""Rows of text to batches of tokens."""
from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .errors import DataError, UsageError, require_type
from .library import _hone
from .model import Model

if TYPE_CHECKING:
    import torch

    from .device_mesh import DeviceMesh

Row = Mapping[str, Any]
IGNORE = -100  # the label of a token that is not learned
_LARGEST = int(np.iinfo(np.int32).max)  # token id


def _array(values: Any) -> np.ndarray:
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "cpu") else values)
    except (TypeError, ValueError):  # lists that differ in length, tensors that numpy cannot hold
        return np.empty((), object)


def _ids(values: Any, of_row: str = "") -> list[int]:
    """A list of integers out of a list, a numpy array or a torch tensor. `of_row`: such as "labels of row 3"; "" for what is no row's."""
    kind, name = (DataError, of_row) if of_row else (UsageError, "token ids")
    array = _array(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise kind(f"{name} are an array of {array.dtype} with {array.ndim} dimensions", "expected a list of integers")
    if array.size and not (-_LARGEST <= int(array.min()) and int(array.max()) <= _LARGEST):
        raise kind(f"{name} are from {array.min()} to {array.max()}", "expected ids of the model's vocabulary")
    ids: list[int] = array.tolist()
    return ids


def _row(messages: str | Sequence[Mapping[str, Any]] | Row) -> str:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return _json(messages if isinstance(messages, Mapping) else {"messages": list(messages)})


def _json(row: Any) -> str:
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
        text.encode()  # lone surrogates are not text
    except (TypeError, ValueError) as problem:
        raise DataError(f"a row cannot be written as JSON: {problem}", 'expected one such as {"messages": [{"role": "user", …}]}') from None
    return text


def _labels(labels: Any, number: int) -> list[int]:
    values = _ids(labels, f"labels of row {number}")
    if wrong := next((label for label in values if label < 0 and label != IGNORE), None):
        raise DataError(f"labels of row {number} have {wrong}", f"expected token ids, or {IGNORE} where nothing is learned")
    return values


def _weights(weights: Any, number: int) -> list[float]:
    if weights is None:
        return []
    array = _array(weights.float() if hasattr(weights, "cpu") else weights)  # numpy has no bfloat16
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iufb"):
        raise DataError(f"weights of row {number} are {weights!r:.60}", "expected a list of numbers, one for each token")
    values: list[float] = array.astype(np.float64).tolist()
    return values


def _experts(experts: Any, number: int) -> np.ndarray | None:
    if experts is None:
        return None
    array = _array(experts)
    if array.size and array.dtype.kind not in "iu":
        raise DataError(f"routed_experts of row {number} are {experts!r:.60}", "expected integers [tokens, layers with experts, experts of a token]")
    return array.astype(np.int64)


def _packed_experts(rows: Sequence[Any], lengths: Sequence[int]) -> np.ndarray:
    """The experts of all rows' tokens, int64 [tokens, layers, experts of a token]; -1 beyond the end of a row's, where the router chooses."""
    known = [_experts(experts, number) for number, experts in enumerate(rows)]
    shape = next(experts.shape[1:] for experts in known if experts is not None)
    parts = []
    for number, (experts, length) in enumerate(zip(known, lengths)):
        part = np.full((length, *shape), -1, np.int64)
        if experts is not None:
            if experts.ndim != 3 or experts.shape[1:] != shape or len(experts) > length:
                raise DataError(f"routed_experts of row {number} are {' x '.join(map(str, experts.shape))}",
                                f"expected at most {length} tokens, and as many layers and experts of a token as the other rows have")
            part[:len(experts)] = experts
        parts.append(part)
    return np.concatenate(parts)


class Template:
    """Turns conversations into token ids and labels as the model's chat template has them."""

    def __init__(self, model: Model | str, name: str | None = None, *, system: str | None = None, max_length: int | None = None,
                 truncation: str = "delete", enable_thinking: bool | None = None) -> None:
        """`model`: one that is loaded, or its name: its weights are not read then. `name`: one of ms-swift's templates, or jinja for the
        model's own; None: the model's usual one. `max_length` None: the model's. `truncation` of longer rows: delete, left, right or split."""
        require_type(model, (Model, str), "model", "a hone.Model or its name")
        settings = (name, system, max_length, truncation, enable_thinking)
        self._template = _hone.Template.open(model, *settings) if isinstance(model, str) else _hone.Template.make(model._model, *settings)

    def __repr__(self) -> str:
        return f"Template({self.name!r}, max_length={self.max_length})"

    @property
    def name(self) -> str:
        """The template in use."""
        return self._template.name

    @property
    def max_length(self) -> int:
        """Tokens that a row may have."""
        return self._template.max_length

    @property
    def stop_token_ids(self) -> list[int]:
        """Tokens that end an answer."""
        return self._template.stop_token_ids

    @property
    def stop_words(self) -> list[str]:
        """Texts that end an answer."""
        return self._template.stop_words

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens around it."""
        return self._template.tokenize(text)

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        """The text of token ids."""
        return self._template.decode(_ids(ids), skip_special_tokens)

    def encode(self, row: Row) -> dict[str, Any]:
        """A row such as {"messages": […]} or {"query": …, "response": …} as input_ids, labels and, where answers weigh differently, weights; with
        images, videos or audios also media, which Batch.from_rows reads."""
        return _arrays(self._template.encode(_row(row)))

    def prompt(self, messages: str | Sequence[Mapping[str, Any]] | Row) -> list[int]:
        """Token ids up to where the model speaks. A text is a user's message."""
        return self._template.prompt(_row(messages))

    def encode_prompt(self, messages: str | Sequence[Mapping[str, Any]] | Row) -> dict[str, Any]:
        """The same as input_ids and, of a row with images, videos or audios, media: a prompt of a Sampler. With an answer's tokens after its ids it is a
        row for Batch.from_rows."""
        encoded = _arrays(self._template.encode_prompt(_row(messages)))
        del encoded["labels"]
        return encoded


def _arrays(encoded: tuple[list[int], list[int], list[float], _hone.Media | None]) -> dict[str, Any]:
    ids, labels, weights, media = encoded
    arrays: dict[str, Any] = {"input_ids": np.array(ids, np.int64), "labels": np.array(labels, np.int64)}
    if weights:
        arrays["weights"] = np.array(weights, np.float32)
    if media is not None:
        arrays["media"] = media
    return arrays


class Dataset:
    """Rows with random access: files, datasets of a hub, or rows of this program. Formats are those of `hone sft --dataset`."""

    def __init__(self, data: str | Sequence[str] | Iterable[Row], template: Template, *, seed: int = 42, shuffle: bool = True) -> None:
        """`data`: a dataset's name or several ("train.jsonl#500", "org/name"), or rows. `shuffle` concerns "#500", which draws rows."""
        require_type(data, Iterable, "data", "files, datasets of a hub, or rows")
        if isinstance(data, Mapping):
            raise UsageError(f"data is one row, {data!r:.60}", "expected a list of rows: hone.Dataset([row], template)")
        require_type(template, Template, "template", "a hone.Template: hone.Dataset(data, hone.Template(model))")
        rows: list[Any] = [data] if isinstance(data, str) else list(data)
        if all(isinstance(row, str) for row in rows):
            self._dataset = _hone.Dataset.open(rows, template._template, seed, shuffle)
        else:
            self._dataset = _hone.Dataset.of_rows([_json(row) for row in rows], template._template)

    def __repr__(self) -> str:
        return f"Dataset({len(self)} rows)"

    def __len__(self) -> int:
        return len(self._dataset)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Row `index` as Template.encode returns it; of a slice, a list of them."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        index = operator.index(index)  # numpy's integers too
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return _arrays(self._dataset.encode(index))


class Batch:
    """Sequences packed end to end, without padding: what trainers and models read."""

    def __init__(self, batch: _hone.Batch) -> None:
        self._batch = batch

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Batch:
        """Of rows with `input_ids`, `labels` (as many; -100 where nothing is learned; without them every token is) and `weights`, each a
        list, a numpy array or a torch tensor, and `media` as Template.encode returns them. Labels stand at their own token: the shift by one
        happens here. `routed_experts`, of a Sampler or Trainer.routed_logprobs, are replayed: each token takes these experts of every layer, weighed by
        the trainer's own router. A row may have those of its first tokens only; the router chooses for the rest, and where all of a token's experts
        in a layer are -1."""
        if isinstance(rows, Mapping):
            raise DataError("the rows are a single one", "expected a list of rows: hone.Batch.from_rows([row])")
        encoded, routed = [], []
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping) or "input_ids" not in row:
                raise DataError(f"row {number} has no input_ids", 'expected rows such as {"input_ids": […], "labels": […]}, as Template.encode makes them')
            ids = _ids(row["input_ids"], f"input_ids of row {number}")
            encoded.append((ids, ids if row.get("labels") is None else _labels(row["labels"], number), _weights(row.get("weights"), number), row.get("media")))
            routed.append(row.get("routed_experts"))
        batch = _hone.Batch.make(encoded)
        if any(experts is not None for experts in routed):
            import torch

            batch.routed_experts = torch.from_numpy(_packed_experts(routed, [len(ids) for ids, *_ in encoded]))
        return cls(batch)

    @property
    def input_ids(self) -> torch.Tensor:
        """int64 [tokens]; the trainer's own memory."""
        return self._batch.input_ids

    @property
    def position_ids(self) -> torch.Tensor:
        """int64 [tokens], from 0 in every sequence."""
        return self._batch.position_ids

    @property
    def targets(self) -> torch.Tensor:
        """int64 [tokens]: the token that each position is to predict, or -100."""
        return self._batch.targets

    @property
    def weights(self) -> torch.Tensor | None:
        """float32 [tokens]: what each target weighs; None: all the same."""
        return self._batch.weights

    @property
    def routed_experts(self) -> torch.Tensor | None:
        """int64 [tokens, layers with experts, experts of a token]: those that are replayed, -1 where the router chooses; None: everywhere."""
        return self._batch.routed_experts

    @property
    def cu_seqlens(self) -> list[int]:
        """Where sequences begin, and the end of the last."""
        return self._batch.cu_seqlens

    @property
    def num_targets(self) -> int:
        """Positions with a target."""
        return self._batch.num_targets

    @property
    def num_samples(self) -> int:
        """Rows in this batch."""
        return self._batch.num_samples

    def __repr__(self) -> str:
        return f"Batch({self.num_samples} rows, {self.cu_seqlens[-1]} tokens, {self.num_targets} targets)"

    def __len__(self) -> int:
        return self.num_samples


def require_batch(batch: object) -> None:
    """Raises UsageError unless it is a Batch."""
    require_type(batch, Batch, "a batch", "a hone.Batch: a DataLoader makes them, or hone.Batch.from_rows(rows)")


class DataLoader:
    """Batches of a dataset, made ahead on other threads, in an order that the seed alone decides."""

    def __init__(self, dataset: Dataset, batch_size: int, *, shuffle: bool = True, seed: int = 42, packing: str = "none", drop_last: bool = False,
                 rank: int = 0, world_size: int = 1, mesh: DeviceMesh | None = None) -> None:
        """`packing`: none, binpack, sequential, neat …, then a batch is that many packs of the template's max_length. `rank` of `world_size`
        processes gets its share of every epoch; `mesh` says which and how many."""
        require_type(dataset, Dataset, "dataset", "a hone.Dataset")
        require_type(batch_size, (int, np.integer), "batch_size", "1 or more")
        if mesh:
            rank, world_size = mesh.data_rank, mesh.data_size
        self._batch_size = batch_size
        self._loader = _hone.DataLoader.make(dataset._dataset, int(batch_size), shuffle, seed, packing, drop_last, rank, world_size)

    def __repr__(self) -> str:
        return f"DataLoader({len(self)} batches of {self._batch_size})"

    def __len__(self) -> int:
        """Batches of an epoch."""
        return len(self._loader)

    def next(self) -> Batch:
        """The next batch of an endless sequence of epochs."""
        return Batch(self._loader.next())

    def batches(self, epochs: int = 1) -> Iterator[Batch]:
        """The next batches, as many as `epochs` have."""
        for _ in range(epochs * len(self)):
            yield self.next()

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    @property
    def epoch(self) -> float:
        """Epochs that were taken so far."""
        return self._loader.epoch

    def state(self) -> dict[str, Any]:
        """The position after the last batch."""
        state: dict[str, Any] = json.loads(self._loader.state())
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues after the batch at which `state()` was called."""
        self._loader.restore(json.dumps(dict(state)))
