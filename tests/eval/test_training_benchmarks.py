"""Benchmarks while a model trains: those of `swift eval` on its checkpoint give the same."""
import json

import pytest

from eval_testing import ROOT, results_of


def test_what_is_logged_is_what_the_checkpoint_gives(swift, tmp_path):
    tasks = ["--include_path", ROOT / "cookbook/evaluation", "--eval_dataset", "capitals", "capital_answers", "--eval_limit", "12"]
    run = ["--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--tuner_type", "full", "--learning_rate", "1e-2", "--max_steps", "2", "--per_device_train_batch_size", "8", "--torch_dtype", "float32",
           "--output_dir", tmp_path / "run", "--add_version", "false", "--eval_strategy", "steps", "--eval_steps", "1", "--save_steps", "2", "--logging_steps", "1", "--split_dataset_ratio", "0"]
    done = swift("sft", *run, "--eval_use_evalscope", "true", *tasks, "--extra_eval_args", json.dumps({"limit": 6, "debug": True}))
    assert done.returncode == 0 and "debug has no effect" in done.stderr, done.stderr
    logged = [json.loads(line) for line in (tmp_path / "run/logging.jsonl").read_text().splitlines()]
    logged = [event for event in logged if "test_capitals" in event]
    assert len(logged) == 2 and (tmp_path / "run/eval/step-2/results.json").exists()
    again = swift("eval", "--model", tmp_path / "run/checkpoint-2", "--torch_dtype", "float32", *tasks[:-1], "6", "--eval_output_dir", tmp_path / "eval")
    assert again.returncode == 0, again.stderr
    found, during = results_of(tmp_path / "eval")["results"], json.loads((tmp_path / "run/eval/step-2/results.json").read_text())["results"]
    for task in ("capitals", "capital_answers"):
        for metric, value in found[task].items():
            assert during[task][metric] == value, (task, metric)
    assert logged[-1]["test_capitals"] == pytest.approx(found["capitals"]["acc,none"])
    missing = swift("sft", *run, "--eval_use_evalscope", "true")
    assert missing.returncode == 2 and "--eval_dataset is missing" in missing.stderr, missing.stderr
