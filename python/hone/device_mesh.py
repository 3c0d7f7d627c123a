"""Processes that train together."""
from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field, fields

from .errors import UsageError, require
from .library import _hone


@dataclass(frozen=True)
class DeviceMesh:
    """How the processes of a run share the work out: copies of the model (`dp`), shards of each copy (`fsdp`), processes that split a sequence
    (`sp`, `cp`) or layers (`tp`, of experts `ep`), and stages that rows pass through (`pp`). Their product, but for `ep`, is the number of
    processes.

    Which process this is, how many there are and where they meet is read from RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as
    torchrun sets them. Making a mesh waits for all of them; a process makes one.
    """

    dp: int = 1
    fsdp: int = 1
    sp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    sequence_parallel: bool = False  # Megatron's: rows between the layers that `tp` cuts are dealt out
    device: str = "auto"
    _processes: _hone.Processes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("device", "_processes")}
        for name, size in sizes.items():
            require(size >= (0 if name == "sequence_parallel" else 1), name, size, "1 or more")
        asked = math.prod(size for name, size in sizes.items() if name not in ("sequence_parallel", "ep"))
        there = int(os.environ.get("WORLD_SIZE", "1"))
        if asked != there:
            raise UsageError(f"the mesh has {asked} places and WORLD_SIZE is {there}", "start as many processes, or change the sizes")
        object.__setattr__(self, "_processes", _hone.Processes.join(json.dumps(sizes), self.device))

    @property
    def rank(self) -> int:
        """Which process this is."""
        return self._processes.rank

    @property
    def world_size(self) -> int:
        """How many there are."""
        return self._processes.world_size

    @property
    def data_rank(self) -> int:
        """Whose rows this process computes: those that split a sequence or a layer have the same."""
        return self._processes.data_rank

    @property
    def data_size(self) -> int:
        """Shares that the rows are dealt out to."""
        return self._processes.data_size

    def gather(self, text: str) -> list[str]:
        """The texts of all processes by rank; each waits for the others."""
        return self._processes.gather_text(text)
