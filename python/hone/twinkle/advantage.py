"""Rewards to advantages, over the answers of a prompt."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import UsageError, require


def _groups(rewards: Any, num_generations: int) -> torch.Tensor:
    rewards = torch.as_tensor(rewards, dtype=torch.float32)
    if rewards.dim() > 1:
        rewards = rewards.sum(-1)
    if num_generations < 1 or rewards.numel() % num_generations:
        raise UsageError(f"num_generations is {num_generations}, and there are {rewards.numel()} rewards", "expected as many for every prompt")
    groups: torch.Tensor = rewards.view(-1, num_generations)
    return groups


def _scaled(advantages: torch.Tensor, groups: torch.Tensor, scale: str) -> torch.Tensor:
    require(scale in ("group", "batch", "none"), "scale", scale, "group, batch or none")
    if scale == "group":
        advantages = advantages / (groups.std(1, keepdim=True) + 1e-8)
    elif scale == "batch" and groups.numel() > 1:
        advantages = advantages / (groups.std() + 1e-8)
    return advantages.view(-1)


class Advantage:
    """Turns rewards into advantages."""

    def __call__(self, rewards: Sequence[float], num_generations: int = 1, scale: str = "group", **kwargs: Any) -> torch.Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(rewards, num_generations, scale)")


class GRPOAdvantage(Advantage):
    """The reward minus the mean of the prompt's answers. One answer a prompt has no group: `batch` and `none` take the mean of all."""

    def __call__(self, rewards: Sequence[float], num_generations: int = 1, scale: str = "group", **kwargs: Any) -> torch.Tensor:
        groups = _groups(rewards, num_generations)
        if num_generations == 1:
            return groups.view(-1) if scale == "group" else _scaled(groups - groups.mean(), groups, scale)
        return _scaled(groups - groups.mean(1, keepdim=True), groups, scale)


class RLOOAdvantage(Advantage):
    """The reward minus the mean of the prompt's other answers."""

    def __call__(self, rewards: Sequence[float], num_generations: int = 1, scale: str = "group", **kwargs: Any) -> torch.Tensor:
        require(num_generations > 1, "num_generations", num_generations, "2 or more")
        groups = _groups(rewards, num_generations)
        others = (groups.sum(1, keepdim=True) - groups) / (num_generations - 1)
        return _scaled(groups - others, groups, scale)
