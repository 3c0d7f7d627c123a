"""Models that train."""
from .megatron import MegatronModel
from .transformers import TransformersModel

__all__ = ["MegatronModel", "TransformersModel"]
