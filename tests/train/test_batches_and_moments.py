"""Options about batches and moments, compared with transformers' Trainer."""
import json
import subprocess

import pytest

from train_testing import ENVIRONMENT, hone_binary

ROWS = 64  # of the dataset fixture


def peer_trainer(tmp_path, iterable=False, **settings):
    """transformers' Trainer on rows without meaning: only its steps and epochs are looked at."""
    import torch
    from transformers import Trainer, TrainingArguments

    class Rows(torch.utils.data.IterableDataset if iterable else torch.utils.data.Dataset):
        def __len__(self):
            if iterable:
                raise TypeError
            return ROWS

        def __getitem__(self, index):
            return {"x": torch.ones(2), "labels": torch.ones(1)}

        def __iter__(self):
            return (self[i] for i in range(ROWS))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.line = torch.nn.Linear(2, 1)

        def forward(self, x, labels):
            return {"loss": (self.line(x) - labels).pow(2).mean()}

    arguments = TrainingArguments(output_dir=tmp_path / "peer", report_to=[], logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True, **settings)
    trainer = Trainer(Model(), arguments, train_dataset=Rows())
    trainer.train()
    return [event["epoch"] for event in trainer.state.log_history if "loss" in event]


def epochs_of(run):
    return [event["epoch"] for event in run.log() if "loss" in event and "log_history" not in event]


def test_a_stream_counts_epochs_as_transformers_does(sft, tmp_path):
    options = dict(max_steps=20, per_device_train_batch_size=4, gradient_accumulation_steps=2)
    run = sft(tmp_path / "run", streaming="true", save_steps=10, **options)
    assert run.code == 0, run.err
    peer = peer_trainer(tmp_path, iterable=True, **options)
    assert [round(float(epoch), 2) for epoch in epochs_of(run)] == [round(epoch, 2) for epoch in peer]
    resumed = sft(tmp_path / "run", streaming="true", save_steps=10, resume_from_checkpoint=run.folder / "checkpoint-10", **options)
    assert resumed.code == 0, resumed.err
    assert epochs_of(resumed)[-1] == epochs_of(run)[-1]


@pytest.mark.parametrize("drop", ["true", "false"])
def test_a_last_smaller_batch_is_left_out_when_asked(sft, tmp_path, drop):
    options = dict(num_train_epochs=1, per_device_train_batch_size=5, max_steps=-1)
    run = sft(tmp_path / "run", dataloader_drop_last=drop, **options)
    assert run.code == 0, run.err
    assert len(epochs_of(run)) == len(peer_trainer(tmp_path, dataloader_drop_last=drop == "true", **options))


def test_a_batch_that_is_never_full_is_reported(sft, tmp_path):
    run = sft(tmp_path / "run", dataloader_drop_last="true", per_device_train_batch_size=100)
    assert run.code == 3 and "no batch of 100 rows" in run.err, run.err


def test_only_the_best_are_saved(sft, tmp_path):
    run = sft(tmp_path / "run", save_strategy="best", eval_strategy="steps", eval_steps=1, split_dataset_ratio=0.25, max_steps=8, learning_rate=0.3)
    assert run.code == 0, run.err
    losses = [(event["eval_loss"], step) for step, event in enumerate((e for e in run.log() if "eval_loss" in e), 1)]
    better = [step for loss, step in losses if all(loss < other for other, earlier in losses if earlier < step)]
    assert run.checkpoints() == better and len(better) < len(losses)


def test_saving_the_best_needs_evaluation(sft, tmp_path):
    run = sft(tmp_path / "run", save_strategy="best", eval_strategy="no")
    assert run.code == 2 and "evaluation" in run.err


def test_overflow_debugging_stops_the_run(sft, tmp_path):
    run = sft(tmp_path / "run", debug="underflow_overflow", fault="train.loss:nan:3")
    assert run.code == 6 and "step 3" in run.err, run.err


def test_a_number_of_training_rows(sft, tmp_path):
    run = sft(tmp_path / "run", train_dataset_sample=6, max_steps=-1, num_train_epochs=1)
    assert run.code == 0 and len(epochs_of(run)) == 3, run.err


def test_every_validation_set_has_numbers_of_its_own(model_folder, dataset, tmp_path):
    rows = dataset.read_text().splitlines()
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
    names = {"first": rows[:10], "second": rows[10:24]}
    for name, lines in names.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    info = {name: {"file_name": f"{name}.jsonl", "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags} for name in names}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))

    def evaluate(sets, folder, **more):
        settings = dict(model_name_or_path=str(model_folder), stage="sft", do_eval=True, finetuning_type="lora", dataset="first", eval_dataset=sets,
                        dataset_dir=str(tmp_path), template="qwen", cutoff_len=256, output_dir=str(tmp_path / folder), **more)
        words = [str(part) for key, value in settings.items() for part in (f"--{key}", value)]
        done = subprocess.run([hone_binary().with_name("llamafactory-cli"), "train", *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / folder / "all_results.json").read_text())

    apart = evaluate("first,second", "apart", eval_on_each_dataset="true")
    assert "eval_loss" not in apart
    for name in names:
        assert apart[f"eval_{name}_loss"] == pytest.approx(evaluate(name, name)["eval_loss"], rel=1e-6)
    trained = evaluate("first,second", "trained", eval_on_each_dataset="true", do_train="true", eval_strategy="steps", eval_steps=2, max_steps=2,
                       per_device_train_batch_size=2)
    assert {"eval_first_loss", "eval_second_loss"} <= trained.keys()


def test_a_batch_that_does_not_fit_is_halved(sft, tmp_path, figure):
    run = sft(tmp_path / "run", auto_find_batch_size="true", per_device_train_batch_size=8, fault="train.memory:nan:2", max_steps=4, save_steps=4)
    assert run.code == 0, run.err
    assert "--per_device_train_batch_size 4" in run.err
    assert json.loads((run.folder / "checkpoint-4/trainer_state.json").read_text())["train_batch_size"] == 4
    plain = sft(tmp_path / "plain", per_device_train_batch_size=8, fault="train.memory:nan:2", max_steps=4)
    assert plain.code == 5 and "ran out of memory" in plain.err
    figure("batch 8 halved to 4; without leave exit code 5")


def test_lisa_trains_other_layers_from_time_to_time(sft, model_folder, tmp_path):
    from safetensors.torch import load_file
    run = sft(tmp_path / "run", tuner_type="full", lisa_activated_layers=1, lisa_step_interval=2, max_steps=8, save_steps=1, weight_decay=0)
    assert run.code == 0, run.err

    def layers_moved(before, after):
        return {int(name.split(".")[2]) for name in before if name.startswith("model.layers.") and not before[name].equal(after[name])}

    states = [load_file(model_folder / "model.safetensors")] + [load_file(run.folder / f"checkpoint-{step}/model.safetensors") for step in range(1, 9)]
    moved = [layers_moved(before, after) for before, after in zip(states, states[1:])]
    assert all(len(layers) == 1 for layers in moved) and moved[0] == moved[1] and moved[2] == moved[3]
    assert len({min(layers) for layers in moved}) == 2  # of two layers both had their turn
    assert not states[0]["model.embed_tokens.weight"].equal(states[1]["model.embed_tokens.weight"])
    resumed = sft(tmp_path / "again", tuner_type="full", lisa_activated_layers=1, lisa_step_interval=2, max_steps=8, save_steps=4, weight_decay=0,
                  resume_from_checkpoint=run.folder / "checkpoint-4")
    assert resumed.losses()[-2:] == run.losses()[-2:], resumed.err
    refused = sft(tmp_path / "lora", lisa_activated_layers=1)
    assert refused.code == 2 and "set --tuner_type full" in refused.err


def test_evaluation_in_half_precision(model_folder, dataset, tmp_path):
    info = {"rows": {"file_name": str(dataset), "formatting": "sharegpt", "columns": {"messages": "messages"},
                     "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))

    def loss(name, *words):
        done = subprocess.run([hone_binary().with_name("llamafactory-cli"), "train", "--model_name_or_path", model_folder, "--stage", "sft", "--do_eval", "true",
                               "--finetuning_type", "full", "--dataset", "rows", "--eval_dataset", "rows", "--dataset_dir", tmp_path, "--template", "qwen", "--output_dir",
                               tmp_path / name, *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / name / "all_results.json").read_text())["eval_loss"]

    whole, half = loss("whole"), loss("half", "--bf16_full_eval", "true")
    assert half != whole and half == pytest.approx(whole, rel=2e-2)


def test_accelerates_settings_that_count(sft, tmp_path):
    plain = sft(tmp_path / "plain", count=2, max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2)
    split = sft(tmp_path / "split", count=2, max_steps=3, per_device_train_batch_size=4,
                accelerator_config='{"split_batches": true, "even_batches": true, "gradient_accumulation_kwargs": {"num_steps": 2}}')
    assert (plain.code, split.code) == (0, 0), split.err
    assert split.losses() == plain.losses() and "even_batches has no effect" in split.err
    settings = tmp_path / "accelerator.json"
    settings.write_text('{"gradient_accumulation_kwargs": {"num_steps": 2}}')
    both = sft(tmp_path / "both", accelerator_config=settings, gradient_accumulation_steps=2)
    assert both.code == 2 and "num_steps" in both.err and "gradient_accumulation_steps" in both.err
    uneven = sft(tmp_path / "uneven", count=2, per_device_train_batch_size=3, accelerator_config='{"split_batches": true}')
    assert uneven.code == 2 and "do not split over 2 processes" in uneven.err
    unknown = sft(tmp_path / "unknown", accelerator_config='{"split_batch": true}')
    assert unknown.code == 2 and "split_batch" in unknown.err
