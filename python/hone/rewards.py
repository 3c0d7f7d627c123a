"""Rewards by name, as `--reward_funcs` has them: accuracy, format, react_format, cosine, repetition, soft_overlong."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .errors import UsageError
from .library import _hone


def score(names: str | Sequence[str], completions: Sequence[Any], rows: Sequence[Mapping[str, Any]] | None = None, *,
          max_completion_length: int = 512) -> np.ndarray:
    """Scores of completions (texts, or what a Sampler returns), float64 [completions, names]; of one name, [completions]. NaN: a reward has
    nothing to say. `rows`: the columns that each is judged by, such as {"solution": "…"}."""
    texts = [completion if isinstance(completion, str) else completion.text for completion in completions]
    tokens = [0 if isinstance(completion, str) else len(completion.tokens) for completion in completions]
    rows = [{} for _ in texts] if rows is None else list(rows)
    if len(rows) != len(texts):
        raise UsageError(f"{len(texts)} completions and {len(rows)} rows", "give a row for each completion")
    lists = _hone.score([names] if isinstance(names, str) else list(names), texts, [json.dumps(dict(row), ensure_ascii=False) for row in rows],
                        tokens, max_completion_length)
    scores = np.array(lists, np.float64).T
    return scores[:, 0] if isinstance(names, str) else scores
