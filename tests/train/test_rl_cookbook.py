"""The scripts of cookbook/ that train with rewards of one's own or with a teacher, run for a few steps in a folder like a fresh checkout."""
import json
import os
import re
import subprocess

import pytest
from train_testing import ROOT
from workers import free_port


@pytest.fixture
def script(hone, tmp_path):
    for name in ("models", "data", "cookbook"):
        (tmp_path / name).symlink_to(ROOT / name)

    def run(path, steps, *words):
        done = subprocess.run(["bash", tmp_path / path, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "NO_COLOR": "1", "HONE_BIN": str(hone.path), "PORT": str(free_port()), "STEPS": str(steps), "EPOCHS": "0.05"})
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout

    run.folder = tmp_path
    return run


@pytest.mark.parametrize("path, folder", [("cookbook/grpo/train.sh", "output/grpo"), ("cookbook/ppo/train.sh", "output/ppo-talkative")])
def test_a_server_of_ones_own_rewards(script, path, folder):
    script(path, 2)
    log = [json.loads(line) for line in (script.folder / folder / "logging.jsonl").read_text().splitlines()]
    rewards = [event["reward"] for event in log if "reward" in event]
    assert rewards and all(reward > 0 for reward in rewards), log  # PPO trains several steps on one rollout


def test_a_calculator_is_called(script):
    script("cookbook/agents/train.sh", 1)
    line = json.loads((script.folder / "output/agents/learnt/logging.jsonl").read_text().splitlines()[0])
    assert line["num_turns"] >= 1 and "tools/calls" in line and "reward" in line, line


def test_two_courses_of_rewards_are_drawn(script):
    output = script("cookbook/grpo/async.sh", 2)
    assert re.search(r"^asynchronous: reward .* of 2 steps", output, re.M), output[-500:]
    drawing = (script.folder / "output/grpo-async.svg").read_text()
    assert drawing.count("<polyline") == 2 and "seconds: reward" in drawing


def test_a_gap_to_a_teacher_is_closed(script):
    output = script("cookbook/gkd/train.sh", 20)
    assert 5 < int(re.search(r"(\d+)% of the gap is closed", output)[1]) <= 100, output[-500:]
