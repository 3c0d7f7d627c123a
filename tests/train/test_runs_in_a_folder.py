"""Which run a folder's checkpoints belong to: two in one folder neither mix nor delete each other's, and the same command again continues."""
import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from train_testing import ENVIRONMENT, command, hone_binary


def run_id(checkpoint):
    return json.loads((checkpoint / "manifest.json").read_text())["run_id"]


def steps(run):
    return [int(event["global_step/max_steps"].split("/")[0]) for event in run.log() if "loss" in event]


@pytest.mark.reliability(8)
def test_another_rate_is_another_run(sft, tmp_path, figure):
    slow = dict(learning_rate="1e-3", save_steps=2, max_steps=4, save_total_limit=2)
    fast = {**slow, "learning_rate": "1e-2", "max_steps": 3, "save_steps": 1}
    first = sft(tmp_path / "run", **slow)
    assert first.code == 0, first.err
    of_first = run_id(first.folder / "checkpoint-4")
    second = sft(tmp_path / "run", **fast)
    assert second.code == 0, second.err
    of_second = run_id(second.folder / "checkpoint-3")
    assert of_first != of_second
    kept = {path.name: run_id(path) for path in second.folder.glob("checkpoint-*")}
    assert list(kept.values()).count(of_first) == 2, kept  # none of the first run's is gone, whatever it is called now
    mine = sft(tmp_path / "run", **slow, resume_from_checkpoint="true")
    assert f"resuming from {tmp_path}/run/checkpoint-4" in mine.err and "and is now" not in mine.err, mine.err
    longer = sft(tmp_path / "run", **{**slow, "max_steps": 6}, resume_from_checkpoint="true")
    assert longer.code == 0 and f"resuming from {tmp_path}/run/checkpoint-4" in longer.err, longer.err  # settings differ least
    assert "max_steps was 4 and is now 6" in longer.err and "learning_rate was" not in longer.err
    figure("another learning rate: 2 of 2 checkpoints of the first run kept")


@pytest.mark.reliability(8)
@pytest.mark.parametrize("versions", ["true", "false"])
def test_the_same_command_again_resumes_or_starts(sft, tmp_path, versions, figure):
    settings = dict(add_version=versions, resume_from_checkpoint="true", max_steps=6, save_steps=2)
    killed = sft(tmp_path / "out", **settings, fault="checkpoint.before_rename:kill:3")
    assert killed.code == -signal.SIGKILL and "starts from the beginning" in killed.err, killed.err
    again = sft(tmp_path / "out", **settings)
    assert again.code == 0, again.err
    assert "resuming from" in again.err and "checkpoint-4" in again.err
    folders = sorted(tmp_path.glob("out/v*")) if versions == "true" else [tmp_path / "out"]
    assert len(folders) == 1 and (folders[0] / "checkpoint-6").exists(), "it continues where it was"
    again.folder = folders[0]
    assert steps(again) == [1, 2, 3, 4, 5, 6], "every step is logged once"
    assert run_id(folders[0] / "checkpoint-2") == run_id(folders[0] / "checkpoint-6")
    assert not list(folders[0].glob("*.partial-*")) and not (folders[0] / ".hone-run.lock").exists()
    figure("the same command after a kill: every step logged once")


def start(model_folder, dataset, folder, env={}, **options):
    words = [str(hone_binary()), "sft", *command(model_folder, dataset, folder, **options)]
    # Under nohup the tests would hand an ignored SIGHUP down, which a run respects.
    heeds_hangup = lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)  # noqa: E731
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, **env}, preexec_fn=heeds_hangup)
    while process.poll() is None and not (folder / "logging.jsonl").exists():
        time.sleep(0.02)
    return process


def test_two_runs_do_not_write_into_one_folder_at_a_time(sft, model_folder, dataset, tmp_path):
    first = start(model_folder, dataset, tmp_path / "run", max_steps=100000, save_steps=100000)
    try:
        second = sft(tmp_path / "run")
        assert second.code == 2 and f"is being written to by process {first.pid} on " in second.err, second.err
    finally:
        first.kill()
        first.communicate(timeout=60)
    assert sft(tmp_path / "run", max_steps=1).code == 0  # who was killed holds nothing


def test_a_closed_terminal_saves(model_folder, dataset, tmp_path):
    process = start(model_folder, dataset, tmp_path / "run", max_steps=100000, save_steps=100000)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 75 and list((tmp_path / "run").glob("checkpoint-*")), err


def test_weights_that_broke_are_no_success(sft, tmp_path):
    run = sft(tmp_path / "run", learning_rate="1e30", max_steps=8, lr_scheduler_type="constant", warmup_ratio=0)
    assert run.code == 6 and "skipped" in run.err, run.err


FIXTURES = Path(__file__).resolve().parent / "checkpoints"


@pytest.mark.reliability(18)
@pytest.mark.parametrize("kept", sorted(FIXTURES.glob("schema-*")), ids=lambda folder: folder.name)
def test_checkpoints_of_earlier_versions_are_continued(hone, figure, tmp_path, kept):
    """Each folder: a checkpoint as that version wrote it, and story.json: the command, and the losses that followed it."""
    story = json.loads((kept / "story.json").read_text())
    shutil.copytree(kept / "checkpoint-2", tmp_path / "checkpoint-2")
    done = hone(*story["command"], "--output_dir", tmp_path / "out", "--add_version", "false", "--resume_from_checkpoint", tmp_path / "checkpoint-2", cwd=kept)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (tmp_path / "out/logging.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if "loss" in event]
    figure(f"{kept.name}: losses {losses}, written with it {story['losses']}")
    assert losses == pytest.approx(story["losses"], rel=1e-4)
