"""What the environment has."""
from __future__ import annotations

import importlib.util
from typing import Any


class Torch:
    """torch's devices."""

    @staticmethod
    def is_torch_available() -> bool:
        """Always: hone computes with it."""
        return True

    @staticmethod
    def is_torch_npu_available() -> bool:
        """Whether torch_npu is installed."""
        return importlib.util.find_spec("torch_npu") is not None

    @staticmethod
    def is_gpu_available() -> bool:
        """Whether there is a GPU."""
        import torch

        return bool(torch.cuda.is_available())

    @staticmethod
    def is_npu_available() -> bool:
        """Whether there is an NPU, and torch_npu for it."""
        if not Torch.is_torch_npu_available():
            return False
        import torch
        import torch_npu  # noqa: F401

        npu: Any = getattr(torch, "npu")
        return bool(npu.is_available() and npu.device_count() > 0)
