"""Evaluation: the best model, the validation split as a file, and one validation set shared by several processes."""
import json
import shutil
import subprocess

import pytest

from train_testing import ENVIRONMENT, hone_binary


@pytest.mark.parametrize("options,named", [
    (dict(eval_strategy="steps", eval_steps=2, save_strategy="epoch"), "--save_strategy and --eval_strategy"),
    (dict(eval_strategy="steps", eval_steps=2, save_steps=3), "--save_steps and --eval_steps"),
    (dict(eval_strategy="steps", eval_steps=0.5, save_steps=3), "--save_steps and --eval_steps"),
])
def test_a_best_model_that_could_have_no_checkpoint_is_refused_at_once(sft, tmp_path, options, named):
    run = sft(tmp_path / "run", load_best_model_at_end="true", split_dataset_ratio=0.25, **options)
    assert run.code == 2 and named in run.err, run.err
    assert not (tmp_path / "run").exists()


def evaluations_of_transformers(folder, steps, **settings):
    """The steps of a run after which transformers evaluates."""
    from transformers import TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_callback import DefaultFlowCallback

    args = TrainingArguments(output_dir=str(folder), eval_strategy="steps", report_to=[], use_cpu=True, **settings)
    state = TrainerState(max_steps=steps)
    state.compute_steps(args, steps)

    def evaluates(step):
        state.global_step = step
        return DefaultFlowCallback().on_step_end(args, state, TrainerControl()).should_evaluate

    return [step for step in range(1, steps + 1) if evaluates(step)]


@pytest.mark.parametrize("every", [-1, 0, 0.4, 2])
def test_evaluations_happen_after_the_steps_of_transformers(sft, dataset, tmp_path, every):
    run = sft(tmp_path / "run", val_dataset=dataset, max_steps=4, eval_strategy="steps", eval_steps=every, logging_steps=3)
    assert run.code == 0, run.err
    steps = [int(event["global_step/max_steps"].split("/")[0]) for event in run.log() if "eval_loss" in event]
    assert steps == evaluations_of_transformers(tmp_path / "theirs", 4, eval_steps=every, logging_steps=3)


@pytest.mark.parametrize("options,message", [(dict(eval_steps=2.5), "--eval_steps is 2.5"), (dict(eval_steps=-0.5), "--eval_steps is -0.5"), (dict(save_steps=1.5), "--save_steps is 1.5"),
                                             (dict(eval_steps=0, logging_steps=0), "--eval_steps and --logging_steps are 0")])
def test_steps_that_are_no_number_of_steps_are_refused(sft, dataset, tmp_path, options, message):
    run = sft(tmp_path / "run", val_dataset=dataset, eval_strategy="steps", max_steps=2, **options)
    assert run.code == 2 and message in run.err, run.err


def test_after_an_early_stop_the_next_command_takes_the_best_checkpoint(sft, tmp_path):
    run = sft(tmp_path / "run", split_dataset_ratio=0.25, eval_strategy="steps", eval_steps=1, save_steps=1, early_stop_interval=2, learning_rate=1,
              max_steps=20)
    assert run.code == 0, run.err
    best = json.loads((run.folder / f"checkpoint-{run.checkpoints()[-1]}" / "trainer_state.json").read_text())["best_model_checkpoint"]
    assert "stopped early" in run.out and best and not best.endswith(f"checkpoint-{run.checkpoints()[-1]}")
    (following,) = [line for line in run.out.splitlines() if line.split()[:1] == ["next"]]
    assert following.endswith(best)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_split_is_kept_as_a_file_and_answered_by_infer(sft, model_folder, dataset, tmp_path):
    data = tmp_path / "rows.jsonl"
    shutil.copy(dataset, data)
    run = sft(tmp_path / "run", dataset=data, split_dataset_ratio=0.25, max_steps=3)
    assert run.code == 0, run.err
    split = rows_of(run.folder / "val_dataset.jsonl")
    assert len(split) == 16
    every = [row["messages"] for row in rows_of(data)]
    assert all(row["messages"] in every for row in split)
    data.unlink()  # what infer answers is the file that training wrote
    answers = tmp_path / "answers.jsonl"
    words = [str(hone_binary()), "infer", "--adapters", str(run.folder / "checkpoint-3"), "--load_data_args", "true", "--max_new_tokens", "2",
             "--temperature", "0", "--result_path", str(answers)]
    infer = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert infer.returncode == 0, infer.stderr
    assert [row["messages"][:-1] for row in rows_of(answers)] == [row["messages"][:-1] for row in split]
    assert [row["labels"] for row in rows_of(answers)] == [row["messages"][-1]["content"] for row in split]


def test_no_split_writes_no_file(sft, dataset, tmp_path):
    run = sft(tmp_path / "run", val_dataset=dataset, max_steps=1, eval_strategy="steps", eval_steps=1)
    assert run.code == 0, run.err
    assert not (run.folder / "val_dataset.jsonl").exists()


def test_processes_share_one_validation_set(sft, tmp_path):
    options = dict(split_dataset_ratio=0.27, eval_on_start="true", eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=4, max_steps=1)
    alone = sft(tmp_path / "alone", **options)
    pair = sft(tmp_path / "pair", count=2, **options)
    assert alone.code == pair.code == 0, alone.err + pair.err

    def before_training(run):
        return next(event for event in run.log() if "eval_loss" in event)

    one, two = before_training(alone), before_training(pair)
    assert two["eval_loss"] == pytest.approx(one["eval_loss"], rel=1e-6)
    assert two["eval_token_acc"] == pytest.approx(one["eval_token_acc"], rel=1e-6)
    for event in (one, two):  # 17 rows are 5 batches in all, however many processes share them
        assert round(event["eval_steps_per_second"] * event["eval_runtime"]) == 5
        assert round(event["eval_samples_per_second"] * event["eval_runtime"]) == 17
