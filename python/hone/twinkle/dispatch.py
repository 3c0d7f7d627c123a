"""How a call is shared out over workers, and how their results become one."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UsageError
from .data_format import ModelOutput
from .platform import DeviceMesh

Call = tuple[tuple[Any, ...], dict[str, Any]]
Dispatch = str | Callable[..., Any]
Collect = str | Callable[..., Any]


def _count(value: Any, tensors: bool) -> int | None:
    """Rows of what is cut: lists, outputs of models, and `tensors`. Anything else goes to everybody."""
    if isinstance(value, ModelOutput):
        return len(value["logps"])
    is_tensor = type(value).__module__ == "torch" and hasattr(value, "dim") and value.dim() > 0
    return len(value) if isinstance(value, list) or (tensors and is_tensor) else None


def _even(length: int, count: int) -> list[slice]:
    share, more = divmod(length, count)
    begins = [i * share + min(i, more) for i in range(count + 1)]
    return [slice(begin, end) for begin, end in zip(begins, begins[1:])]


def _by_data_rank(mesh: DeviceMesh | None, length: int, count: int) -> list[slice]:
    if mesh is None:
        return _even(length, count)
    stride = max(mesh.world_size // count, 1)  # a worker with several devices has as many ranks
    return [mesh.get_slice(length, mesh.get_data_rank_from_global_rank(worker * stride)) for worker in range(count)]


def dispatch_calls(dispatch: Dispatch, count: int, mesh: DeviceMesh | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Call]:
    """The arguments for each of `count` workers."""
    if callable(dispatch):
        try:
            return [dispatch(count, i, args, kwargs, mesh) for i in range(count)]
        except TypeError:  # without the mesh, as older scripts have them
            return [dispatch(count, i, args, kwargs) for i in range(count)]
    if dispatch in ("all", "last_pp_first"):
        return [(args, kwargs)] * count
    if dispatch not in ("slice", "slice_dp"):
        raise UsageError(f"dispatch is {dispatch!r}", "expected slice, slice_dp, all, last_pp_first or a function")

    def cut(value: Any) -> list[Any]:
        length = _count(value, tensors=dispatch == "slice_dp")
        if length is None:
            return [value] * count
        ranges = _even(length, count) if dispatch == "slice" else _by_data_rank(mesh, length, count)
        return [value.part(rows) if isinstance(value, ModelOutput) else value[rows] for rows in ranges]

    cut_args = [cut(value) for value in args]
    cut_kwargs = {name: cut(value) for name, value in kwargs.items()}
    return [(tuple(parts[i] for parts in cut_args), {name: parts[i] for name, parts in cut_kwargs.items()}) for i in range(count)]


def collect_results(collect: Collect, results: list[Any], mesh: DeviceMesh | None) -> Any:
    """One result out of those of the workers."""
    if callable(collect):
        try:
            return collect(results, device_mesh=mesh)
        except TypeError:
            return collect(results)
    if collect == "last_pp":
        last = mesh.get_pp_last_ranks() if mesh else range(len(results))
        results = [result for rank, result in enumerate(results) if rank in last]
        return results[0] if len(results) == 1 else results
    if not results:
        return results
    if isinstance(results[0], tuple):  # each of its parts by itself
        return [collect_results(collect, [result[i] for result in results], mesh) for i in range(len(results[0]))]
    if collect == "none":
        return results[0] if len(results) == 1 else results
    if collect == "first":
        return results[0]
    if collect == "flatten":
        flat = [item for result in results for item in result]
        return np.array(flat) if isinstance(results[0], np.ndarray) else type(results[0])(flat)
    if collect in ("mean", "avg", "sum"):
        known = [result for result in results if result is not None]
        if not known:
            return None
        return np.sum(known).item() if collect == "sum" else np.mean(known).item()
    raise UsageError(f"collect is {collect!r}", "expected none, flatten, mean, sum, first, last_pp or a function")


class LazyResult:
    """What workers are still computing. A call gives it; passed to another remote method, it is fetched there, not here."""

    _is_lazy_collect = True

    def __init__(self, references: list[Any], collect: Collect, mesh: DeviceMesh | None) -> None:
        self._references: list[Any] | None = references
        self._collect = collect
        self._mesh = mesh

    def __call__(self) -> Any:
        if self._references is not None:
            import ray

            self._value = collect_results(self._collect, ray.get(self._references), self._mesh)
            self._references = None
        return self._value

    def __iter__(self) -> Any:
        return iter(self())

    def __len__(self) -> int:
        return len(self())

    def __getitem__(self, key: Any) -> Any:
        return self()[key]


def is_lazy(value: Any) -> bool:
    """Whether a value is a result that is still computed."""
    return getattr(value, "_is_lazy_collect", False)


def fetched(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The arguments with lazy ones fetched."""
    return tuple(value() if is_lazy(value) else value for value in args), {name: value() if is_lazy(value) else value for name, value in kwargs.items()}
