"""`hone ray-submit …` on a local Ray cluster."""
import pathlib
import sys

import pytest
from parallel_testing import assert_same_training, environment, hone_binary, words
from test_launching import finish, start

pytest.importorskip("ray", reason="Ray is not installed")


def submit(folder, model, dataset, *, workers=2, **options):
    line = [hone_binary(), "ray-submit", workers, "--address", "local", "--cpus_per_worker", "0.5", "--", hone_binary(), "sft",
            *words(model, dataset, folder, 2, tuner_type="lora", **options)]
    env = environment(1, HONE_PYTHON=sys.executable, RAY_DEDUP_LOGS=0, RAY_DISABLE_IMPORT_WARNING=1, RAY_USAGE_STATS_ENABLED=0)
    return finish(start(line, env), folder, timeout=400)  # a cluster takes its time to come up on a busy machine


def test_ranks_are_actors(reference, tmp_path, model_folder, dataset):
    run = submit(tmp_path, model_folder, dataset)
    assert_same_training(run, reference("lora", 1))
    assert "[rank 0]" in run.out + run.err


def test_a_failure_comes_back(tmp_path, model_folder, dataset):
    run = submit(tmp_path, model_folder, dataset, optim="no_such_optimizer")
    assert run.code == 2, run.out + run.err
    assert "failed first, with code 2" in run.err and "no_such_optimizer" in run.err
