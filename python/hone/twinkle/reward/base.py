"""What a reward is, and what it reads."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def answer_of(trajectory: Mapping[str, Any]) -> str:
    """The text of the last answer."""
    return next((message.get("content") or "" for message in reversed(trajectory.get("messages") or []) if message.get("role") == "assistant"), "")


def known(trajectory: Mapping[str, Any], name: str) -> str | None:
    """What the trajectory's user_data has under a name."""
    return next((item[1] for item in trajectory.get("user_data") or [] if len(item) == 2 and item[0] == name), None)


class Reward:
    """Scores trajectories by their last answers."""

    def __call__(self, trajectories: Sequence[Mapping[str, Any]], ground_truths: Sequence[Mapping[str, Any]] | None = None) -> list[float]:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(trajectories, ground_truths)")
