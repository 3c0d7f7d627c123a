"""OlympiadBench: problems of mathematics and physics."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..data_format import Message, Trajectory
from .base import Preprocessor


class OlympiadBenchProcessor(Preprocessor):
    """question with its pictures (image_1 to image_9) and context, and the final answer for the reward."""

    prompts = {"zh": "你是一名数学与物理助手。请逐步推理，最终答案写在 \\boxed{} 中；有多个答案时用逗号分隔。",
               "en": "You are an assistant for mathematics and physics. Reason step by step and put the final answer into \\boxed{}, several separated by commas."}

    def __init__(self, system: str | None = None, language: str = "zh") -> None:
        self.system = system if system is not None else self.prompts["zh" if language == "zh" else "en"]

    def preprocess(self, row: Mapping[str, Any]) -> Trajectory:
        pictures = [row[name] for name in (f"image_{number}" for number in range(1, 10)) if row.get(name) is not None]
        answers = row.get("final_answer") or []
        answers = answers if isinstance(answers, list) else [answers]
        context = row.get("context")
        question = f"背景信息：{context}\n\n{row['question']}" if context else row["question"]
        blocks = [{"type": "image", "url": picture} for picture in pictures]
        content = [*blocks, {"type": "text", "text": question}] if blocks else question
        return Trajectory(messages=[Message(role="system", content=self.system), Message(role="user", content=content)],
                          user_data=[("ground_truth", ", ".join(str(answer).strip() for answer in answers if answer))])
