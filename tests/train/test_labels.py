"""Rows of which no token has a label teach nothing: the run says so before it loads the model."""
import json


def rows(path, losses):
    messages = lambda loss: [{"role": "user", "content": "red cat"}, {"role": "assistant", "content": "blue dog", "loss": loss}]
    path.write_text("".join(json.dumps({"messages": messages(loss)}) + "\n" for loss in losses))
    return path


def test_data_without_labels_is_an_error(sft, tmp_path):
    none = sft(tmp_path / "none", dataset=rows(tmp_path / "none.jsonl", [False] * 4))
    assert none.code == 3 and "no token of the training data has a label" in none.err and not (tmp_path / "none" / "logging.jsonl").exists(), none.err
    some = sft(tmp_path / "some", dataset=rows(tmp_path / "some.jsonl", [False, True, True, True]), max_steps=1)
    assert some.code == 0 and "with a label" not in some.err, some.err


def test_preference_pairs_without_labels_are_an_error(hone, model_folder, tmp_path):
    row = {"messages": [{"role": "user", "content": "red cat"}, {"role": "assistant", "content": "blue dog"}], "rejected_response": "green bird"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
    done = hone("rlhf", "--rlhf_type", "dpo", "--model", model_folder, "--dataset", tmp_path / "rows.jsonl", "--max_length", 6, "--truncation_strategy", "right",
                "--output_dir", tmp_path / "out")
    assert done.returncode == 3 and "no token of the training data has a label" in done.stderr, done.stderr
