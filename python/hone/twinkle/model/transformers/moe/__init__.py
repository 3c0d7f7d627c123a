"""Mixtures of experts."""
from .router_replay import RouterReplayAction

__all__ = ["RouterReplayAction"]
