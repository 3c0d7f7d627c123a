"""Rows of files and hubs, mapped, filtered and encoded."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .. import errors
from ..library import _hone
from . import preprocessor
from . import template as templates
from .infra import remote_class, remote_function
from .preprocessor import DataFilter, Preprocessor
from .template import Template
from .utils import construct, local_name, not_supported


@dataclass
class DatasetMeta:
    """Which rows: a file, a folder or a hub's dataset (ms://org/name, hf://org/name), its subset and split; `data_slice` picks rows by number."""

    dataset_id: str
    subset_name: str = "default"
    split: str = "train"
    data_slice: Iterable[int] | None = None

    def get_id(self) -> str:
        """What the dataset is called among several."""
        return f"{self.dataset_id}:{self.subset_name}:{self.split}"

    def read(self) -> list[dict[str, Any]]:
        """The rows."""
        rows = [json.loads(row) for row in _hone.read_rows(local_name(self.dataset_id), self.subset_name, self.split)]
        return rows if self.data_slice is None else [rows[number % len(rows)] for number in self.data_slice]


def _is_batched(work: Callable[..., Any]) -> bool:
    """Whether a preprocessor of a script takes columns: newer ones do, and say so with the helpers of their base."""
    called: Any = getattr(type(work), "__call__", None)
    return isinstance(work, Preprocessor) and called is not Preprocessor.__call__ and "map_col_to_row" in called.__code__.co_names


@remote_class(execute="first")
class Dataset:
    """Rows of one or more datasets."""

    def __init__(self, dataset_meta: DatasetMeta | None = None, **kwargs: Any) -> None:
        self.datasets: dict[str, list[dict[str, Any]]] = {}
        self.dataset: list[dict[str, Any]] = []
        self.template: Template | None = None
        if dataset_meta is not None:
            self._add(dataset_meta, kwargs)

    def _add(self, meta: DatasetMeta, options: Mapping[str, Any]) -> None:
        if options.get("streaming"):
            raise not_supported("streaming", "leave it out: rows are read once")
        self.datasets[meta.get_id()] = meta.read()
        if len(self.datasets) == 1:
            self.dataset = self.datasets[meta.get_id()]

    @remote_function()
    def set_template(self, template_func: Template | type[Template] | str, **kwargs: Any) -> None:
        """What encodes the rows: a template, its class or its name."""
        self.template = construct(template_func, Template, templates, **kwargs)

    @remote_function()
    def map(self, preprocess_func: Any, dataset_meta: DatasetMeta | None = None, init_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Every row becomes what a function or a preprocessor (also its class or name) makes of it; None leaves it out."""
        work = construct(preprocess_func, Preprocessor, preprocessor, **(init_args or {}))
        if kwargs.get("batched") or _is_batched(work):
            self._replace(dataset_meta, lambda rows: Preprocessor.map_col_to_row(work(Preprocessor.map_row_to_col(rows))))
        else:
            self._replace(dataset_meta, lambda rows: [made for made in map(work, rows) if made is not None])

    @remote_function()
    def filter(self, filter_func: Any, dataset_meta: DatasetMeta | None = None, init_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Keeps the rows for which a function or a DataFilter is true."""
        keep = construct(filter_func, DataFilter, preprocessor, **(init_args or {}))
        self._replace(dataset_meta, lambda rows: [row for row in rows if keep(row)])

    def _replace(self, meta: DatasetMeta | None, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        if not self.datasets:
            raise errors.UsageError("there is no dataset", "name one when it is made, or call add_dataset() first")
        if meta is None and len(self.datasets) > 1:
            raise errors.UsageError("there are several datasets, and none is named", f"say which with dataset_meta: {', '.join(self.datasets)}")
        key = meta.get_id() if meta else next(iter(self.datasets))
        if key not in self.datasets:
            raise errors.UsageError(f"there is no dataset {key}", f"there are {', '.join(self.datasets)}")
        self.datasets[key] = change(self.datasets[key])
        if len(self.datasets) == 1:
            self.dataset = self.datasets[key]

    @remote_function()
    def add_dataset(self, dataset_meta: DatasetMeta, **kwargs: Any) -> None:
        """Another dataset, for mix_dataset; the first one is there at once."""
        self._add(dataset_meta, kwargs)

    @remote_function()
    def mix_dataset(self, interleave: bool = True) -> None:
        """One out of all: interleaved until the first ends, or one after the other."""
        parts = list(self.datasets.values())
        self.dataset = [row for rows in (zip(*parts) if interleave else parts) for row in rows]

    @remote_function()
    def encode(self, add_generation_prompt: bool = False, **kwargs: Any) -> None:
        """Rows get their tokens. `batched`, `num_proc` and what else datasets.map takes change nothing here."""
        self.dataset = self._encoder().batch_encode(self.dataset, add_generation_prompt)

    @remote_function()
    def check(self, **kwargs: Any) -> None:
        """Drops rows that cannot be encoded."""
        encoder = self._encoder()
        self.dataset = [row for row in self.dataset if encoder.check(row) is not None]

    def _encoder(self) -> Template:
        if self.template is None:
            raise errors.UsageError("the dataset has no template", "call set_template() first")
        return self.template

    @remote_function()
    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.dataset[index]

    @remote_function()
    def __len__(self) -> int:
        return len(self.dataset)

    @remote_function()
    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.dataset)


LazyDataset = Dataset
