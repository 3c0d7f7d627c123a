"""A stopped and resumed run is bit-identical to an uninterrupted one; a killed run finds its newest complete checkpoint."""
import hashlib
import json
import signal
import subprocess
import time

import pytest

from train_testing import ENVIRONMENT, command, hone_binary


def digest(folder, name):
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def weights(folder):
    names = [n for n in ("adapter_model.safetensors", "model.safetensors") if (folder / n).exists()]
    assert names, f"no weights in {folder}"
    return digest(folder, names[0])


@pytest.mark.parametrize("options", [
    dict(tuner_type="lora", lora_dropout=0.1),
    dict(tuner_type="full", gradient_accumulation_steps=2),
    dict(tuner_type="lora", lora_dropout=0.1, packing="true", gradient_accumulation_steps=2, max_length=128),
    dict(tuner_type="full", torch_dtype="bfloat16"),
], ids=["lora+dropout", "full+accumulation", "packing", "full-bf16"])
def test_continued_equals_uninterrupted(sft, tmp_path, options, figure):
    whole = sft(tmp_path / "whole", **options)
    assert whole.code == 0, whole.err
    assert whole.checkpoints() == [3, 6]
    rest = sft(tmp_path / "rest", resume_from_checkpoint=whole.folder / "checkpoint-3", **options)
    assert rest.code == 0, rest.err
    assert rest.losses() == whole.losses()[3:]
    assert weights(rest.folder / "checkpoint-6") == weights(whole.folder / "checkpoint-6")
    assert digest(rest.folder / "checkpoint-6", "hone_state.safetensors") == digest(whole.folder / "checkpoint-6", "hone_state.safetensors")
    figure("sft: the last 3 of 6 steps again, losses, weights and state equal to the bit")


def test_two_processes_continue_as_if_never_stopped(sft, tmp_path):
    options = dict(lora_dropout=0.1, per_device_train_batch_size=1, count=2)
    whole = sft(tmp_path / "whole", **options)
    assert whole.code == 0, whole.err
    rest = sft(tmp_path / "rest", resume_from_checkpoint=whole.folder / "checkpoint-3", **options)
    assert rest.code == 0, rest.err
    assert weights(rest.folder / "checkpoint-6") == weights(whole.folder / "checkpoint-6")
    alone = sft(tmp_path / "alone", resume_from_checkpoint=whole.folder / "checkpoint-3", **{**options, "count": 1})
    assert alone.code == 0, alone.err  # one process continues where two had come to
    assert alone.checkpoints()[-1] == 6


def test_what_would_change_the_order_of_samples_is_named(sft, tmp_path):
    first = sft(tmp_path / "first", max_steps=3)
    assert first.code == 0, first.err
    checkpoint = first.folder / "checkpoint-3"
    for name, value in dict(packing="true", max_length=64, data_seed=3, truncation_strategy="left", dataset_shuffle="false").items():
        other = sft(tmp_path / "other", resume_from_checkpoint=checkpoint, **{name: value})
        assert other.code == 4, f"{name}: {other.err}"
        assert f"{name} was " in other.err and "--ignore_data_skip true" in other.err
    assert sft(tmp_path / "anew", resume_from_checkpoint=checkpoint, data_seed=3, ignore_data_skip="true").code == 0


def test_another_adapter_is_not_continued(sft, tmp_path):
    first = sft(tmp_path / "first", max_steps=3, lora_rank=4)
    assert first.code == 0, first.err
    for options, message in ((dict(lora_rank=8), "continue with --lora_rank 4"), (dict(lora_rank=4, target_modules="q_proj"), "which this run does not train"),
                          (dict(tuner_type="full"), "continue with --tuner_type lora")):
        other = sft(tmp_path / "other", resume_from_checkpoint=first.folder / "checkpoint-3", **options)
        assert other.code == 4 and message in other.err, other.err


def test_another_batch_size_resumes_in_the_same_order_and_reports_it(sft, tmp_path):
    first = sft(tmp_path / "first", max_steps=3)
    other = sft(tmp_path / "other", resume_from_checkpoint=first.folder / "checkpoint-3", per_device_train_batch_size=3)
    assert other.code == 0, other.err
    assert other.err.count("per_device_train_batch_size was 2 and is now 3") == 1 and other.err.count("in other batches") == 1, other.err


def test_another_optimizer_is_refused_before_the_model_is_loaded(sft, tmp_path):
    checkpoint = sft(tmp_path / "first", max_steps=3, optim="adamw_torch").folder / "checkpoint-3"
    other = sft(tmp_path / "other", resume_from_checkpoint=checkpoint, optim="lion_32bit")
    assert other.code == 4 and f"--optim is lion_32bit, and {checkpoint} holds the state of adamw_torch" in other.err, other.err
    assert "resume with --optim adamw_torch" in other.err and "--resume_only_model true" in other.err and "Running training" not in other.err, other.err
    for options in (dict(optim="lion_32bit", resume_only_model="true"), dict(optim="adamw_torch_fused")):
        other = sft(tmp_path / "other", resume_from_checkpoint=checkpoint, **options)
        assert other.code == 0, other.err


def test_same_seed_same_bits_whatever_the_threads(sft, tmp_path):
    one = sft(tmp_path / "one", dataloader_num_workers=1)
    four = sft(tmp_path / "four", dataloader_num_workers=4)
    assert one.code == four.code == 0, one.err + four.err
    assert one.losses() == four.losses()
    assert weights(one.folder / "checkpoint-6") == weights(four.folder / "checkpoint-6")


def tensors_in_state(checkpoint):
    data = (checkpoint / "hone_state.safetensors").read_bytes()
    return len(json.loads(data[8:8 + int.from_bytes(data[:8], "little")]).keys() - {"__metadata__"})


@pytest.mark.parametrize("point,newest", [
    ("before_first_byte", 3), ("mid_shard", 3), ("before_manifest", 3), ("before_rename", 3), ("after_rename", 6),
])
def test_killed_while_saving_leaves_the_newest_whole(sft, tmp_path, point, newest, figure):
    # Every point is passed once a save, but mid_shard once a tensor: aim at the second save.
    call = tensors_in_state(sft(tmp_path / "probe", max_steps=3).folder / "checkpoint-3") + 2 if point == "mid_shard" else 2
    run = sft(tmp_path / "run", fault=f"checkpoint.{point}:kill:{call}", max_steps=9)
    assert run.code == -signal.SIGKILL, run.err
    again = sft(tmp_path / "run", max_steps=9, resume_from_checkpoint=run.folder / f"checkpoint-{newest}")
    assert again.code == 0, again.err
    assert again.checkpoints()[-1] == 9
    assert not list(run.folder.glob("*.partial-*")), "leftovers were not swept"
    figure(f"{point}: continues from step {newest}")


def test_killed_in_retention(sft, tmp_path, figure):
    run = sft(tmp_path / "run", fault="checkpoint.during_retention:kill", max_steps=9, save_steps=2, save_total_limit=1)
    assert run.code == -signal.SIGKILL
    assert run.checkpoints() == [4]
    again = sft(tmp_path / "run", max_steps=9, save_steps=2, save_total_limit=1, resume_from_checkpoint=run.folder / "checkpoint-4")
    assert again.code == 0, again.err
    assert again.checkpoints() == [9]
    figure("in retention: continues from step 4")


def start(model_folder, dataset, folder, env={}, **options):
    words = [str(hone_binary()), "sft", *command(model_folder, dataset, folder, **options)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, **env})
    while process.poll() is None and not (folder / "logging.jsonl").exists():
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("number,code", [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_saves_and_the_rest_equals(sft, model_folder, dataset, tmp_path, number, code):
    shared = dict(save_steps=100000, lr_scheduler_type="constant")
    process = start(model_folder, dataset, tmp_path / "stopped", max_steps=100000, **shared)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert "saving a checkpoint" in err and "--resume_from_checkpoint" in out
    (saved,) = (tmp_path / "stopped").glob("checkpoint-*")
    end = int(saved.name.split("-")[1]) + 3
    whole = sft(tmp_path / "whole", max_steps=end, **shared)
    again = sft(tmp_path / "again", max_steps=end, resume_from_checkpoint=saved, **shared)
    assert whole.code == again.code == 0, whole.err + again.err
    assert weights(again.folder / f"checkpoint-{end}") == weights(whole.folder / f"checkpoint-{end}")


def test_second_signal_leaves_at_once(sft, model_folder, dataset, tmp_path):
    stuck = {"HONE_FAULT": "checkpoint.before_rename:sleep"}  # the save that the first asks for takes a minute
    process = start(model_folder, dataset, tmp_path / "run", env=stuck, max_steps=100000, save_steps=100000)
    process.send_signal(signal.SIGINT)
    while "a second signal exits at once" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130 and not [path for path in (tmp_path / "run").glob("checkpoint-*") if ".partial" not in path.name]
