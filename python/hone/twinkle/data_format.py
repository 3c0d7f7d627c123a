"""The shapes of data: messages, trajectories, features of the model's input, outputs, and what samplers take and give."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from ..errors import require


class Message(TypedDict, total=False):
    """One turn of a conversation."""

    role: str
    content: Any
    tool_calls: list[Any]
    reasoning_content: str
    images: list[Any]


class Trajectory(TypedDict, total=False):
    """A conversation, its tools, and what a reward is to know about it: pairs of a name and a value."""

    messages: list[Message]
    tools: list[Any]
    user_data: list[tuple[str, Any]]
    advantages: float


class InputFeature(TypedDict, total=False):
    """Tokens of a row. Labels stand where they are predicted: one to the left of their token."""

    input_ids: Any
    labels: Any
    attention_mask: Any
    position_ids: Any
    length: int
    media: Any  # of a row with images, videos or audios
    routed_experts: Any  # [tokens, layers with experts, experts of a token], for router replay


class ModelOutput(dict[str, Any]):
    """`logps`, of each label, [rows, tokens]; `loss` where one was computed. `logits` are None unless a loss asks for them."""

    def __init__(self, **values: Any) -> None:
        super().__init__({"logits": None, **values})

    def part(self, rows: slice) -> ModelOutput:
        """Those of some rows."""
        return ModelOutput(**{name: value[rows] if hasattr(value, "__getitem__") else value for name, value in self.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as problem:
            raise AttributeError(name) from problem


class LossOutput(TypedDict, total=False):
    """A loss. `num_tokens` above 0: it is a sum over that many tokens; 0: it is a mean over the rows."""

    loss: Any
    num_tokens: Any


@dataclass
class SamplingParams:
    """How answers are drawn."""

    max_tokens: int | None = None
    seed: int | None = None
    stop: str | Sequence[str] | Sequence[int] | None = None
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    num_samples: int = 1

    def __post_init__(self) -> None:
        require(self.temperature >= 0, "temperature", self.temperature, "0 or more")
        require(self.top_k == -1 or self.top_k >= 1, "top_k", self.top_k, "-1 (all), or 1 or more")
        require(self.num_samples >= 1, "num_samples", self.num_samples, "1 or more")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SamplingParams:
        """Out of a dictionary; max_new_tokens is max_tokens, names that are not known are left out."""
        values = {"max_tokens": values.get("max_new_tokens"), **values}
        return cls(**{each.name: values[each.name] for each in fields(cls) if values.get(each.name) is not None})


@dataclass
class SampledSequence:
    """An answer: its tokens, their log-probabilities as [[(token, log p)], …], its text, and the row to train on."""

    stop_reason: str
    tokens: list[int]
    logprobs: list[list[tuple[int, float]]] | None = None
    decoded: str = ""
    new_input_feature: dict[str, Any] | None = None
    routed_experts: Any = None


@dataclass
class SampleResponse:
    """The answers to a prompt."""

    sequences: list[SampledSequence] = field(default_factory=list)
    prompt_logprobs: list[float | None] | None = None  # of the prompt's tokens; of the first there is none
    topk_prompt_logprobs: list[list[tuple[int, float]] | None] | None = None  # of the most likely tokens in their places
    prompt_token_ids: list[int] | None = None


class SampleResponses(list[Any]):
    """A SampleResponse for each prompt; `sequences` are those of all."""

    @property
    def sequences(self) -> list[SampledSequence]:
        """The answers to all prompts, in their order."""
        return [sequence for response in self for sequence in response.sequences]
