"""Output files of a run, read by the programs that use them: tensorboard, PIL, peft, json."""
import json

import pytest


def test_swift_layout(sft, tmp_path):
    run = sft(tmp_path / "out", create_checkpoint_symlink="true", save_total_limit=1, report_to="tensorboard")
    assert run.code == 0, run.err
    for name in ("args.json", "logging.jsonl", "images/train_loss.png", "runs"):
        assert (run.folder / name).exists(), name
    assert run.checkpoints() == [6]
    assert (run.folder / "last").resolve().name == "checkpoint-6"
    events = run.log()
    assert {"loss", "grad_norm", "learning_rate", "token_acc", "epoch", "global_step/max_steps", "elapsed_time", "remaining_time",
            "memory(GiB)", "train_speed(s/it)"} <= events[0].keys()
    assert events[0]["global_step/max_steps"] == "1/6"
    assert "train_runtime" in events[-2]
    assert events[-1]["last_model_checkpoint"].endswith("checkpoint-6")
    state = json.loads((run.folder / "checkpoint-6/trainer_state.json").read_text())
    assert state["global_step"] == 6 and len(state["log_history"]) == 6
    assert "'loss':" in run.out and "checkpoint-6" in run.out


def test_versions_count_up(sft, tmp_path):
    for _ in range(2):
        assert sft(tmp_path / "out", add_version="true", max_steps=1).code == 0
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert [n.split("-")[0] for n in names] == ["v0", "v1"]


def test_tensorboard_reads_the_events(sft, tmp_path):
    import tensorboard.backend.event_processing.event_accumulator as reader
    run = sft(tmp_path / "out", report_to="tensorboard")
    accumulator = reader.EventAccumulator(str(run.folder / "runs"))
    accumulator.Reload()
    values = [event.value for event in accumulator.Scalars("train/loss")]
    assert values == pytest.approx(run.losses(), rel=1e-6)
    assert [event.step for event in accumulator.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("tracker, command", [("wandb", "wandb sync"), ("swanlab", "swanlab convert -t tensorboard --tb-logdir"), ("mlflow", "")])
def test_other_trackers_get_tensorboard_files_and_a_command_to_upload_them(sft, tmp_path, tracker, command):
    run = sft(tmp_path / "out", report_to=tracker, max_steps=1)
    assert run.code == 0, run.err
    assert f"--report_to {tracker}: written as TensorBoard files" in run.err and command in run.err
    assert not command or f"{command} {run.folder / 'runs'}" in run.err
    assert len(list((run.folder / "runs").glob("events.out.tfevents.*"))) == 1


def test_an_unknown_tracker_is_refused_and_none_writes_nothing(sft, tmp_path):
    refused = sft(tmp_path / "out", report_to="wanbd")
    assert refused.code == 2 and '--report_to is "wanbd"' in refused.err
    assert not (tmp_path / "out").exists()
    quiet = sft(tmp_path / "out", report_to="none", max_steps=1)
    assert quiet.code == 0 and not (quiet.folder / "runs").exists()


def test_evaluation_tracks_the_best(sft, dataset, tmp_path):
    run = sft(tmp_path / "out", val_dataset=dataset, eval_steps=3, eval_strategy="steps")
    assert run.code == 0, run.err
    evals = [event for event in run.log() if "eval_loss" in event]
    assert [event["global_step/max_steps"] for event in evals] == ["3/6", "6/6"]
    assert {"eval_loss", "eval_token_acc", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second"} <= evals[0].keys()
    state = json.loads((run.folder / "checkpoint-6/trainer_state.json").read_text())
    assert state["best_metric"] == pytest.approx(min(event["eval_loss"] for event in evals), rel=1e-6)


def test_peft_loads_the_adapter(sft, model_folder, tmp_path):
    import peft
    from transformers import AutoModelForCausalLM

    run = sft(tmp_path / "out")
    base = AutoModelForCausalLM.from_pretrained(model_folder)
    model = peft.PeftModel.from_pretrained(base, str(run.folder / "checkpoint-6"))
    assert any("lora_B" in name and parameter.abs().sum() > 0 for name, parameter in model.named_parameters())
