"""Muon in layouts: an update is computed on the full matrix, so that every layout trains like one process."""
import pytest
from layouts_testing import ADAPTED, ON_EXPERTS, STEPS, experts, four_tied_blocks, in_parts, many_experts, one_key_head_and_biases, settings
from parallel_testing import weights

FULL = dict(tuner_type="full")
CASES = {
    "tensor and sequence parallel": (2, one_key_head_and_biases, FULL, dict(tensor_parallel_size=2, sequence_parallel="true", **in_parts(8, 1))),
    "one key head on four ranks": (4, one_key_head_and_biases, FULL, dict(tensor_parallel_size=4, **in_parts(8, 1))),
    "two stages, tensor parallel, lora": (4, four_tied_blocks, ADAPTED, dict(pipeline_parallel_size=2, tensor_parallel_size=2, **in_parts(2, 4))),
    "experts over two ranks": (2, many_experts, FULL, dict(expert_parallel_size=2, **in_parts(4, 1))),
    "experts on a mesh of their own, lora": (4, experts, ON_EXPERTS, dict(tensor_parallel_size=2, expert_parallel_size=2, expert_tensor_parallel_size=1, **in_parts(2, 2))),
}


@pytest.mark.parametrize("case", CASES)
def test_losses_and_weights_are_those_of_one_process(train, models, one_process, tmp_path, case):
    world, make, options, layout = CASES[case]
    options = dict(optim="muon", **options)
    run, one = train(tmp_path, world, **settings(models(make), **options, **layout)), one_process(make, options)
    assert run.code == 0, run.err
    assert run.losses() == pytest.approx(one.losses(), abs=1e-5) and len(run.losses()) == STEPS
    ours, theirs = weights(run), weights(one)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert (tensor - theirs[name]).abs().max() < 1e-4, name


def test_resumes_in_another_layout(train, models, one_process, tmp_path):
    _, make, options, layout = CASES["tensor and sequence parallel"]
    options = dict(optim="muon", **options)
    one = one_process(make, options)
    run = train(tmp_path, 2, **settings(models(make), **options, **layout), resume_from_checkpoint=one.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == pytest.approx(one.losses()[2:], abs=1e-5)


def test_sharded_state_is_refused(train, models, tmp_path):
    run = train(tmp_path, 2, **settings(models(four_tied_blocks), optim="muon", tuner_type="full", tensor_parallel_size=2, use_distributed_optimizer="true"))
    assert run.code == 2 and "needs unsharded matrices" in run.err
