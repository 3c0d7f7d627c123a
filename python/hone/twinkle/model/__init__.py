"""Models that train."""
from .megatron import MegatronModel
from .multi_lora import MultiLoraMegatronModel, MultiLoraTransformersModel
from .transformers import TransformersModel

__all__ = ["MegatronModel", "MultiLoraMegatronModel", "MultiLoraTransformersModel", "TransformersModel"]
