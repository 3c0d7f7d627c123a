"""Muon in layouts: an update is computed on the full matrix, so that every layout trains like one process."""
import pytest
from layouts_testing import ADAPTED, ON_EXPERTS, STEPS, experts, four_tied_blocks, in_parts, many_experts, one_key_head_and_biases, settings
from parallel_testing import weights

FULL = dict(tuner_type="full")
SHARED = dict(use_distributed_optimizer="true")
CASES = {
    "tensor and sequence parallel": (2, one_key_head_and_biases, FULL, dict(tensor_parallel_size=2, sequence_parallel="true", **in_parts(8, 1))),
    "one key head on four ranks": (4, one_key_head_and_biases, FULL, dict(tensor_parallel_size=4, **in_parts(8, 1))),
    "two stages, tensor parallel, lora": (4, four_tied_blocks, ADAPTED, dict(pipeline_parallel_size=2, tensor_parallel_size=2, **in_parts(2, 4))),
    "experts over two ranks": (2, many_experts, FULL, dict(expert_parallel_size=2, **in_parts(4, 1))),
    "experts on a mesh of their own, lora": (4, experts, ON_EXPERTS, dict(tensor_parallel_size=2, expert_parallel_size=2, expert_tensor_parallel_size=1, **in_parts(2, 2))),
    # state in shards: a matrix is sent to one of the ranks that share it
    "zero1": (2, one_key_head_and_biases, FULL, dict(deepspeed="zero1", **in_parts(4, 1))),
    "zero2, lora": (4, four_tied_blocks, ADAPTED, dict(deepspeed="zero2", **in_parts(2, 1))),
    "zero3": (2, one_key_head_and_biases, FULL, dict(deepspeed="zero3", **in_parts(4, 1))),
    "hybrid shards": (4, one_key_head_and_biases, FULL, dict(parallelism_config='{"dp_replicate_size": 2, "dp_shard_size": 2}', **in_parts(2, 1))),
    "shared, tensor parallel": (4, one_key_head_and_biases, FULL, dict(**SHARED, tensor_parallel_size=2, sequence_parallel="true", **in_parts(4, 1))),
    "shared, stages": (4, four_tied_blocks, FULL, dict(**SHARED, pipeline_parallel_size=2, **in_parts(2, 2))),
    "shared, experts, lora": (4, experts, ON_EXPERTS, dict(**SHARED, tensor_parallel_size=2, expert_parallel_size=2, expert_tensor_parallel_size=1, **in_parts(2, 2))),
    "zero3, tensor parallel": (4, four_tied_blocks, FULL, dict(deepspeed="zero3", tensor_parallel_size=2, **in_parts(4, 1))),
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


@pytest.mark.parametrize("case", ["tensor and sequence parallel", "zero1", "shared, tensor parallel"])
def test_resumes_in_another_layout(train, models, one_process, tmp_path, case):
    world, make, options, layout = CASES[case]
    options = dict(optim="muon", **options)
    one = one_process(make, options)
    run = train(tmp_path / "run", world, **settings(models(make), **options, **layout), resume_from_checkpoint=one.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == pytest.approx(one.losses()[2:], abs=1e-5)
    back = train(tmp_path / "back", 1, **settings(models(make), **options), resume_from_checkpoint=run.folder / "checkpoint-3")
    assert back.code == 0, back.err
    assert back.losses() == pytest.approx(one.losses()[3:], abs=1e-5)


def test_each_rank_keeps_its_share_of_the_momentum(train, models, tmp_path):
    from safetensors import safe_open
    world, make, options, layout = CASES["zero1"]
    run = train(tmp_path, world, **settings(models(make), optim="muon", **options, **layout))
    assert run.code == 0, run.err
    sizes = []
    for file in (run.folder / "checkpoint-4").glob("hone_state*.safetensors"):
        with safe_open(file, "pt") as stored:
            sizes.append(sum(stored.get_tensor(name).numel() for name in stored.keys() if "momentum_buffer/" in name))
    assert len(sizes) == world and max(sizes) < 0.6 * sum(sizes)
