"""Mistakes in files rather than options: found before anything is loaded, named with file and place."""
import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"


@pytest.fixture
def rows(tmp_path):
    """40 rows, of which the 5th, 17th and 33rd are broken."""
    good = json.dumps({"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(('{"messages": 3}' if i in (5, 17, 33) else good) + "\n" for i in range(1, 41)))
    return path


@pytest.mark.parametrize("seed", range(4))
def test_strict_stops_at_the_first_bad_row_of_the_file(hone, rows, tmp_path, seed):
    done = hone("sft", "--model", NANO, "--dataset", rows, "--strict", "true", "--data_seed", str(seed), "--output_dir", tmp_path / "out")
    assert done.returncode == 3 and f"{rows}:5: " in done.stderr, done.stderr


def test_eval_steps_without_validation_data_says_that_it_does_nothing(hone, rows, tmp_path):
    for asked, said in ((["--eval_steps", "2"], "--eval_steps has no effect"), (["--eval_strategy", "steps", "--eval_steps", "1000"], "--eval_strategy has no effect")):
        done = hone("sft", "--model", NANO, "--dataset", rows, *asked, "--max_steps", "1", "--output_dir", tmp_path / "out")
        assert done.returncode == 0, done.stderr
        assert said in done.stderr and done.stderr.count("has no effect") == 1, done.stderr


def test_a_stream_has_no_share_to_hold_out(factory, rows, tmp_path):
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {
        "file_name": rows.name, "formatting": "sharegpt", "columns": {"messages": "messages"},
        "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}}}))
    file = tmp_path / "run.yaml"
    file.write_text(f"model_name_or_path: {NANO}\ntemplate: qwen\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: rows\n"
                    f"dataset_dir: {tmp_path}\nstreaming: true\nmax_steps: 2\nval_size: 0.1\noutput_dir: {tmp_path}/out\n")
    done = factory("train", file)
    assert done.returncode == 2 and "a stream has no length" in done.stderr, done.stderr


@pytest.mark.parametrize("field, value, expected", [
    ("do_sample", "yes", "true or false"), ("temperature", "warm", "a number"), ("eos_token_id", "<|im_end|>", "a token id or a list of them"),
    ("max_new_tokens", 1.5, "a whole number"),
])
def test_a_generation_config_of_wrong_types_is_named(hone, tmp_path, field, value, expected):
    model = tmp_path / "model"
    shutil.copytree(NANO, model)
    (model / "generation_config.json").write_text(json.dumps({field: value}))
    done = hone("infer", "--model", model, "--val_dataset", ROOT / "data/demo.jsonl")
    assert done.returncode == 4, done.stderr
    assert f"generation_config.json: {field} is {json.dumps(value)}; expected {expected}" in done.stderr


def test_columns_that_name_no_column(hone, rows):
    done = hone("sft", "--model", NANO, "--dataset", rows, "--columns", '{"a": 1}')
    assert done.returncode == 2 and "expected an object from column to column" in done.stderr, done.stderr
