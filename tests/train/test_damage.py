"""Corruption, full disks, foreign folders and non-finite numbers: messages and what survives."""
import json
import os
import shutil
import subprocess

import pytest
from train_testing import ENVIRONMENT, Run, command, hone_binary


def damage_truncate(folder):
    path = folder / "adapter_model.safetensors"
    os.truncate(path, path.stat().st_size // 2)


def damage_flip(folder):
    path = folder / "adapter_model.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def damage_manifest(folder):
    (folder / "manifest.json").write_text('{"schema": 1')


@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, damage_manifest])
def test_a_requested_checkpoint_that_is_damaged_is_refused(sft, tmp_path, damage, figure):
    run = sft(tmp_path / "run")
    assert run.code == 0, run.err
    damage(run.folder / "checkpoint-6")
    again = sft(tmp_path / "again", resume_from_checkpoint=run.folder / "checkpoint-6", max_steps=9)
    assert again.code == 4
    assert "checkpoint-6" in again.err and ("adapter_model.safetensors" in again.err or "manifest.json" in again.err)
    figure(f"{damage.__name__}: exit code {again.code}")


def test_output_folder_that_is_a_file_fails_before_the_model_loads(sft, tmp_path, figure):
    taken = tmp_path / "taken"
    taken.write_text("x")
    run = sft(taken)
    assert run.code == 2
    assert str(taken) in run.err
    figure(f"exit code {run.code}")


@pytest.mark.parametrize("call", [1, 3, 5, 8])
def test_a_full_disk_costs_one_save_not_the_run(sft, tmp_path, call, figure):
    run = sft(tmp_path / "run", fault=f"checkpoint.write:enospc:{call}", max_steps=9)
    assert run.code == 0, run.err
    assert "was not saved" in run.err
    assert run.checkpoints()[-1] == 9
    assert not list(run.folder.glob("*.partial*"))
    figure(f"write {call} fails: checkpoints {run.checkpoints()}")


def test_a_last_step_that_cannot_be_saved_is_a_failure(model_folder, dataset, tmp_path, figure):
    words = [hone_binary(), "sft", *command(model_folder, dataset, tmp_path / "run", max_steps=2)]
    small_files = ["bash", "-c", 'trap "" XFSZ; ulimit -f 40; exec "$@"', "bash"]  # weights do not fit, logs do
    run = Run(subprocess.run([*small_files, *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=300), tmp_path / "run")
    assert run.code == 8, run.err
    assert "Training finished; the last step was not saved" in run.out and run.checkpoints() == []
    figure(f"files end at 40 KiB: exit code {run.code}, no checkpoint left")


def test_a_run_that_is_named_resumes_from_its_newest_checkpoint(sft, tmp_path):
    run = sft(tmp_path / "run")
    again = sft(tmp_path / "run", resume_from_checkpoint=run.folder, max_steps=9)
    assert again.code == 0, again.err
    assert f"its newest checkpoint is {run.folder}/checkpoint-6" in again.err and again.checkpoints() == [3, 6, 9]
    empty = tmp_path / "empty"
    empty.mkdir()
    nothing = sft(tmp_path / "run", resume_from_checkpoint=empty)
    assert nothing.code == 4 and "nothing else of a checkpoint" in nothing.err
    unusable = tmp_path / "unusable.jsonl"
    unusable.write_bytes('{"query": "问", "response": "答"}\n'.encode("gbk"))
    early = sft(tmp_path / "early", val_dataset=unusable, eval_steps=1)
    assert early.code == 3 and "no row of the validation data can be used" in early.err and not (tmp_path / "early").exists()


def test_skipped_steps_are_counted_and_named(sft, dataset, tmp_path, figure):
    run = sft(tmp_path / "run", fault="train.loss:nan:2")
    assert run.code == 0, run.err
    assert "step 2" in run.err and "skipped" in run.err and dataset.name in run.err
    assert run.log()[-2].get("train_loss") is not None
    figure("one process: step 2 named and skipped")


def test_stop_policy_exits_6_and_weights_before_it_are_kept(sft, tmp_path):
    run = sft(tmp_path / "run", fault="train.gradient:nan:5", non_finite="stop")
    assert run.code == 6
    assert "step 5" in run.err and "gradient" in run.err
    assert run.checkpoints() == [3]


def test_retention_never_touches_another_runs_folder(sft, tmp_path, figure):
    first = sft(tmp_path / "run", max_steps=4, save_steps=2, lora_rank=4)
    assert first.code == 0, first.err
    shutil.move(first.folder / "checkpoint-4", first.folder / "checkpoint-400")
    second = sft(tmp_path / "run", max_steps=6, save_steps=2, save_total_limit=1)
    assert second.code == 0, second.err
    assert (second.folder / "checkpoint-400").exists()
    assert any(p.name.startswith("checkpoint-2.other") for p in second.folder.iterdir())
    assert second.checkpoints() == [6, 400]
    figure(f"left: checkpoints {second.checkpoints()}")


def test_save_only_model_says_what_it_cannot_continue(sft, tmp_path):
    run = sft(tmp_path / "run", save_only_model="true")
    assert run.code == 0, run.err
    assert not (run.folder / "checkpoint-6/hone_state.safetensors").exists()
    again = sft(tmp_path / "again", resume_from_checkpoint=run.folder / "checkpoint-3")
    assert again.code == 4 and "resume_only_model" in again.err
    fresh = sft(tmp_path / "fresh", resume_from_checkpoint=run.folder / "checkpoint-3", resume_only_model="true")
    assert fresh.code == 0, fresh.err
    assert json.loads((fresh.folder / "checkpoint-6/trainer_state.json").read_text())["global_step"] == 6
