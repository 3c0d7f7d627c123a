"""Twinkle's Python interface, implemented by hone.

    import hone.twinkle as twinkle

Scripts that say `import twinkle` run as they are with `python -m hone.twinkle script.py`, or after `hone.twinkle.install()`. Neither hides an
installed twinkle-kit unless asked to. docs/python.md says what is there; what is not raises an error that names it.
"""
import importlib
from typing import TYPE_CHECKING

from .alias import install

if TYPE_CHECKING:
    from .infra import get_device_placement, initialize, is_master, remote_class, remote_function
    from .platform import GPU, NPU, DeviceGroup, DeviceMesh, Platform
    from .utils import get_logger

_HOMES = {"initialize": "infra", "remote_class": "infra", "remote_function": "infra", "get_device_placement": "infra", "is_master": "infra",
          "DeviceMesh": "platform", "DeviceGroup": "platform", "Platform": "platform", "GPU": "platform", "NPU": "platform", "get_logger": "utils"}
__all__ = ["install", *_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"hone's twinkle has no {name!r}")


def __dir__() -> list[str]:
    return __all__
