"""Pooling models: the loss of the first step equals that of ms-swift's template, model and loss on the same rows (HONE_PEERS_PYTHON)."""
import json

import pytest

from test_peer_parsers import ask, model  # noqa: F401

USER, ANSWER = (lambda text: [{"role": "user", "content": text}]), (lambda text: [{"role": "assistant", "content": text}])
WORDS = "the cat sleeps|one two|a river runs|birds sing here|red and blue|over the house|nobody came|three small dogs|near the tree|it is late|a big house|go on".split("|")
SYSTEM = [{"role": "system", "content": "judge"}]


def classifier(base, folder, labels):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    torch.manual_seed(labels)
    tokenizer = AutoTokenizer.from_pretrained(base)
    made = AutoModelForSequenceClassification.from_pretrained(base, num_labels=labels, pad_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"), dtype=torch.float32)
    made.score.weight.data.normal_(0, 0.3)
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def cases(base, tmp_path):
    three, one = classifier(base, tmp_path / "three", 3), classifier(base, tmp_path / "one", 1)
    likeness = [{"messages": USER(WORDS[i]), "positive_messages": [USER(WORDS[i + 4])], "negative_messages": [USER(WORDS[i + 5]), USER(WORDS[i + 8])]} for i in range(4)]
    pairs = [{"messages": SYSTEM + USER(WORDS[i]), "positive_messages": [USER(WORDS[i + 4])], "label": [0.2, 1.0, 0.0, 0.7][i]} for i in range(4)]
    ranking = [{"messages": SYSTEM + USER(WORDS[i]), "positive_messages": [ANSWER(WORDS[i + 4])], "negative_messages": [ANSWER(WORDS[i + 5]), ANSWER(WORDS[i + 8])]} for i in range(4)]
    return [dict(model=str(base), rows=likeness, task="embedding", loss="infonce", labels=None), dict(model=str(base), rows=pairs, task="embedding", loss="cosine_similarity", labels=None),
            dict(model=str(base), rows=pairs, task="embedding", loss="contrastive", labels=None), dict(model=one, rows=ranking, task="reranker", loss="pointwise_reranker", labels=1),
            dict(model=one, rows=ranking, task="reranker", loss="listwise_reranker", labels=1),
            dict(model=three, rows=[{"messages": USER(text), "label": i % 3} for i, text in enumerate(WORDS[:6])], task="seq_cls", loss=None, labels=3)]


def first_loss(hone, case, tmp_path, name):
    (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in case["rows"]))
    more = (["--num_labels", case["labels"]] if case["task"] == "seq_cls" else []) + (["--loss_type", case["loss"]] if case["loss"] else [])
    done = hone("sft", "--model", case["model"], "--dataset", tmp_path / f"{name}.jsonl", "--task_type", case["task"], *more, "--template", "qwen2_5", "--tuner_type", "full", "--torch_dtype", "float32",
                "--max_steps", 1, "--learning_rate", 0, "--per_device_train_batch_size", len(case["rows"]), "--split_dataset_ratio", 0, "--save_strategy", "no", "--add_version", "false",
                "--output_dir", tmp_path / name)
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / name / "logging.jsonl").read_text().splitlines()[0])["loss"]


@pytest.mark.peer("swift")
def test_first_losses_are_those_of_ms_swift(hone, model, tmp_path):  # noqa: F811
    questions = cases(model, tmp_path)
    wanted = ask("swift", "ask_swift_losses.py", questions, tmp_path)
    found = [first_loss(hone, case, tmp_path, f"run{i}") for i, case in enumerate(questions)]
    assert found == pytest.approx(wanted, rel=1e-4)
