"""Preprocessors of datasets by their columns."""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..data_format import Message, Trajectory
from .base import Preprocessor

Row = Mapping[str, Any]


def _messages(*turns: tuple[str, str | None]) -> list[Message]:
    return [Message(role=role, content=content) for role, content in turns if content is not None]


class CompetitionMathProcessor(Preprocessor):
    """problem and solution as a question and its answer."""

    def preprocess(self, row: Row) -> Trajectory:
        return Trajectory(messages=_messages(("user", row["problem"]), ("assistant", row["solution"])))


class CompetitionMathGRPOProcessor(Preprocessor):
    """problem as a question, and the solution for the reward."""

    system = "You are a helpful math assistant. Respond with only the final answer in the form \\boxed{...} and nothing else."

    def preprocess(self, row: Row) -> Trajectory:
        return Trajectory(messages=_messages(("system", self.system), ("user", row["problem"]), ("assistant", "")),
                          user_data=[("solution", row["solution"])])


class SelfCognitionProcessor(Preprocessor):
    """query and response about the model itself, with its name and author in their places."""

    def __init__(self, model_name: str | None = None, model_author: str | None = None) -> None:
        self.model_name, self.model_author = model_name or "twinkle robot", model_author or "twinkle lab"

    def _named(self, text: str) -> str:
        return text.replace("{{NAME}}", self.model_name).replace("{{AUTHOR}}", self.model_author)

    def preprocess(self, row: Row) -> Trajectory:
        return Trajectory(messages=_messages(("system", "You are a helpful assistant."), ("user", self._named(row["query"])),
                                             ("assistant", self._named(row["response"]))))


class AlpacaProcessor(Preprocessor):
    """instruction, input and output."""

    def preprocess(self, row: Row) -> Trajectory:
        question = "\n".join(part for part in (row.get("instruction"), row.get("input")) if part)
        return Trajectory(messages=_messages(("user", question), ("assistant", row.get("output") or "")))


class GSM8KProcessor(Preprocessor):
    """question, and the number behind #### of the answer for the reward."""

    system_prompt = "You are a helpful math assistant. Solve the problem step by step and put your final answer within \\boxed{}."

    def __init__(self, system: str | None = None, add_assistant: bool = False) -> None:
        self.system = self.system_prompt if system is None else system
        self.add_assistant = add_assistant

    def preprocess(self, row: Row) -> Trajectory:
        answer = row.get("answer", "")
        found = re.search(r"####\s*([-\d,.]+)", answer)
        return Trajectory(messages=_messages(("system", self.system), ("user", row["question"]), ("assistant", answer if self.add_assistant else None)),
                          user_data=[("ground_truth", found[1].replace(",", "") if found else "")])


class EmojiDPOProcessor(Preprocessor):
    """A prompt with the answer that is preferred and the one that is not."""

    def __init__(self, system: str | None = None, chosen_key: str = "answer_zh", rejected_key: str = "answer_en", prompt_key: str = "prompt") -> None:
        self.system, self.chosen_key, self.rejected_key, self.prompt_key = system, chosen_key, rejected_key, prompt_key

    def preprocess(self, row: Row) -> dict[str, Trajectory]:
        return {side: Trajectory(messages=_messages(("system", self.system), ("user", row[self.prompt_key]), ("assistant", row[key])))
                for side, key in (("positive", self.chosen_key), ("negative", self.rejected_key))}
