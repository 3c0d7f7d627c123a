"""A reward as ms-swift's plugin files register it: `--external_plugins cookbook/grpo/plugin.py --reward_funcs short_answer`."""
from typing import List

from swift.rewards import ORM, orms


class ShortAnswer(ORM):
    """1 for an answer of at most ten words, less for each word beyond."""

    def __call__(self, completions, **kwargs) -> List[float]:
        return [1.0 - 0.1 * max(0, len(text.split()) - 10) for text in completions]


orms["short_answer"] = ShortAnswer
