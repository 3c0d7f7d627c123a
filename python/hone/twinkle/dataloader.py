"""Batches of a dataset."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import UsageError, require
from . import processor as processors
from .dataset import Dataset
from .infra import remote_class, remote_function, state
from .platform import DeviceMesh
from .processor import InputProcessor
from .utils import construct

_OF_TORCH = ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "timeout", "max_retries", "worker_init_fn")  # change nothing here


@remote_class(execute="first")
class DataLoader:
    """Lists of rows, in the order of the dataset unless `shuffle` is true. Each data rank of the mesh gets its part of every batch."""

    def __init__(self, dataset: Dataset | Callable[[], Dataset], device_mesh: DeviceMesh | None = None, batch_size: int | None = None,
                 min_batch_size: int | None = None, shuffle: bool = False, drop_last: bool = False, **kwargs: Any) -> None:
        for name in kwargs:
            require(name in _OF_TORCH, "DataLoader's argument", name, "dataset, batch_size, min_batch_size, shuffle, drop_last, device_mesh or remote_group")
        self.device_mesh = device_mesh
        self._shares = device_mesh.data_world_size if device_mesh else 1
        self.batch_size = batch_size or self._shares
        self.min_batch_size = min_batch_size or 1
        self.shuffle, self.drop_last = shuffle, drop_last
        if self.batch_size % self._shares:
            raise UsageError(f"batch_size is {self.batch_size}, and the mesh shares it out to {self._shares} data ranks", "expected a multiple")
        self.dataset = dataset() if callable(dataset) and not isinstance(dataset, Dataset) else dataset
        self.processor: InputProcessor | None = None
        self._consumed = 0
        self._skip = 0
        self._epoch = 0

    @remote_function()
    def set_processor(self, processor_cls: Any, **kwargs: Any) -> None:
        """What turns the rows of a batch into the model's input; without it the model does."""
        self.processor = construct(processor_cls, InputProcessor, processors, **kwargs)

    @remote_function()
    def __len__(self) -> int:
        return len(self.dataset) // self.batch_size if self.drop_last else -(-len(self.dataset) // self.batch_size)

    @remote_function()
    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        return self._batches()

    def _batches(self) -> Iterator[list[dict[str, Any]]]:
        order = np.arange(len(self.dataset))
        if self.shuffle:
            np.random.default_rng((state.seed, self._epoch)).shuffle(order)
        self._epoch += 1
        skip, self._skip = self._skip, 0
        for begin in range(skip, len(order), self.batch_size):
            rows = [self.dataset[int(index)] for index in order[begin:begin + self.batch_size]]
            if len(rows) < max(self._shares, self.min_batch_size, self.batch_size if self.drop_last else 1):
                return
            self._consumed += len(rows)
            own = rows[self.device_mesh.get_slice(len(rows))] if self.device_mesh else rows
            yield self.processor(own) if self.processor else own

    @remote_function(collect="first", lazy_collect=False)
    def get_state(self) -> dict[str, int]:
        """How many rows were taken."""
        return {"consumed_train_samples": self._consumed}

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def resume_from_checkpoint(self, consumed_train_samples: int) -> None:
        """The next iteration starts after that many rows."""
        self._consumed, self._skip = consumed_train_samples, consumed_train_samples % max(len(self.dataset), 1)

    skip_consumed_samples = resume_from_checkpoint
