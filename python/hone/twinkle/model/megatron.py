"""Megatron's model: the same as the other one here, whose mesh may have tp, pp, cp and ep."""
from __future__ import annotations

from typing import Any

from ..infra import remote_class
from ..platform import DeviceMesh
from .transformers import TransformersModel


@remote_class()
class MegatronModel(TransformersModel):
    """A model whose passes without gradients measure the loss, too. Settings of Megatron's own kernels and memory change nothing here."""

    _measures = True

    def __init__(self, model_id: str | None = None, config: Any = None, device_mesh: DeviceMesh | None = None, mixed_precision: str = "bf16",
                 **kwargs: Any) -> None:
        for name in ("load_weights", "recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules", "params_dtype",
                     "use_megatron_bridge", "variable_seq_lengths", "moe_token_dispatcher_type", "attention_backend"):
            kwargs.pop(name, None)
        super().__init__(model_id=model_id, config=config, device_mesh=device_mesh, mixed_precision=mixed_precision, **kwargs)
