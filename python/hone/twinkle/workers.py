"""The processes of device groups on a Ray cluster: one for each rank, which holds everything that its group was given."""
from __future__ import annotations

import atexit
import logging
import os
import socket
from typing import Any

from ..errors import UsageError
from .platform import DeviceGroup, Platform
from .utils import get_logger

_started: dict[str, list[Any]] = {}  # by the group's name
_ATTEMPTS = 4  # to start a cluster on a busy machine


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


class Worker:
    """Runs in a process of its own: makes objects, and calls their methods."""

    def __init__(self, environment: dict[str, str]) -> None:
        os.environ.update(environment)
        self._objects: dict[str, Any] = {}
        self._iterators: dict[str, Any] = {}
        from .alias import install_as_parent

        install_as_parent()

    def meeting_point(self) -> tuple[str, int]:
        """Where the processes of a group can find each other, if this is the first."""
        import ray

        return ray.util.get_node_ip_address(), free_port()

    def join(self, environment: dict[str, str]) -> None:
        """Says who this process is. torch's threads share the cores of the machine."""
        os.environ.update(environment)
        import torch

        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // int(environment["LOCAL_WORLD_SIZE"])))

    def make(self, name: str, settings: dict[str, Any], cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An object of the group."""
        from . import infra

        infra.enter_worker(settings)
        self._objects[name] = cls(*args, **kwargs)

    def call(self, name: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method of it. Iterators stay here: their items are sent one by one, with whether they are exhausted."""
        thing = self._objects[name]
        if method == "__iter__":
            self._iterators[name] = iter(thing)
            return None
        if method == "__next__":
            try:
                return next(self._iterators[name]), False
            except StopIteration:
                return None, True
        return getattr(thing, method)(*args, **kwargs)

    def close(self) -> None:
        """Lets go of everything, so that processes part in peace."""
        import gc

        self._iterators.clear()
        self._objects.clear()
        from .processes import leave

        leave()
        gc.collect()


def start_ray() -> None:
    """Joins the cluster that RAY_ADDRESS names, or starts one on this machine."""
    try:
        import ray
    except ImportError as problem:
        raise UsageError("mode is ray, and this environment has no ray", "pip install 'hone[twinkle]', or initialize(mode='local')") from problem
    for attempt in range(_ATTEMPTS):
        if ray.is_initialized():
            return
        try:
            ray.init(log_to_driver=True, include_dashboard=False, logging_level=logging.WARNING)
        except Exception as problem:  # a node that takes longer than half a minute to come up is given up by Ray
            ray.shutdown()
            if "timed out during startup" not in str(problem) or attempt + 1 == _ATTEMPTS:
                raise
            get_logger().warning("Ray did not come up in time on this machine; once more")


def _node_of(rank: int, nproc_per_node: int, nodes: list[str]) -> str:
    return nodes[min(rank // nproc_per_node, len(nodes) - 1)]


def workers_of(group: DeviceGroup, nproc_per_node: int) -> list[Any]:
    """The processes of a group, which are started when they are first needed."""
    if group.name in _started:
        return _started[group.name]
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ranks = group.device_ranks()
    found = sorted((node["NodeManagerAddress"] != ray.util.get_node_ip_address(), node["NodeID"]) for node in ray.nodes() if node["Alive"])
    nodes = [node for _, node in found]
    places = [_node_of(rank, nproc_per_node, nodes) for rank in ranks]
    platform = Platform.get_platform(group.device_type)
    inherited = {name: value for name, value in os.environ.items()
                 if name.startswith(("TWINKLE_", "HONE_", "HF_", "MODELSCOPE_", "ASCEND", "HCCL_")) or name in ("USE_HF", "PYTHONPATH", "LD_LIBRARY_PATH", "PATH")}
    if group.visible_devices and platform.visible_devices_variable:
        inherited[platform.visible_devices_variable] = group.visible_devices
    remote: Any = ray.remote(num_cpus=0)(Worker)
    started = [remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(place, soft=False)).remote(inherited) for place in places]
    address, port = ray.get(started[0].meeting_point.remote())
    visible = len(group.visible_devices.split(",")) if group.visible_devices else 0
    ray.get([worker.join.remote({
        "RANK": str(number), "WORLD_SIZE": str(len(ranks)), "LOCAL_RANK": str(number % visible if visible else rank % nproc_per_node),
        "LOCAL_WORLD_SIZE": str(places.count(place)), "MASTER_ADDR": address, "MASTER_PORT": str(port)})
        for number, (worker, rank, place) in enumerate(zip(started, ranks, places))])
    if not _started:
        atexit.register(stop_workers)
    _started[group.name] = started
    return started


def stop_workers() -> None:
    """Ends the processes of all groups."""
    import ray

    everybody = [worker for workers in _started.values() for worker in workers]
    _started.clear()
    try:
        ray.get([worker.close.remote() for worker in everybody], timeout=30)
    except Exception as problem:  # one of them is gone already
        get_logger().warning("workers did not end by themselves: %s", problem)
    for worker in everybody:
        ray.kill(worker)
