"""What answers to OlympiadBench's problems are worth: whether they are right, how they are written, how they reason. All from 0 to 1."""
from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .base import Reward, answer_of, known

_HALF_WIDTH = {0xFF01 + shift: chr(0x21 + shift) for first, last in (("0", "9"), ("A", "Z"), ("a", "z")) for shift in range(ord(first) - 0x21, ord(last) - 0x20)}
_HALF_WIDTH |= {ord(wide): half for wide, half in zip("，。（）：；", ",.():;")} | {ord("$"): ""}

# In their order; the same problem may be solved in LaTeX, in plain text, and with units.
_COMPARISONS = "leq|le|geq|ge|neq|leqslant|geqslant"
_REWRITES = [(re.compile(pattern), by) for pattern, by in (
    (r"\\left\s*|\\right\s*", ""), (rf"\\(?:{_COMPARISONS})\s*", ""), (r"\\(in|cup|cap)\b", r"\1"), (r"\\(?:quad|qquad|,|;|!)\s*", ""), (r"\+\\infty", r"\\infty"),
    (r"\\d?frac\{([^}]*)\}\{([^}]*)\}", r"(\1)/(\2)"), (r"\\sqrt\{([^}]*)\}", r"sqrt(\1)"), (r"\\(?:text|mathrm|mathbf|mathit)\{([^}]*)\}", r"\1"), (r"\\", ""),
    # Without backslashes.
    (r"dfrac", "frac"), (r"\bfrac\{([^}]*)\}\{([^}]*)\}", r"(\1)/(\2)"), (r"\bsqrt\{([^}]*)\}", r"sqrt(\1)"),
    (r"\b(?:Delta|Omega|Gamma|Theta|Lambda|Sigma|Phi)(?=[A-Z_])", ""), (r"\+infty", "infty"), (r"([_^])\{([^}]*)\}", r"\1\2"), (rf"\b(?:{_COMPARISONS})\b", ""),
    (r"\bin\b(?=[\[(])", ""), (r"\bq?quad\b", ""),
    # Units; those of one letter only where a number or a bracket ends.
    (r"\b(?:[cmkn]m|um|[km]g|[kMG]?Hz|mol|[kM]?Pa|[kMG]?eV|k?cal|cd|lm|lx|Wb|Bq|Gy|Sv)\b", ""), (r"(?<=[0-9\])])\s*[NVWAKCTFHLJmgs]\b", ""), (r"([0-9])[NVWAKCTFHLJmgs]$", r"\1"),
    (r"(?<=[0-9\])])\s*(?:m/s|m/s2|km/h|kg/m3|N/m|J/mol|rad|sr)\b", ""), (r"°|度|米|千克|克|秒|摩尔|帕|瓦|伏|安|赫兹|牛|焦", ""),
    (r"(\d+):(\d+)", r"\1/\2"), (r"(?<![(/])(\d+)/(\d+)(?![)/])", r"(\1)/(\2)"), (r"\s+", ""), (r",+", ","),
)]


def _plain(answer: str) -> str:
    """An answer as it is compared."""
    answer = answer.translate(_HALF_WIDTH)
    for pattern, by in _REWRITES:
        answer = pattern.sub(by, answer)
    return answer.strip(",.")


def _boxed(text: str) -> list[str]:
    """What stands in each \\boxed{…}. Escaped braces do not count."""
    answers, begin = [], text.find("\\boxed{")
    while begin >= 0:
        begin, depth, end = begin + len("\\boxed{"), 1, -1
        for brace in re.finditer(r"\\[{}]|[{}]", text[begin:]):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if depth == 0:
                end = begin + brace.start()
                break
        if end < 0:
            break
        answers.append(text[begin:end])
        begin = text.find("\\boxed{", end)
    return answers


def _parts(answers: str) -> list[str]:
    """Several answers, separated by commas outside of brackets."""
    parts, depth = [""], 0
    for letter in answers:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part]


def _likeness(answer: str, truth: str) -> float | None:
    """1 for the same number, less for others the further they are apart; None: one of them is no number."""
    try:
        own, other = float(answer), float(truth)
    except ValueError:
        return None
    if not (math.isfinite(own) and math.isfinite(other)):
        return None
    if abs(own - other) < 1e-4:
        return 1.0
    if other == 0:
        return float(abs(own) < 0.01)
    return math.exp(-5 * abs(own - other) / abs(other))


def _same(answer: str, truth: str) -> bool:
    likeness = _likeness(answer, truth)
    return answer == truth or (likeness is not None and likeness > math.exp(-0.05))  # within a hundredth


class OlympiadBenchAccuracyReward(Reward):
    """1 for the row's ground_truth in the last \\boxed{}, less for a number close to it. With is_multiple_answer, the share of answers that were found."""

    def __call__(self, trajectories: Sequence[Mapping[str, Any]], ground_truths: Any = None, **kwargs: Any) -> list[float]:
        return [self._score(row) for row in trajectories]

    @staticmethod
    def _score(row: Mapping[str, Any]) -> float:
        given = [_plain(answer) for answer in _boxed(answer_of(row))]
        truths = [_plain(truth) for truth in _parts(known(row, "ground_truth") or "")]
        if not given or not truths:
            return 0.0
        if known(row, "is_multiple_answer"):
            return sum(any(_same(answer, truth) for answer in given) for truth in truths) / len(truths)
        return 1.0 if _same(given[-1], truths[0]) else 0.99 * (_likeness(given[-1], truths[0]) or 0.0)


class OlympiadBenchFormatReward(Reward):
    """For an answer in \\boxed{}, close to the end, and only one."""

    def __call__(self, trajectories: Sequence[Mapping[str, Any]], ground_truths: Any = None, **kwargs: Any) -> list[float]:
        return [self._score(answer_of(row)) for row in trajectories]

    @staticmethod
    def _score(text: str) -> float:
        answers = {_plain(answer) for answer in _boxed(text)}
        if not answers:
            return 0.0
        score = 0.4 + 0.3 * (len(text) - text.rfind("\\boxed{") < 200)
        score += 0.3 if len(answers) == 1 else -0.3 if len(answers) > 2 else 0.0
        return max(0.0, min(1.0, score))


class OlympiadBenchQualityReward(Reward):
    """For steps of reasoning, a length of 300 to 1500 characters, and few repetitions."""

    _STEPS = re.compile(r"第[一二三四五六七八九十\d]+步|Step\s*\d+|首先|其次|然后|最后|因此|所以|First|Then|Finally|Therefore|Hence", re.I)
    _CONCLUSION = re.compile(r"(所以|因此|答案|故|得|Thus|Therefore|Answer).*\\boxed", re.I | re.S)

    def __call__(self, trajectories: Sequence[Mapping[str, Any]], ground_truths: Any = None, **kwargs: Any) -> list[float]:
        texts = [answer_of(row) for row in trajectories]
        return [0.4 * self._reasoning(text) + 0.3 * self._length(len(text)) + 0.3 * self._variety(text) for text in texts]

    def _reasoning(self, text: str) -> float:
        signs = (len(re.findall(r"(?<![=!<>])=(?!=)", text)) >= 3, len(re.findall(r"[+\-*/^]|\\frac|\\sqrt", text)) >= 5,
                 self._STEPS.search(text) is not None, self._CONCLUSION.search(text[-500:]) is not None)
        return sum(signs) / len(signs)

    @staticmethod
    def _length(length: int) -> float:
        if length < 100:
            return length / 100 * 0.3
        if length < 300:
            return 0.3 + (length - 100) / 200 * 0.7
        if length <= 1500:
            return 1.0
        if length <= 3000:
            return 0.5 + 0.5 * math.cos((length - 1500) / 3000 * math.pi)
        return 0.5 * (1 - 0.5 * min((length - 3000) / 3000, 1.0))

    @staticmethod
    def _variety(text: str) -> float:
        if len(text) < 100:
            return 1.0
        pieces = [text[begin:begin + 50] for begin in range(0, len(text) - 50, 25)]
        words = text.split()
        fours = [tuple(words[begin:begin + 4]) for begin in range(len(words) - 3)]
        return (len(set(pieces)) / len(pieces) + (len(set(fours)) / len(fours) if fours else 1.0)) / 2
