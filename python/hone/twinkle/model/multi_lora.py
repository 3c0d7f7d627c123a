"""Models that lend adapters: here one adapter a model, which is what a script trains."""
from __future__ import annotations

from typing import Any

from ..infra import remote_class
from ..platform import DeviceMesh
from .megatron import MegatronModel
from .transformers import TransformersModel


@remote_class()
class MultiLoraTransformersModel(TransformersModel):
    """TransformersModel. Room for adapters (`max_loras`, `max_r`, `max_length`) need not be kept; a second one is refused by its name."""

    def __init__(self, model_cls: Any = None, model_id: str | None = None, config: Any = None, device_mesh: DeviceMesh | None = None,
                 max_loras: int = 5, max_r: int = 32, max_length: int = 8192, **kwargs: Any) -> None:
        super().__init__(model_cls=model_cls, model_id=model_id, config=config, device_mesh=device_mesh, **kwargs)


@remote_class()
class MultiLoraMegatronModel(MegatronModel):
    """MegatronModel, likewise."""

    def __init__(self, model_id: str | None = None, config: Any = None, device_mesh: DeviceMesh | None = None, max_loras: int = 5, max_r: int = 32,
                 max_length: int = 8192, **kwargs: Any) -> None:
        super().__init__(model_id=model_id, config=config, device_mesh=device_mesh, **kwargs)
