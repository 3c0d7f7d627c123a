"""A mesh of Twinkle's as processes that train together."""
from __future__ import annotations

import os
from typing import Any

from ..device_mesh import DeviceMesh as Processes
from ..errors import UsageError
from .platform import DeviceMesh, Platform
from .utils import get_logger, not_supported

_joined: dict[tuple[tuple[str, int], ...], Processes] = {}  # a process meets the others once


def axis_sizes(mesh: DeviceMesh | None, world_size: int, whole: bool = False) -> dict[str, int]:
    """The axes of hone's mesh for one of Twinkle's; `whole`: shards count as copies."""
    if mesh is None or (mesh.world_size == 1 and world_size > 1):  # np.array([6]) is how scripts say: six processes, each with rows of its own
        return {"dp": world_size}
    if mesh.world_size != world_size:
        raise UsageError(f"the mesh has {mesh.world_size} places, and the group {world_size} processes", "make a mesh of the group's size")
    if (mesh.vpp_size or 1) > 1:
        get_logger().info("vpp %s: a process has one stage; the numbers are the same, stages wait longer for each other", mesh.vpp_size)
    sizes = {name: mesh.get_dim_size(name) for name in ("dp", "fsdp", "tp", "pp", "cp")}
    sizes["ep"] = mesh.ep_size or mesh.get_dim_size("ep")
    split = mesh.ulysses_size or 1
    if split > 1:
        axis = "fsdp" if sizes["fsdp"] % split == 0 else "dp"
        if sizes[axis] % split:
            raise UsageError(f"ulysses_size is {split} on a mesh of dp {sizes['dp']} x fsdp {sizes['fsdp']}", "make fsdp or dp a multiple of it")
        sizes[axis] //= split
        sizes["sp"] = split
    reason = "this optimizer reads whole matrices" if whole else "experts are divided among the processes, and the other weights are not" if sizes["ep"] > 1 else ""
    if reason and sizes["fsdp"] > 1:
        get_logger().info("fsdp %s counts as dp: %s", sizes["fsdp"], reason)
        sizes["dp"], sizes["fsdp"] = sizes["dp"] * sizes["fsdp"], 1
    return sizes


def _rank(mesh: DeviceMesh | None, sizes: dict[str, int], rank: int) -> int:
    """The process's number where axes are in the order pp, dp, fsdp, cp, sp, tp."""
    if mesh is None or mesh.world_size == 1:
        return rank
    number = mesh.coordinate(rank, "pp")
    number = number * mesh.dp_world_size + mesh.coordinate(rank, "dp")
    number = number * mesh.fsdp_world_size + mesh.coordinate(rank, "fsdp")
    number = number * mesh.get_dim_size("cp") + mesh.coordinate(rank, "cp")
    return number * mesh.tp_world_size + mesh.coordinate(rank, "tp")


def check_mesh(mesh: DeviceMesh | None) -> None:
    """Refuses one of more places than there are processes."""
    if mesh is not None and mesh.world_size > 1 and Platform.get_world_size() == 1:
        raise UsageError(f"the mesh has {mesh.world_size} places, and this process is alone",
                         f"start it with torchrun --nproc_per_node {mesh.world_size}, or initialize(mode='ray')")


def processes_of(mesh: DeviceMesh | None, whole: bool = False) -> Processes | None:
    """The processes of a mesh, once they have found each other; None: this one is alone. `whole`: shards count as copies."""
    world_size = Platform.get_world_size()
    check_mesh(mesh)
    if world_size == 1:
        return None
    sizes = axis_sizes(mesh, world_size, whole)
    key = tuple(sorted(sizes.items()))
    if key not in _joined:
        if _joined:
            raise not_supported("a second mesh of other sizes in the same processes", "give it a device group of its own")
        own = os.environ["RANK"]
        os.environ["RANK"] = str(_rank(mesh, sizes, int(own)))
        try:
            settings: dict[str, Any] = {**sizes, **_settings(mesh)}
            _joined[key] = Processes(**settings)
        finally:
            os.environ["RANK"] = own
    return _joined[key]


def _settings(mesh: DeviceMesh | None) -> dict[str, Any]:
    return {"sequence_parallel": True} if mesh is not None and mesh.sequence_parallel and mesh.tp_world_size > 1 else {}


def leave() -> None:
    """Forgets the others."""
    _joined.clear()
