"""Rows of which no token has a label teach nothing: the run says so before it loads the model."""
import json

import pytest

ROW = {"messages": [{"role": "user", "content": "red cat"}, {"role": "assistant", "content": "blue dog"}]}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({**ROW, "rejected_response": response}) + "\n" for response in ("green bird", "small house")))
    return path


def test_data_without_labels_is_an_error(sft, rows, tmp_path):
    """Truncated on the right, the prompt alone is left."""
    none = sft(tmp_path / "none", dataset=rows, max_length=8, truncation_strategy="right")
    assert none.code == 3 and "no token of the training data has a label" in none.err and not (tmp_path / "none" / "logging.jsonl").exists(), none.err
    some = sft(tmp_path / "some", dataset=rows, max_steps=1)
    assert some.code == 0 and "has a label" not in some.err, some.err


def test_preference_pairs_without_labels_are_an_error(hone, model_folder, rows, tmp_path):
    done = hone("rlhf", "--rlhf_type", "dpo", "--model", model_folder, "--dataset", rows, "--max_length", 6, "--truncation_strategy", "right", "--output_dir", tmp_path / "out")
    assert done.returncode == 3 and "no token of the training data has a label" in done.stderr, done.stderr
