"""OlympiadBench: problems of mathematics and physics."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..data_format import Message, Trajectory
from ..utils import not_supported
from .base import Preprocessor


class OlympiadBenchProcessor(Preprocessor):
    """question with its context, and the final answer for the reward. Problems with pictures are refused when they are read."""

    prompts = {"zh": "你是一名数学与物理助手。请逐步推理，最终答案写在 \\boxed{} 中；有多个答案时用逗号分隔。",
               "en": "You are an assistant for mathematics and physics. Reason step by step and put the final answer into \\boxed{}, several separated by commas."}

    def __init__(self, system: str | None = None, language: str = "zh") -> None:
        self.system = system if system is not None else self.prompts["zh" if language == "zh" else "en"]

    def preprocess(self, row: Mapping[str, Any]) -> Trajectory:
        if any(row.get(f"image_{number}") is not None for number in range(1, 10)):
            raise not_supported("a row with images", "train it with hone sft, which reads them, or filter such rows")
        answers = row.get("final_answer") or []
        answers = answers if isinstance(answers, list) else [answers]
        context = row.get("context")
        question = f"背景信息：{context}\n\n{row['question']}" if context else row["question"]
        return Trajectory(messages=[Message(role="system", content=self.system), Message(role="user", content=question)],
                          user_data=[("ground_truth", ", ".join(str(answer).strip() for answer in answers if answer))])
