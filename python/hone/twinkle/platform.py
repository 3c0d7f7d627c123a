"""Where things run: the platform of this machine, groups of its devices, and meshes of processes."""
from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field

import numpy as np

from ..errors import UsageError

_AXES = ("dp", "fsdp", "tp", "pp", "cp", "ep")


class Platform:
    """Which process this is, and what it computes on."""

    prefix = "cpu"
    visible_devices_variable = ""

    @staticmethod
    def get_platform(platform: str | None = None) -> type[Platform]:
        """The platform of a name (GPU, NPU, CPU), or of this machine."""
        if platform is None:
            return NPU if shutil.which("npu-smi") or os.environ.get("ASCEND_RT_VISIBLE_DEVICES") else GPU if shutil.which("nvidia-smi") else Platform
        kinds = {"GPU": GPU, "CUDA": GPU, "NPU": NPU, "CPU": Platform}
        if platform.upper() not in kinds:
            raise UsageError(f"the platform is {platform!r}", "expected GPU, NPU or CPU")
        return kinds[platform.upper()]

    @classmethod
    def device_prefix(cls) -> str:
        """cuda, npu or cpu."""
        return (cls.get_platform() if cls is Platform else cls).prefix

    @classmethod
    def visible_device_env(cls) -> str:
        """The variable that says which devices a process sees."""
        return (cls.get_platform() if cls is Platform else cls).visible_devices_variable

    @staticmethod
    def get_rank() -> int:
        """Which process this is; -1: the only one."""
        return int(os.environ.get("RANK", -1))

    @staticmethod
    def get_local_rank() -> int:
        """Which of this machine's; -1: the only one."""
        return int(os.environ.get("LOCAL_RANK", -1))

    @staticmethod
    def get_world_size() -> int:
        """How many processes there are."""
        return int(os.environ.get("WORLD_SIZE") or 1)

    @staticmethod
    def is_master() -> bool:
        """Whether this is the first process."""
        return Platform.get_rank() in (-1, 0)


class GPU(Platform):
    """NVIDIA GPUs."""

    prefix = "cuda"
    visible_devices_variable = "CUDA_VISIBLE_DEVICES"


class NPU(Platform):
    """Ascend NPUs."""

    prefix = "npu"
    visible_devices_variable = "ASCEND_RT_VISIBLE_DEVICES"


@dataclass
class DeviceGroup:
    """A named set of devices, each with a process."""

    name: str
    ranks: list[int] | int
    device_type: str = "cuda"
    visible_devices: str | None = None
    gpus_per_worker: int = 1
    _device_mesh: dict[str, DeviceMesh] = field(default_factory=dict)

    def device_ranks(self) -> list[int]:
        """The first device of each process."""
        ranks = list(range(self.ranks)) if isinstance(self.ranks, int) else list(self.ranks)
        return ranks[::self.gpus_per_worker]


@dataclass
class DeviceMesh:
    """Processes on a grid with named axes: `mesh` holds their ranks, `mesh_dim_names` names its axes."""

    mesh: np.ndarray
    mesh_dim_names: tuple[str, ...] | None = ("dp",)
    ep_size: int | None = None
    etp_size: int | None = None
    vpp_size: int | None = None
    ulysses_size: int | None = None
    ep_fsdp_size: int | None = None
    sequence_parallel: bool = False
    device_type: str = "cuda"

    def __post_init__(self) -> None:
        self.mesh = np.asarray(self.mesh)
        names = tuple(self.mesh_dim_names or ())
        if len(names) != self.mesh.ndim or any(name not in _AXES for name in names):
            raise UsageError(f"a mesh of {self.mesh.ndim} axes is named {names}", f"expected a name for each, out of {', '.join(_AXES)}")
        self.mesh_dim_names = names

    @staticmethod
    def from_sizes(*, world_size: int = 1, dp_size: int | None = 1, fsdp_size: int | None = None, tp_size: int | None = None,
                   pp_size: int | None = None, ulysses_size: int | None = None, cp_size: int | None = None, ep_size: int | None = None,
                   etp_size: int | None = None, ep_fsdp_size: int | None = None, vpp_size: int | None = None, device_type: str = "cuda",
                   sequence_parallel: bool = False) -> DeviceMesh:
        """A mesh by the sizes of its axes. A dp_size of None takes the processes that are left of `world_size`."""
        sizes = {name: size for name, size in (("fsdp", fsdp_size), ("pp", pp_size), ("dp", dp_size or 0), ("cp", cp_size), ("tp", tp_size))
                 if size is not None}
        others = int(np.prod([size for name, size in sizes.items() if name != "dp"] or [1]))
        sizes["dp"] = sizes["dp"] or max(world_size // others, 1)
        total = others * sizes["dp"]
        if world_size not in (1, total):
            raise UsageError(f"world_size is {world_size} and the sizes {sizes} make {total}", "let them agree, or leave one out")
        return DeviceMesh(np.arange(total).reshape(list(sizes.values())), tuple(sizes), ep_size=ep_size, etp_size=etp_size, vpp_size=vpp_size,
                          ulysses_size=ulysses_size, ep_fsdp_size=ep_fsdp_size, sequence_parallel=sequence_parallel, device_type=device_type)

    def has_dim(self, name: str) -> bool:
        """Whether the mesh has such an axis."""
        return name in (self.mesh_dim_names or ())

    def _axis(self, name: str) -> int:
        return (self.mesh_dim_names or ()).index(name)

    def get_dim_size(self, name: str) -> int:
        """The number of processes along an axis; 1 where the mesh has none of that name."""
        return self.mesh.shape[self._axis(name)] if self.has_dim(name) else 1

    @property
    def world_size(self) -> int:
        """How many processes there are."""
        return int(self.mesh.size)

    @property
    def dp_world_size(self) -> int:
        """Along dp."""
        return self.get_dim_size("dp")

    @property
    def fsdp_world_size(self) -> int:
        """Along fsdp."""
        return self.get_dim_size("fsdp")

    @property
    def tp_world_size(self) -> int:
        """Along tp."""
        return self.get_dim_size("tp")

    @property
    def pp_world_size(self) -> int:
        """Along pp."""
        return self.get_dim_size("pp")

    def coordinate(self, rank: int, name: str) -> int:
        """Where a process lies along an axis; 0 for one that is not in the mesh."""
        found = np.argwhere(self.mesh == rank)
        return int(found[0][self._axis(name)]) if len(found) and self.has_dim(name) else 0

    def get_data_rank_from_global_rank(self, rank: int) -> int:
        """Whose rows a process computes: its position over dp and fsdp; processes that split sequences have the same."""
        return (self.coordinate(rank, "dp") * self.fsdp_world_size + self.coordinate(rank, "fsdp")) // (self.ulysses_size or 1)

    @property
    def data_rank(self) -> int:
        """The same of this process."""
        return self.get_data_rank_from_global_rank(max(Platform.get_rank(), 0))

    @property
    def data_world_size(self) -> int:
        """Shares that rows are dealt out to."""
        return self.dp_world_size * self.fsdp_world_size // (self.ulysses_size or 1)

    def get_slice(self, total_length: int, rank: int | None = None) -> slice:
        """The rows of a data rank: ranges next to each other whose lengths differ by one at most."""
        rank = self.data_rank if rank is None else rank
        share, more = divmod(total_length, self.data_world_size)
        begin = rank * share + min(rank, more)
        return slice(begin, begin + share + (rank < more))

    def get_pp_last_ranks(self) -> list[int]:
        """The processes of the last pipeline stage."""
        if not self.has_dim("pp"):
            return sorted(self.mesh.flatten().tolist())
        return sorted(np.take(self.mesh, -1, axis=self._axis("pp")).flatten().tolist())
