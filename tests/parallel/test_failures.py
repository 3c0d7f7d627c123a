"""A rank that stops, dies, slows down or counts wrong: the others notice, say whom, and the run continues where it can."""
import json
import os
import re
import signal
import time

import pytest
from parallel_testing import environment, hone_binary, words
from processes import Started, start, steps_logged, wait_for


@pytest.fixture
def running(model_folder, dataset, tmp_path):
    """running(world, …) starts a run and waits for its first steps; whatever happens, nothing is left behind."""
    runs = []

    def begin(world, folder=tmp_path, steps=3, **options):
        run = start(model_folder, dataset, folder, world, **options)
        runs.append(run)
        wait_for(lambda: steps_logged(folder) >= steps or run.process.poll() is not None, what="a step")
        assert run.process.poll() is None, run.text()
        return run

    yield begin
    for run in runs:
        run.stop()


@pytest.mark.parametrize("victim, strategy", [(1, {}), (0, dict(deepspeed="zero3"))])
def test_a_stopped_rank_is_named(running, victim, strategy, figure):
    run = running(2, **strategy)
    other = run.ranks()[1 - victim]
    began = time.monotonic()
    run.signal(victim, signal.SIGSTOP)
    assert run.wait() == 7, run.text()
    assert f"rank {victim}" in run.text() and ("has sent no heartbeat" in run.text() or "has not answered" in run.text()), run.text()
    assert "collective" in run.text()
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)
    figure(f"rank {victim} named, the other ends with 7 after {time.monotonic() - began:.1f} s")


def test_a_killed_rank_is_restarted_from_its_checkpoint(running, tmp_path, reference, figure):
    whole = reference("lora", 1, num_train_epochs=4, lr_scheduler_type="constant").losses()
    run = running(2, steps=6, max_restarts=1, save_steps=3, lr_scheduler_type="constant")  # has no end of its own: it cannot be over before it is killed
    run.signal(1, signal.SIGKILL)
    wait_for(lambda: "restart 1 of 1" in run.text(), what="the restart")
    begun = steps_logged(tmp_path)
    wait_for(lambda: steps_logged(tmp_path) >= begun + len(whole), what="steps after it")
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 75, run.text()
    assert "rank 1 was killed by signal 9" in run.text()
    events = [json.loads(line) for line in (tmp_path / "logging.jsonl").read_text().splitlines()]
    losses = {int(event["global_step/max_steps"].split("/")[0]): event["loss"] for event in events if "loss" in event and "global_step/max_steps" in event}
    assert [losses[step] for step in range(1, len(whole) + 1)] == pytest.approx(whole, abs=1e-5)
    figure(f"restarted once, {len(whole)} losses as without the kill")


def test_ctrl_c_is_no_failure_of_a_rank(running):
    run = running(2)
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 130, run.text()
    assert "exited with code" not in run.text(), run.text()


def test_without_restarts_the_first_failure_is_the_exit_code(running):
    run = running(2)
    run.signal(1, signal.SIGKILL)
    assert run.wait() == 137, run.text()
    assert "rank 1 was killed by signal 9" in run.text() and "rank 0 exited" not in run.text()
    assert "has no checkpoint yet: start the command again" in run.text()


def test_a_mistake_is_not_tried_again(train, tmp_path, figure):
    done = train(tmp_path, 2, max_restarts=3, learning_rate="1e-3", dataset=tmp_path / "missing.jsonl")
    assert done.code in (2, 3) and "restart" not in done.err
    figure(f"a mistake: exit code {done.code}, no restart")


def test_a_signal_to_one_rank_makes_all_save_the_same_step(running, train, tmp_path, figure):
    run = running(4, deepspeed="zero3", save_steps=1000)
    run.signal(2, signal.SIGTERM)
    assert run.wait() == 75, run.text()
    (saved,) = tmp_path.glob("checkpoint-*")
    states = [json.loads(file.read_text()) for file in saved.glob("hone_state*.json")]
    assert len(states) == 4 and len({state["train"]["global_step"] for state in states}) == 1
    again = train(tmp_path / "again", 4, tuner_type="lora", deepspeed="zero3", resume_from_checkpoint=saved, max_steps=states[0]["train"]["global_step"] + 2,
                  num_train_epochs=100000)
    assert again.code == 0 and len(again.losses()) == 2, again.err
    figure(f"4 ranks at step {states[0]['train']['global_step']}, exit code 75")


def test_a_slow_rank_is_named(running, figure):
    """When nobody is named is a matter of numbers alone: tests/unit/train/straggler_watch_test.cpp."""
    run = running(2, steps=1)
    victim, began = run.ranks()[1], time.monotonic()

    def slowed():
        os.kill(victim, signal.SIGSTOP)
        time.sleep(0.12)
        os.kill(victim, signal.SIGCONT)
        time.sleep(0.03)
        return "rank 1 is slow" in run.text()

    wait_for(slowed, what="the warning")
    figure(f"named after {time.monotonic() - began:.1f} s")


@pytest.mark.parametrize("place, strategy", [("train.loss", {}), ("train.loss", dict(deepspeed="zero3")), ("train.gradient", dict(deepspeed="zero2"))])
def test_nan_on_one_rank_is_everyones(model_folder, dataset, tmp_path, place, strategy, figure):
    """The step is skipped on all ranks before the optimizer moves, also when it is not logged."""
    from test_launching import finish
    from workers import free_port
    from test_launching import start as begin

    shared = dict(WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    line = [hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 2, tuner_type="full", logging_steps=4, **strategy)]
    ranks = [begin(line, environment(1, RANK=rank, LOCAL_RANK=rank, **shared, **({"HONE_FAULT": f"{place}:nan:2"} if rank == 1 else {}))) for rank in (0, 1)]
    first, second = (finish(rank, tmp_path) for rank in ranks)
    assert first.code == second.code == 0, first.err + second.err
    assert "step 2" in first.err and "not finite" in first.err and "the weights are unchanged" in first.err
    states = [json.loads(file.read_text())["train"] for file in sorted((tmp_path / f"checkpoint-{first.checkpoints()[-1]}").glob("hone_state*.json"))]
    assert [state["skipped_steps"] for state in states] == [1, 1]
    figure(f"{place}: both ranks skip 1 step")


def test_a_full_disk_costs_a_sharded_adapter_some_saves_not_the_run(train, tmp_path):
    """Each rank's first write fails, one after the other: what was gathered for them is let go of on all ranks alike."""
    done = train(tmp_path, 2, tuner_type="lora", deepspeed="zero3", save_steps=2, env={"HONE_FAULT": "checkpoint.write:enospc:1"})
    assert done.code == 0, done.err
    assert "checkpoint-4 was not saved" in done.err.replace("\n", " ") and done.checkpoints() == [6, 8]


def test_a_spike_is_named_with_its_rows_and_passed_over_by_all(train, tmp_path, figure):
    """A hundred easy rows and one that is nothing like them: the process that holds it names it, and none takes the step."""
    rows = [{"messages": [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "red red red red"}]} for _ in range(100)]
    rows[90]["messages"][1]["content"] = "Zq#9 !@ %vX jW& ~^ Kp" * 5
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = train(tmp_path / "run", 2, tuner_type="full", dataset=data, per_device_train_batch_size=1, num_train_epochs=1, learning_rate="1e-2", lr_scheduler_type="constant",
                 train_dataloader_shuffle="false", dataset_shuffle="false", loss_spike="skip", loss_spike_sigmas=3)
    assert done.code == 0, done.err
    text = done.err.replace("\n", " ")
    assert "standard deviations above the recent losses" in text and "rows.jsonl:91" in text and "the step is skipped" in text, done.err
    states = [json.loads(file.read_text())["train"] for file in sorted((tmp_path / "run/checkpoint-50").glob("hone_state*.json"))]
    assert [state["skipped_steps"] for state in states] == [1, 1]
    figure(re.search(r"[0-9.]+ standard deviations", text)[0] + ", row 91 named, both ranks skip it")


def test_a_stop_during_a_save_leaves_one_newest_checkpoint(running, train, tmp_path, figure):
    run = running(2, deepspeed="zero3", save_steps=1)
    wait_for(lambda: any(".partial" in path.name or "staging" in path.name for path in tmp_path.iterdir() if path.is_dir()), what="a save under way")
    run.signal(1, signal.SIGTERM)
    assert run.wait() == 75, run.text()
    newest = max(tmp_path.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    step = int(newest.name.split("-")[1])
    again = train(tmp_path / "again", 2, tuner_type="lora", deepspeed="zero3", resume_from_checkpoint=newest, max_steps=step + 1, num_train_epochs=100000)
    assert again.code == 0 and len(again.losses()) == 1, again.err
    figure(f"2 ranks: newest is step {step}, and continues")
