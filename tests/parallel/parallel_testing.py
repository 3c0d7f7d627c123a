"""Several processes on a small model: `train(...)` runs one layout to its end; a reference run is shared by all that must equal it."""
import importlib.util
import json
import os
import pathlib
import random
import subprocess

import pytest
from workers import made_once

ROOT = pathlib.Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("train_testing", ROOT / "tests/train/train_testing.py")
_train = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_train)
model_folder = _train.model_folder
Run, hone_binary, command, sentence, ENVIRONMENT = _train.Run, _train.hone_binary, _train.command, _train.sentence, _train.ENVIRONMENT
small_tokenizer = _train.small_tokenizer

ROWS, GLOBAL_BATCH = 28, 8  # the last batch of an epoch is half as large as the others, on any number of processes


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train.jsonl"
    rng = random.Random(3)
    rows = [{"messages": [{"role": "user", "content": sentence(rng, rng.randint(2, 9))}, {"role": "assistant", "content": sentence(rng, rng.randint(2, 16))}]}
            for _ in range(ROWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def environment(world, **more):
    clean = {k: v for k, v in ENVIRONMENT.items() if not k.startswith(("SLURM_", "PET_")) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**clean, "OMP_NUM_THREADS": "1", **({"NPROC_PER_NODE": str(world)} if world > 1 else {}), **{k: str(v) for k, v in more.items()}}


def words(model, data, folder, world=1, **options):
    settings = dict(max_steps=-1, num_train_epochs=2, per_device_train_batch_size=GLOBAL_BATCH // world, save_steps=100, learning_rate="1e-3",
                    peer_timeout=60)
    settings.update(options)
    return command(model, data, folder, **settings)


@pytest.fixture(scope="session")
def train(model_folder, dataset):
    """train(folder, world=2, deepspeed="zero3", env={…}) runs `hone sft`, or another command."""

    def run(folder, world=1, env=None, program="hone", verb="sft", timeout=300, **options):
        if not hone_binary().exists():
            pytest.fail(f"{hone_binary()} is not built; make build")
        line = [str(hone_binary().parent / program), verb, *words(options.pop("model", model_folder), options.pop("dataset", dataset), folder, world, **options)]
        done = subprocess.run(line, capture_output=True, text=True, env=environment(world, **(env or {})), timeout=timeout)
        return Run(done, pathlib.Path(folder))

    return run


@pytest.fixture(scope="session")
def reference(train, tmp_path_factory):
    """reference(tuner, accumulation): the same global batches in one process; run once, by whichever worker asks first."""

    def get(tuner_type="full", accumulation=1, **options):
        def make(folder):
            run = train(folder, tuner_type=tuner_type, gradient_accumulation_steps=accumulation, **{"save_steps": 1, **options})
            assert run.code == 0, run.err
            (folder / "stdout.txt").write_text(run.out)
            (folder / "stderr.txt").write_text(run.err)

        folder = made_once(tmp_path_factory, ("reference", tuner_type, accumulation, sorted(options.items())), make)
        return Run(subprocess.CompletedProcess([], 0, *((folder / name).read_text() for name in ("stdout.txt", "stderr.txt"))), folder)

    return get


def weights(run):
    from safetensors.torch import load_file

    folder = run.folder / f"checkpoint-{run.checkpoints()[-1]}"
    tensors = {}
    for file in [*folder.glob("model*.safetensors"), *folder.glob("adapter_model.safetensors")]:
        tensors.update(load_file(file))
    assert tensors, f"no weights in {folder}"
    return tensors


GRADIENT_ROUNDING = 1e-6  # of a tensor's largest gradient: what another order of the same sums may change
ADAM_EPSILON = 1e-8


def gradient_sizes(run):
    """Step by step, the root of Adam's mean of squared gradients without its bias towards zero, by parameter, out of the checkpoints of one process."""
    from safetensors.torch import load_file

    beta2, mark = float(json.loads((run.folder / "args.json").read_text())["adam_beta2"]), "exp_avg_sq/"
    for step in run.checkpoints():
        state = load_file(run.folder / f"checkpoint-{step}/hone_state.safetensors")
        yield step, {name.split(mark)[1]: (tensor / (1 - beta2**step)).sqrt() for name, tensor in state.items() if mark in name}


def movement_of_rounding(run):
    """By parameter, how far rounding of its gradients may move each weight. Adam divides a gradient by the root of its mean square, so a weight
    whose gradient is nearly zero in an early step is moved as far as any other, by the share of it that is rounding."""
    rates = [event["learning_rate"] for event in run.log() if "learning_rate" in event]
    moved = {}
    for step, sizes in gradient_sizes(run):
        for name, size in sizes.items():
            share = (GRADIENT_ROUNDING * size.max() / (size + ADAM_EPSILON)).clamp(max=2) * (size > 0)  # what nothing reaches is not moved at all
            moved[name] = moved.get(name, 0) + rates[step - 1] * share
    return moved


def assert_same_training(run, other, tolerance=1e-5):
    """`other` is the same training in one process."""
    assert run.code == 0, run.err
    assert run.losses() == pytest.approx(other.losses(), abs=tolerance)
    assert_same_weights(run, other, tolerance)


def assert_same_weights(run, other, tolerance=1e-5):
    """Up to what rounding may do to the weights of `other`, which one process trained."""
    import torch

    ours, theirs, moved = weights(run), weights(other), movement_of_rounding(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        allowed = moved.get(name.removeprefix("base_model.model."), torch.zeros(()))
        assert (allowed > tolerance).float().mean() < 0.02, f"{name}: rounding decides over too many weights for this to tell anything"
        beyond = (tensor - theirs[name]).abs() - allowed
        assert beyond.max() <= tolerance, f"{name}: {int((beyond > tolerance).sum())} of {tensor.numel()} weights differ, by up to {float(beyond.max()):.2e} more than rounding allows"
