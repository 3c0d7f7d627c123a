"""initialize, remote classes and remote functions: local, or over the workers of device groups on Ray."""
from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import UsageError
from .dispatch import Call, Collect, Dispatch, LazyResult, collect_results, dispatch_calls, fetched, is_lazy
from .platform import DeviceGroup, DeviceMesh, Platform
from .utils import not_supported

__all__ = ["DeviceGroup", "DeviceMesh", "get_device_placement", "initialize", "is_master", "remote_class", "remote_function"]


@dataclass
class _State:
    """The arguments of initialize()."""

    mode: str = "local"
    groups: list[DeviceGroup] = field(default_factory=list)
    mesh: DeviceMesh | None = None
    lazy: bool = True
    seed: int = 42
    nproc_per_node: int = 8
    own_group: str | None = None  # of a worker
    made: int = 0  # remote objects so far


state = _State()


def initialize(mode: str = "local", nproc_per_node: int = 8, ncpu_proc_per_node: int = 8, seed: int = 42, full_determinism: bool = False,
               groups: list[DeviceGroup] | None = None, global_device_mesh: DeviceMesh | None = None, lazy_collect: bool = True,
               name: str | None = None, notifier: Any = None) -> None:
    """Says where classes live. `mode` local: in this process, or in those that torchrun started; ray: in the workers of `groups`.
    `lazy_collect`: remote methods return at once, and a call gives their results. hone's passes are deterministic by themselves."""
    if mode not in ("local", "ray"):
        raise UsageError(f"mode is {mode!r}", "expected local or ray")
    if notifier is not None:
        raise not_supported("a notifier", "leave it out")
    if mode == "ray" and not groups:
        raise UsageError("mode is ray, and there are no groups", "name the devices: groups=[DeviceGroup('model', [0, 1], device_type='npu')]")
    state.mode, state.groups, state.mesh, state.lazy = mode, list(groups or ()), global_device_mesh, lazy_collect
    state.seed, state.nproc_per_node = seed, nproc_per_node
    _seed_everything(seed)
    if mode == "ray":
        from .workers import start_ray

        start_ray()
    elif not state.groups:
        state.groups = [DeviceGroup("default", list(range(Platform.get_world_size())), Platform.device_prefix())]


def _seed_everything(seed: int) -> None:
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def is_master() -> bool:
    """Whether this is the first process."""
    return Platform.is_master()


def enter_worker(settings: dict[str, Any]) -> None:
    """The arguments of initialize(), in a worker."""
    first = state.own_group is None
    for key, value in settings.items():
        setattr(state, key, value)
    if first:
        _seed_everything(state.seed)


def _group(name: str) -> DeviceGroup:
    for group in state.groups:
        if group.name == name:
            return group
    raise UsageError(f"remote_group is {name!r}", f"initialize() was given {', '.join(group.name for group in state.groups)}")


def remote_class(execute: str = "peer") -> Callable[[type], type]:
    """A class whose objects may live in the workers of a group: its constructor takes `remote_group`. `execute` first: in one of them."""
    _check_execute(execute)

    def decorate(cls: type) -> type:
        original: Callable[..., None] = getattr(cls, "__init__")
        takes_mesh = any(parameter.name == "device_mesh" or "DeviceMesh" in str(parameter.annotation)
                         for parameter in inspect.signature(original).parameters.values())

        @functools.wraps(original)
        def begin(self: Any, *args: Any, **kwargs: Any) -> None:
            if type(self).__init__ is not begin and getattr(type(self).__init__, "_remote", False):
                original(self, *args, **kwargs)  # of a class below, which has seen to it
            else:
                _begin(self, original, takes_mesh, execute, args, kwargs)

        setattr(begin, "_remote", True)
        setattr(cls, "__init__", begin)
        return cls

    return decorate


def _check_execute(execute: str) -> None:
    if execute not in ("first", "peer", "all"):
        raise UsageError(f"execute is {execute!r}", "expected first, peer or all")


# Classes of a script are sent to workers with their code. What reads this process's state is here, where workers find it too.
def _begin(self: Any, original: Callable[..., Any], takes_mesh: bool, execute: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    remote_group = kwargs.pop("remote_group", None)
    kwargs.pop("instance_id", None)
    mesh = next((value for value in (*args, *kwargs.values()) if isinstance(value, DeviceMesh)), None)
    if takes_mesh and mesh is None and (remote_group or state.mode == "local"):
        mesh = kwargs["device_mesh"] = state.mesh
    if execute == "first" and state.mode == "ray":
        mesh = DeviceMesh.from_sizes()
        if takes_mesh:
            kwargs["device_mesh"] = mesh
    if not takes_mesh:
        kwargs = {name: value for name, value in kwargs.items() if not isinstance(value, DeviceMesh)}
    if mesh is not None:
        for group in state.groups:
            if group.name == remote_group or (not remote_group and state.mode == "local"):
                group._device_mesh[type(self).__name__] = mesh
    if state.mode == "ray" and remote_group and remote_group != state.own_group:
        _make_remote(self, execute, remote_group, mesh, args, kwargs)
    else:
        original(self, *args, **kwargs)
    self.remote_group = remote_group


def _make_remote(handle: Any, execute: str, remote_group: str, mesh: DeviceMesh | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if state.own_group is not None:
        raise not_supported(f"an object of the group {remote_group!r} that a worker of {state.own_group!r} makes", "make it in the script itself")
    import ray

    from .workers import workers_of

    cls = type(handle)
    group = _group(remote_group)
    workers = workers_of(group, state.nproc_per_node)
    handle._workers = workers[:1] if execute == "first" else workers
    handle.device_mesh = mesh
    state.made += 1
    handle._instance = f"{cls.__name__}-{state.made}"
    settings = {"mode": "ray", "groups": [group], "mesh": state.mesh, "lazy": False, "seed": state.seed, "own_group": remote_group}
    ray.get([worker.make.remote(handle._instance, settings, cls, args, {**kwargs, "remote_group": remote_group}) for worker in handle._workers])


def remote_function(dispatch: Dispatch = "slice", execute: str = "all", collect: Collect = "none", sync: bool = False,
                    lazy_collect: bool | None = None, timeout: float | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A method that workers run. `dispatch`: which of the arguments each gets; `execute`: who runs it; `collect`: what becomes of the
    results; `sync`: wait for them; `lazy_collect`: return at once (None: as in initialize())."""
    _check_execute(execute)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not hasattr(self, "_workers"):
                args, kwargs = _here(self, dispatch, args, kwargs)
                return function(self, *args, **kwargs)
            return _away(self, function.__name__, dispatch, execute, collect, not sync and lazy_collect, timeout, args, kwargs)

        for name, value in (("_dispatch", dispatch), ("_execute", execute), ("_collect", collect)):
            setattr(call, name, value)
        return call

    return decorate


def _here(self: Any, dispatch: Dispatch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """The arguments of a call that has arrived. The driver could not cut what it did not have."""
    if not any(map(is_lazy, (*args, *kwargs.values()))):
        return args, kwargs
    args, kwargs = fetched(args, kwargs)
    mesh = getattr(self, "device_mesh", None)
    return dispatch_calls(dispatch, Platform.get_world_size(), mesh, args, kwargs)[max(Platform.get_rank(), 0)]


def _away(self: Any, name: str, dispatch: Dispatch, execute: str, collect: Collect, lazy: bool | None, timeout: float | None, args: tuple[Any, ...],
          kwargs: dict[str, Any]) -> Any:
    import ray

    mesh = getattr(self, "device_mesh", None)
    workers = self._workers[:1] if execute == "first" else self._workers
    unseen = any(map(is_lazy, (*args, *kwargs.values())))
    calls = dispatch_calls("all" if unseen else dispatch, len(workers), mesh, args, kwargs)
    references = [worker.call.remote(self._instance, name, *each) for worker, each in zip(workers, calls)]
    if name == "__iter__":
        ray.get(references)
        return _RemoteIterator(self, workers, collect, mesh)
    if name == "__len__":
        return ray.get(references[0])
    if state.lazy if lazy is None else lazy:
        return LazyResult(references, collect, mesh)
    return collect_results(collect, ray.get(references, timeout=timeout), mesh)


class _RemoteIterator:
    """Takes the items of workers' iterators; ends when one of theirs does."""

    def __init__(self, handle: Any, workers: list[Any], collect: Collect, mesh: DeviceMesh | None) -> None:
        self._handle, self._workers, self._collect, self._mesh = handle, workers, collect, mesh

    def __iter__(self) -> _RemoteIterator:
        return self

    def __next__(self) -> Any:
        import ray

        found = ray.get([worker.call.remote(self._handle._instance, "__next__", (), {}) for worker in self._workers])
        if any(over for _, over in found):
            raise StopIteration
        return collect_results(self._collect, [item for item, _ in found], self._mesh)


def get_device_placement(device_group: list[DeviceGroup] | None = None) -> str:
    """The groups, their devices, and the meshes of what lives there, as text."""
    lines = ["device placement"]
    for group in device_group or state.groups:
        lines.append(f"  {group.name}: {group.device_type} {', '.join(map(str, group.device_ranks()))}")
        for name, mesh in group._device_mesh.items():
            axes = " x ".join(f"{axis} {size}" for axis, size in zip(mesh.mesh_dim_names or (), mesh.mesh.shape))
            lines.append(f"    {name}: {axes}" + (f", sequences over {mesh.ulysses_size}" if (mesh.ulysses_size or 1) > 1 else ""))
    return "\n".join(lines)
