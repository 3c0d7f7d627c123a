"""Decision data: rows with ms-swift's random changes, decisions of a model, and losses, compared with ms-swift (HONE_PEERS_PYTHON) and with its formulas in torch."""
import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from test_peer_parsers import ask, model  # noqa: F401

RECORDS = [
    {"state": {"subject": "late order", "due_date": "friday", "customer-tier": 2, "open": True, "note": "  "}, "questions": [
        {"kind": "noul", "question": "is it urgent", "gold": 1},
        {"kind": "choice", "question": "who answers", "options": ["red", "blue", {"text": "green"}, {"key": "old"}, "big", "small", "tall"], "gold": 4},
        {"type": "rating", "prompt": "how angry", "target_probs": [0.1, 0.2, 0.3, 0.2, 0.1, 0.1]}]},
    {"context": "the cat sat", "kind": "mcq", "question": "where", "choices": ["mat", "hat", "bed", "box"], "probs": [0.1, 0.5, 0.3, 0.1]},
    {"state": {"only": 3.5}, "kind": "yes_no", "query": "is it so", "answer": 0},
    {"text": "no question here"},
    {"state": {"a_b/c": ["x", 1], "d": {"e": None}}, "kind": "select", "question": "which", "options": [f"option {i}" for i in range(12)], "label": 11},
] * 3
CHANGES = [{}, {"drop_instructions": 0.5}, {"subsample_options": 3}, {"state_as_text": 0.6}, {"shuffle_fields": True},
           {"drop_instructions": 0.3, "subsample_options": 4, "state_as_text": 0.4, "shuffle_fields": True}]
LOSSES = ["scoring", "distill_rps", "smooth_brier", "ce_rps"]
SEED = 7


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


@pytest.fixture(scope="module")
def deciding(model, tmp_path_factory):  # noqa: F811
    """A model whose vocabulary has a token for every option."""
    folder = tmp_path_factory.mktemp("deciding")
    tokenizer, made = AutoTokenizer.from_pretrained(model), AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    if tokenizer.add_tokens([word for word in WORDS if len(tokenizer.encode(word, add_special_tokens=False)) != 1]):
        made.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def decided(hone, folder, records, tmp_path, *words):
    (tmp_path / "rows.jsonl").unlink(missing_ok=True)
    done = hone("infer", "--model", folder, "--task_type", "decision", "--val_dataset", records, "--result_path", tmp_path / "rows.jsonl", "--max_length", 4096, "--torch_dtype", "float32",
                "--data_seed", SEED, *words)
    assert done.returncode in (0, 3), done.stderr  # 3: a record without a question was left out
    return [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]


def first_loss(hone, folder, records, tmp_path, name, rows=3):
    done = hone("sft", "--model", folder, "--dataset", records, "--task_type", "decision", "--loss_type", name, "--tuner_type", "full", "--torch_dtype", "float32", "--max_steps", 1,
                "--learning_rate", 0, "--per_device_train_batch_size", rows, "--gradient_accumulation_steps", 1, "--dataset_shuffle", "false", "--train_dataloader_shuffle", "false", "--split_dataset_ratio", 0, "--max_length", 4096,
                "--save_strategy", "no", "--add_version", "false", "--output_dir", tmp_path / name)
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / name / "logging.jsonl").read_text().splitlines()[0])["loss"]


@pytest.mark.peer("swift")
def test_rows_and_losses_are_those_of_ms_swift(hone, deciding, records, tmp_path):
    theirs = ask("swift", "ask_swift_decisions.py", dict(model=deciding, records=RECORDS, changes=CHANGES, seed=SEED, losses=LOSSES), tmp_path)
    for change, expected in zip(CHANGES, theirs["rows"]):
        mine = decided(hone, deciding, records, tmp_path, *[word for name, value in change.items() for word in (f"--decision_{name}", str(value).lower())])
        assert len(mine) == len(expected)
        for own, row in zip(mine, expected):
            assert own["messages"][:-1] == row["messages"], change
            assert all(own[key] == row[key] for key in ("questions", "kinds", "options")), change
            assert own["target_probs"][0] == pytest.approx(row["target_probs"][0]), change
        assert not change or expected != theirs["rows"][0], "the change must matter"
    assert [first_loss(hone, deciding, records, tmp_path, name) for name in LOSSES] == pytest.approx(theirs["losses"], rel=1e-4)


def prompt(row):
    """The layout of ms-swift's DecisionTemplate."""
    lines = [f"{chr(65 + i)}) {text}" for i, text in enumerate(row["options"][0])] if row["kinds"][0] == "choice" else row["options"][0]
    return (f"[kind] {row['kinds'][0]}\n[state] {row['messages'][0]['content']}\n[question] {row['questions'][0]}\n[options]\n" + "\n".join(lines) + "\n[decision]:")


WORDS = ["false", "true"] + [str(i) for i in range(6)] + [chr(65 + i) for i in range(16)]
FIRST = {"noul": 0, "score": 2, "choice": 8}


def scores_of(model, tokenizer, row):  # noqa: F811
    ids = torch.tensor([tokenizer(prompt(row), add_special_tokens=False).input_ids])
    logps = model(ids).logits[0, -1].float().log_softmax(-1)
    first = FIRST[row["kinds"][0]]
    return logps[[tokenizer.encode(word, add_special_tokens=False)[0] for word in WORDS[first:first + len(row["options"][0])]]]


def loss_of(kind, name, scores, wanted):
    shares = scores.softmax(0)
    n = len(wanted)
    target = 0.9 * wanted + 0.1 / n if name == "smooth_brier" else wanted
    loss = -(target * shares.clamp_min(1e-9).log()).sum()
    if name == "smooth_brier":
        loss = loss + (shares - wanted).pow(2).sum() / n
    gaps = (shares.cumsum(0) - wanted.cumsum(0)).pow(2)
    if kind == "score" and name == "distill_rps":
        loss = loss + 0.5 * gaps[:-1].sum() / (n - 1)
    if kind == "score" and name == "ce_rps":
        loss = loss + 0.5 * gaps.sum()
    return loss


def test_answers_and_losses_by_formula(hone, deciding, records, tmp_path):
    rows = decided(hone, deciding, records, tmp_path)
    tokenizer, peer = AutoTokenizer.from_pretrained(deciding), AutoModelForCausalLM.from_pretrained(deciding, dtype=torch.float32)
    with torch.no_grad():
        scores = [scores_of(peer, tokenizer, row) for row in rows]
    for row, score in zip(rows, scores):
        assert row["response"][0]["index"] == int(score.argmax())
        assert row["response"][0]["probs"] == pytest.approx(score.softmax(0).tolist(), abs=1e-5)
    for name in LOSSES:
        wanted = sum(loss_of(row["kinds"][0], name, score, torch.tensor(row["target_probs"][0])) for row, score in zip(rows[:3], scores)) / 3
        assert first_loss(hone, deciding, records, tmp_path, name) == pytest.approx(float(wanted), rel=1e-4), name


def test_what_is_wrong_is_named(hone, deciding, records, tmp_path):
    def sft(dataset, *words):
        return hone("sft", "--model", deciding, "--dataset", dataset, "--task_type", "decision", "--max_steps", 1, "--strict", "true", "--output_dir", tmp_path / "run", *words)

    bad = tmp_path / "bad.jsonl"
    for record, message in (({"state": "x", "kind": "maybe", "question": "q"}, "maybe"), ({"state": "x", "kind": "choice", "question": "q", "gold": 0}, "options"),
                         ({"state": "x", "kind": "noul", "question": "q", "gold": 2}, "answer"), ({"state": "x", "kind": "choice", "question": "q", "options": ["a"] * 17, "gold": 1}, "17"),
                         ({"state": [1, {"a": None}], "kind": "choice", "question": 3, "options": ["a", 2, "c"], "gold": ["x", None, {}]}, "answer"),
                         ({"state": "x", "kind": "noul", "question": "q", "gold": 1e300}, "answer"), ({"questions": [{"kind": ["noul"]}]}, "question")):
        bad.write_text(json.dumps(record) + "\n")
        done = sft(bad, "--decision_subsample_options", 0 if message == "17" else 2)
        assert done.returncode == 3 and message in done.stderr, (record, done.stderr)
    for words, message in ((["--decision_drop_instructions", 2], "decision_drop_instructions"), (["--loss_type", "infonce"], "scoring"), (["--streaming", "true"], "streaming")):
        done = sft(records, *words)
        assert done.returncode == 2 and message in done.stderr, (words, done.stderr)
    done = hone("deploy", "--model", deciding, "--task_type", "decision")
    assert done.returncode == 2 and "decisions" in done.stderr
