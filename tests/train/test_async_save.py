"""--async_save true: checkpoints written during training are bit-identical, atomic, and report the same errors."""
import signal
import subprocess
import time

import pytest

from train_testing import ENVIRONMENT, command, hone_binary, processes

LAYOUTS = {
    "lora": dict(tuner_type="lora", lora_dropout=0.1),
    "full-bf16": dict(tuner_type="full", torch_dtype="bfloat16"),
    "zero1": dict(tuner_type="full", count=2, deepspeed="zero1"),
    "zero3": dict(tuner_type="full", count=2, deepspeed="zero3"),
}


def bits(checkpoint):
    """Every file of tensors; the others hold times and the names of folders."""
    return {file.name: file.read_bytes() for file in checkpoint.glob("*.safetensors")}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_bits(sft, tmp_path, layout):
    plain, beside = (sft(tmp_path / name, async_save=name, save_steps=1, max_steps=4, **LAYOUTS[layout]) for name in ("false", "true"))
    assert plain.code == beside.code == 0, plain.err + beside.err
    assert plain.checkpoints() == beside.checkpoints() == [1, 2, 3, 4] and plain.losses() == beside.losses()
    for step in plain.checkpoints():
        assert bits(plain.folder / f"checkpoint-{step}") == bits(beside.folder / f"checkpoint-{step}")
    assert not list(beside.folder.glob("*.partial*"))


def test_continued_equals_uninterrupted(sft, tmp_path):
    whole = sft(tmp_path / "whole", async_save="true", **LAYOUTS["lora"])
    rest = sft(tmp_path / "rest", async_save="true", resume_from_checkpoint=whole.folder / "checkpoint-3", **LAYOUTS["lora"])
    assert rest.code == 0, rest.err
    assert bits(rest.folder / "checkpoint-6") == bits(whole.folder / "checkpoint-6")


@pytest.mark.parametrize("point, call, whole", [("before_first_byte", 2, [3]), ("mid_shard", 40, None), ("before_manifest", 2, [3]), ("before_rename", 2, [3]),
                                                ("after_rename", 2, [3, 6])])
def test_killed_at_every_point_of_a_save(sft, tmp_path, point, call, whole):
    run = sft(tmp_path / "run", fault=f"checkpoint.{point}:kill:{call}", async_save="true", max_steps=9, tuner_type="full")
    assert run.code == -signal.SIGKILL
    assert whole is None or run.checkpoints() == whole
    assert all((run.folder / f"checkpoint-{step}/manifest.json").exists() for step in run.checkpoints())
    if point != "before_rename":
        return
    again = sft(tmp_path / "run", async_save="true", max_steps=9, tuner_type="full", resume_from_checkpoint=run.folder / "checkpoint-3")
    assert again.code == 0 and again.checkpoints()[-1] == 9, again.err
    assert not list(run.folder.glob("*.partial-*")), "leftovers were not swept"


@pytest.mark.parametrize("call", [1, 4, 8])
def test_a_full_disk_costs_one_save_not_the_run(sft, tmp_path, call):
    run = sft(tmp_path / "run", fault=f"checkpoint.write:enospc:{call}", async_save="true", max_steps=9, tuner_type="full")
    assert run.code == 0 and run.err.count("was not saved") == 1, run.err
    assert run.checkpoints()[-1] == 9 and len(run.checkpoints()) == 2
    assert not list(run.folder.glob("*.partial*"))
    assert any(event.get("failed_saves") == 1 for event in run.log())


@pytest.mark.parametrize("count, strategy", [(1, {}), (2, dict(deepspeed="zero2"))])
def test_stopping_during_a_save(sft, model_folder, dataset, tmp_path, count, strategy, figure):
    """It waits for that save and adds its own: one newest checkpoint, and no half of one."""
    folder = tmp_path / "run"
    line = [str(hone_binary()), "sft", *command(model_folder, dataset, folder, tuner_type="full", async_save="true", save_steps=1, max_steps=100000, save_total_limit=3, **strategy)]
    run = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, **processes(count)})
    try:
        while run.poll() is None and not list(folder.glob("*.partial*")):
            time.sleep(0.001)
        run.send_signal(signal.SIGTERM)
        output = run.communicate(timeout=120)[1]
    finally:
        if run.poll() is None:
            run.kill()
    assert run.returncode == 75, output
    assert not list(folder.glob("*.partial*"))
    newest = max(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*"))
    again = sft(tmp_path / "again", count=count, tuner_type="full", resume_from_checkpoint=folder / f"checkpoint-{newest}", max_steps=newest + 1, save_steps=1, **strategy)
    assert again.code == 0 and len(again.losses()) == 1, again.err
    figure(f"{count} ranks: newest is step {newest}, nothing half")
