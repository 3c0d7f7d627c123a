"""The model of Hugging Face's layout."""
from .transformers import TransformersModel

__all__ = ["TransformersModel"]
