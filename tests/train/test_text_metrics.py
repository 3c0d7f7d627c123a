"""ROUGE and BLEU against the packages LLaMA-Factory computes them with."""
import json
import os
import random
import subprocess

import jieba
import nltk.translate.bleu_score as bleu
import pytest
import rouge_chinese
from train_testing import ROOT, WORDS, hone_binary

CHINESE = "今天天气很好我们去公园散步你喜欢什么颜色"


def their_scores(predict, label, segmented):
    ours, theirs = " ".join(jieba.cut(predict)), " ".join(jieba.cut(label))
    scores = {}
    if segmented:
        empty = not ours.split() or not theirs.split()
        rouge = {} if empty else rouge_chinese.Rouge().get_scores(ours, theirs)[0]
        scores = {name: 0.0 if empty else round(rouge[name]["f"] * 100, 4) for name in ("rouge-1", "rouge-2", "rouge-l")}
    value = bleu.sentence_bleu([list(label)], list(predict), smoothing_function=bleu.SmoothingFunction().method3)
    return {**scores, "bleu-4": round(value * 100, 4)}


def our_scores(tmp_path, rows):
    program = hone_binary().parents[1] / "train_test"
    if not program.exists():
        pytest.fail(f"{program} is not built; make test builds it")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    subprocess.run([program, "--gtest_filter=TextScoresWorker.*", "--gtest_also_run_disabled_tests"], check=True, capture_output=True,
                   env=dict(os.environ, HONE_TEST_FILE=str(path)), cwd=ROOT)
    return [json.loads(line) for line in (tmp_path / "rows.jsonl.scores").read_text().splitlines()]


def test_english_agrees(tmp_path):
    rng = random.Random(2)

    def text():
        words = [rng.choice(WORDS + ["3.14", "50%", "it's", "x-y", "end."]) for _ in range(rng.randint(1, 14))]
        return " ".join(words)

    rows = [{"predict": text(), "label": text()} for _ in range(60)] + [{"predict": "", "label": "cat"}, {"predict": "cat", "label": "cat"}]
    for row, ours in zip(rows, our_scores(tmp_path, rows), strict=True):
        assert ours == pytest.approx(their_scores(**row, segmented=True), abs=2e-4), row


def test_chinese_bleu_agrees(tmp_path):
    rng = random.Random(3)
    rows = [{"predict": "".join(rng.choices(CHINESE, k=9)), "label": "".join(rng.choices(CHINESE, k=11))} for _ in range(30)]
    for row, ours in zip(rows, our_scores(tmp_path, rows), strict=True):
        assert ours["bleu-4"] == pytest.approx(their_scores(**row, segmented=False)["bleu-4"], abs=2e-4), row
