"""Kernels: hone has its own."""
from __future__ import annotations

from typing import Any


def npu_builtin(model: Any = None) -> dict[str, Any]:
    """Nothing to exchange."""
    return {}


liger_builtin = npu_builtin


def kernelize(model: Any, mapping: Any = None) -> Any:
    """The model as it is."""
    return model
