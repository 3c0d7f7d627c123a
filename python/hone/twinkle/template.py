"""Conversations to tokens, as the model's own template has them."""
from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .. import data
from ..errors import DataError, require
from .data_format import InputFeature
from .utils import local_name

_STRATEGIES = ("raise", "left", "right", "split", "delete")
_UNLIMITED = 1 << 30


def _columns_to_rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


_TAGS = {"images": "<image>", "videos": "<video>", "audios": "<audio>"}


def _source(medium: Any) -> Any:
    """A medium as hone's rows have it: a path, an address, a data: URI or {"bytes": base64}. Scripts also have pictures and bytes."""
    if isinstance(medium, (bytes, bytearray)):
        return {"bytes": base64.b64encode(medium).decode()}
    if hasattr(medium, "save") and hasattr(medium, "mode"):  # PIL's
        file = io.BytesIO()
        medium.save(file, "PNG")
        return {"bytes": base64.b64encode(file.getvalue()).decode()}
    return medium


def _flattened(content: Any) -> tuple[Any, dict[str, list[Any]]]:
    """A message's content as text, with tags where its blocks have media, and these by their kind."""
    if not isinstance(content, list):
        return content, {}
    texts: list[str] = []
    media: dict[str, list[Any]] = {}
    for block in content:
        kind = f"{block['type']}s"
        if kind in _TAGS:
            media.setdefault(kind, []).append(block.get("url") or block[block["type"]])
        texts.append(_TAGS.get(kind) or block["text"])
    return "".join(texts), media


class RowMedia:
    """The media of a row that was encoded. It is sent to other processes as the row, and is read there."""

    def __init__(self, template: Template, row: dict[str, Any], prompt: bool = False) -> None:
        self.template = template
        self.row = row
        self.prompt = prompt  # the row has no answer

    def __getstate__(self) -> dict[str, Any]:
        return {"template": self.template, "row": self.row, "prompt": self.prompt}

    @cached_property
    def handle(self) -> Any:
        """hone's own, in the places that the row's tokens have for them."""
        encode = self.template.encoder.encode_prompt if self.prompt else self.template.encoder.encode
        return encode(self.row)["media"]


class Template:
    """A model's template. It reads the tokenizer's files, none of the weights."""

    def __init__(self, model_id: str, use_chat_template: bool = True, max_length: int | None = 8192, truncation_strategy: str = "raise",
                 default_system: str | None = None, enable_thinking: bool | None = None, **kwargs: Any) -> None:
        require(truncation_strategy in _STRATEGIES, "truncation_strategy", truncation_strategy, f"one of {', '.join(_STRATEGIES)}")
        self.model_id = model_id
        self.use_chat_template = use_chat_template
        self.max_length = max_length
        self.truncation_strategy = truncation_strategy
        self.default_system = default_system
        self.enable_thinking = enable_thinking

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "encoder"}  # made again where it arrives

    @cached_property
    def encoder(self) -> data.Template:
        """hone's template."""
        return data.Template(local_name(self.model_id), system=self.default_system, max_length=_UNLIMITED, enable_thinking=self.enable_thinking)

    def _row(self, trajectory: Mapping[str, Any]) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        found: dict[str, list[Any]] = {name: [] for name in _TAGS}
        for message in trajectory["messages"]:
            content, media = _flattened(message.get("content"))
            for name in _TAGS:
                found[name] += [*(media.get(name) or ()), *(message.get(name) or ())]
            kept = {name: value for name, value in message.items() if value is not None and name not in _TAGS}
            messages.append(kept if content is None else {**kept, "content": content})
        row: dict[str, Any] = {"messages": messages}
        for name in _TAGS:
            if given := found[name] or trajectory.get(name):
                row[name] = [_source(medium) for medium in given]
        if trajectory.get("tools"):
            row["tools"] = json.dumps(trajectory["tools"], ensure_ascii=False)
        return row

    def prompt(self, trajectory: Mapping[str, Any]) -> InputFeature:
        """Tokens up to where the model speaks, and the prompt's media; an answer at the end is left out."""
        row = self._row(trajectory)
        if row["messages"] and row["messages"][-1]["role"] == "assistant":
            row["messages"].pop()
        encoded = self.encoder.encode_prompt(row)
        feature = self._feature(encoded["input_ids"], np.full_like(encoded["input_ids"], data.IGNORE))
        if "media" in encoded:
            feature["media"] = RowMedia(self, row, prompt=True)
        return feature

    def encode(self, trajectory: Mapping[str, Any], add_generation_prompt: bool = False) -> InputFeature:
        """A trajectory's tokens and labels. One without an answer is a prompt: it has no labels."""
        if not self.use_chat_template:
            ids = np.array(self.encoder.tokenize(trajectory["messages"][0]["content"]), np.int64)
            return self._feature(ids, ids)
        last = trajectory["messages"][-1]
        if add_generation_prompt or last["role"] != "assistant" or not (last.get("content") or last.get("tool_calls")):
            return self.prompt(trajectory)
        row = self._row(trajectory)
        encoded = self.encoder.encode(row)
        feature = self._feature(encoded["input_ids"], encoded["labels"])
        if "media" in encoded:
            feature["media"] = RowMedia(self, row)
        return feature

    @staticmethod
    def _feature(ids: np.ndarray, labels: np.ndarray) -> InputFeature:
        shifted = np.full_like(labels, data.IGNORE)
        shifted[:-1] = labels[1:]
        return InputFeature(input_ids=ids, labels=shifted, attention_mask=np.ones_like(ids), position_ids=np.arange(len(ids)), length=len(ids))

    def _fit(self, feature: InputFeature) -> list[InputFeature]:
        length, longest = feature["length"], self.max_length
        if not longest or length <= longest:
            return [feature]
        if self.truncation_strategy == "raise":
            raise DataError(f"a row has {length} tokens, and max_length is {longest}", "raise max_length, or set truncation_strategy")
        if self.truncation_strategy == "delete":
            return []
        if "media" in feature:
            raise DataError(f"a row with media has {length} tokens, and max_length is {longest}", "raise max_length, or set truncation_strategy to delete")
        begins = {"left": [length - longest], "right": [0], "split": range(0, length, longest)}[self.truncation_strategy]
        parts = [slice(begin, min(begin + longest, length)) for begin in begins]
        return [InputFeature(input_ids=feature["input_ids"][part], labels=feature["labels"][part], attention_mask=feature["attention_mask"][part],
                             position_ids=feature["position_ids"][part], length=part.stop - part.start) for part in parts]

    def batch_encode(self, trajectories: Mapping[str, list[Any]] | Sequence[Mapping[str, Any]], add_generation_prompt: bool = False) -> list[dict[str, Any]]:
        """Rows with their tokens in addition to their columns. Pairs (positive, negative) are encoded each."""
        rows: Sequence[Mapping[str, Any]] = _columns_to_rows(trajectories) if isinstance(trajectories, Mapping) else trajectories
        encoded = []
        for row in rows:
            if "positive" in row:
                pair = {side: self._fit(self.encode(row[side], add_generation_prompt)) for side in ("positive", "negative")}
                if all(len(parts) == 1 for parts in pair.values()):
                    encoded.append({**row, **{side: {**row[side], **parts[0]} for side, parts in pair.items()}})
            else:
                encoded += [{**row, **feature} for feature in self._fit(self.encode(row, add_generation_prompt))]
        return encoded

    def check(self, trajectory: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The trajectory, or None for one that cannot be encoded."""
        try:
            return trajectory if self.batch_encode([trajectory]) else None
        except DataError:
            return None

    def decode(self, tokens: Any, skip_special_tokens: bool = True) -> str:
        """The text of tokens."""
        return self.encoder.decode(tokens, skip_special_tokens)


Qwen3_5Template = Qwen3Template = Qwen2_5VLTemplate = DeepseekV4Template = Template
