"""What answers are worth."""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ... import rewards
from ..infra import remote_class, remote_function
from .base import Reward, answer_of, known


@remote_class()
class MathReward(Reward):
    """1 for an answer that equals the solution, -1 for another; both as hone's accuracy reward reads them."""

    def __init__(self, ground_truth_key: str = "solution") -> None:
        self.ground_truth_key = ground_truth_key

    @remote_function()
    def __call__(self, trajectories: Sequence[Mapping[str, Any]], ground_truths: Sequence[Mapping[str, Any]] | None = None) -> list[float]:
        truths = [known(row, self.ground_truth_key) or answer_of(row) for row in ground_truths or trajectories]
        scores = rewards.score("accuracy", [answer_of(row) for row in trajectories], [{"solution": truth} for truth in truths])
        return [1.0 if score == 1 else -1.0 for score in scores]


@remote_class()
class FormatReward(Reward):
    """1 for an answer with <think> and <answer>."""

    @remote_function()
    def __call__(self, trajectories: Sequence[Mapping[str, Any]], ground_truths: Sequence[Mapping[str, Any]] | None = None) -> list[float]:
        tags = [re.compile(f"<{tag}>.*?</{tag}>", re.S) for tag in ("think", "answer")]
        return [float(all(tag.search(answer_of(row)) for tag in tags)) for row in trajectories]


def _boxed(text: str) -> str:
    """What stands in the last \\boxed{…}."""
    begin = text.rfind("\\boxed{")
    depth = 0
    for position in range(begin + 6, len(text) if begin >= 0 else 0):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[begin + 7:position].strip()
    return ""


class GSM8KAccuracyReward(Reward):
    """1 for the number that the row's ground_truth is, in \\boxed{} or behind ####."""

    def __call__(self, trajectories: Sequence[Mapping[str, Any]], ground_truths: Any = None, **kwargs: Any) -> list[float]:
        return [float(self._same(self.extract_answer(answer_of(row)), known(row, "ground_truth") or "")) for row in trajectories]

    @staticmethod
    def extract_answer(completion: str) -> str:
        """The answer's number, as text."""
        marked = re.findall(r"####\s*([-\d,.]+)", completion)
        return (_boxed(completion) or (marked[-1] if marked else "")).replace(",", "").replace(" ", "")

    @staticmethod
    def _same(answer: str, truth: str) -> bool:
        try:
            return abs(float(answer) - float(truth)) < 1e-5
        except ValueError:
            return bool(answer) and answer == truth


class GSM8KFormatReward(Reward):
    """1 for an answer with \\boxed{…}."""

    def __call__(self, trajectories: Sequence[Mapping[str, Any]], ground_truths: Any = None, **kwargs: Any) -> list[float]:
        return [float(bool(_boxed(answer_of(row)))) for row in trajectories]
