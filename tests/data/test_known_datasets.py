"""Datasets that guides of ms-swift name, in the columns of their hubs: the rows that ms-swift's preprocessors make of them."""
import json
from pathlib import Path

import pytest

NANO = Path(__file__).resolve().parents[2] / "models/nano"
SFT, DPO = ("swift", "sft"), ("swift", "rlhf", "--rlhf_type", "dpo")
EMBEDDING, RERANKER = (*SFT, "--task_type", "embedding", "--loss_type", "cosine_similarity"), (*SFT, "--task_type", "reranker")
CLASSES, GRADES = (*SFT, "--task_type", "seq_cls", "--num_labels", "2"), (*SFT, "--task_type", "seq_cls", "--num_labels", "1", "--problem_type", "regression")

# Dataset, its file, a row as the hub has it, the command, texts that the row must hold.
KNOWN = [
    ("alpaca-gpt4-data-zh", "train.jsonl", {"instruction": "说", "input": "输入：一", "output": "好"}, SFT, ["说\n一", "好"]),
    ("LongAlpaca-12k", "train.jsonl", {"instruction": "q", "input": "", "output": "Answer: yes ", "file": "x"}, SFT, ["<|im_start|>assistant\nyes<|im_end|>"]),
    ("AdvertiseGen", "train.jsonl", {"content": "c", "summary": "s"}, SFT, ["Task: Generating advertisements based on keywords.\nKeywords: c\nAdvertisements:", "assistant\ns"]),
    ("blossom-math-v2", "train.jsonl", {"id": "1", "input": "1+1?", "output": "add", "answer": "2", "dataset": "x"}, SFT, ["1+1?", "add\n\nAnswer: 2"]),
    ("jd", "train.jsonl", {"sentence": "good", "label": 1.0, "dataset": "jd"}, SFT, ["Task: Sentiment Classification\nSentence: good\nCategory: negative, positive\nOutput:", "positive<|im_end|>"]),
    ("jd:cls", "train.jsonl", {"sentence": "good", "label": 1.0, "dataset": "jd"}, CLASSES, ["user\ngood"]),
    ("stsb", "train.jsonl", {"sentence1": "one", "sentence2": "two", "score": 0.5}, EMBEDDING, ["one", "two"]),
    ("stsb:positive", "train.jsonl", {"sentence1": "one", "sentence2": "two", "score": 0.75}, EMBEDDING, ["one", "two"]),
    ("stsb:generate", "train.jsonl", {"sentence1": "one", "sentence2": "two", "score": 0.5}, SFT, ["Sentence 1: one\nSentence 2: two\nSimilarity score: ", "assistant\n0.5"]),
    ("stsb:reg", "train.jsonl", {"sentence1": "one", "sentence2": "two", "score": 0.5}, GRADES, ["Sentence 1: one\nSentence 2: two\nSimilarity score: "]),
    ("scidocs-reranking", "validation.jsonl", {"query": "ask", "positive": ["yes"], "negative": ["no", "never"]}, RERANKER, ["ask", "yes", "no", "never"]),
    ("shareAI-Llama3-DPO-zh-en-emoji", "train.jsonl", {"question": "q", "answer_zh": "好😀️", "answer_en": "ok"}, DPO, ["好😀<|im_end|>", "ok<|im_end|>"]),
    ("orpo-dpo-mix-40k", "train.jsonl", {"source": "x", "chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}],
                                         "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "bad"}], "prompt": "q"}, DPO, ["good", "bad"]),
    ("sudoku-extreme-1k", "train.jsonl", {"source": "x", "question": "1" + "." * 80, "answer": "1" * 81, "rating": 1}, SFT, ["Puzzle:\n100000000\n000000000", "111111111\n111111111"]),
    ("databricks-dolly-15k", "train.jsonl", {"instruction": "ask", "context": "facts", "response": "told", "category": "x"}, SFT, ["Here gives some useful information:\nfacts\nask", "told"]),
    ("xlam-function-calling-60k:grpo", "dataset.jsonl", {"id": 1, "query": "q", "answers": '[{"name": "f", "arguments": {"a": 1}}]', "tools": "[]"}, SFT, ['Action: f\nAction Input: {"a": 1}']),
    ("gsm8k", "mine.jsonl", {"question": "1+1?", "answer": "2"}, SFT, ["1+1?", "assistant\n2"]),  # its hub has a folder main, this copy has none
    ("LaTeX_OCR", "mine.jsonl", {"messages": [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "told"}]}, SFT, ["ask", "told"]),
]


@pytest.fixture(scope="module")
def preview(hone, tmp_path_factory):
    def rows_of(word, file, rows, command, *options):
        name, _, subset = word.partition(":")
        folder = tmp_path_factory.mktemp("datasets") / name
        folder.mkdir()
        (folder / file).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        given = f"{folder}:{subset}" if subset else folder
        return hone("preview", *command, "--model", NANO, "--dataset", given, "--rows", len(rows), *options)

    return rows_of


@pytest.mark.parametrize("word, file, row, command, texts", KNOWN, ids=[entry[0] for entry in KNOWN])
def test_rows_are_those_of_ms_swift(preview, word, file, row, command, texts):
    done = preview(word, file, [row], command, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    everything = "\n".join(value for value in flattened(shown) if isinstance(value, str))
    assert [text for text in texts if text not in everything] == []


def flattened(value):
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
        yield from flattened(each) if isinstance(each, (dict, list)) else [each]


def test_rows_that_ms_swift_leaves_out_are_told(preview):
    rows = [{"sentence1": "one", "sentence2": "two", "score": score} for score in (0.25, 1.0)]
    done = preview("stsb:positive", "train.jsonl", rows, EMBEDDING)
    assert done.returncode == 0, done.stderr
    assert "ms-swift leaves such rows of this dataset out" in done.stdout + done.stderr


# A folder that only has the name of a known dataset, by other columns than those of its hub.
OWN = [{"messages": [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "told"}]}, {"query": "ask", "response": "told"}, {"instruction": "ask", "input": "", "output": "told"}]


@pytest.mark.parametrize("row", OWN, ids=[" ".join(row) for row in OWN])
@pytest.mark.parametrize("name", ["jd", "ruozhiba", "LaTeX_OCR", "stsb", "xlam-function-calling-60k", "coco", "VideoChatGPT", "ChartQA"])
def test_own_rows_of_a_folder_with_such_a_name_are_read_by_their_columns(preview, name, row):
    done = preview(name, "train.jsonl", [row], SFT, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    everything = "\n".join(value for value in flattened([json.loads(line) for line in done.stdout.splitlines()]) if isinstance(value, str))
    assert "user\nask<|im_end|>" in everything and "assistant\ntold<|im_end|>" in everything
    assert done.stderr.count("so they are read by their names") == 1, done.stderr


def test_the_rule_of_a_known_dataset_is_logged_once(preview):
    done = preview("jd", "train.jsonl", [{"sentence": "good", "label": 1.0}] * 2, SFT)
    assert done.stderr.count("rows are read as ms-swift reads those of DAMO_NLP/jd") == 1, done.stderr
