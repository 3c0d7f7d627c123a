"""Expert parallel and expert tensor parallel runs train like one process: losses, every gradient, norms, files."""
import os
import signal

import pytest
from layouts_testing import ADAPTED, ON_EXPERTS, STEPS, assert_same, experts, many_experts, settings, tied_with_head_norms, worst_gradient
from parallel_testing import GLOBAL_BATCH
from processes import start, steps_logged, wait_for

TENSOR, EXPERT, CUT, SEQUENCE = "tensor_parallel_size", "expert_parallel_size", "expert_tensor_parallel_size", "sequence_parallel_size"
FULL = dict(tuner_type="full")
CASES = {  # processes, how they are laid out, model, what trains
    "ep 2": (2, {EXPERT: 2}, experts, FULL),
    "ep 2, lora on experts, recomputed": (2, {EXPERT: 2}, experts, {**ON_EXPERTS, "gradient_checkpointing": "true"}),
    "ep 4, experts without tokens, packed": (4, {EXPERT: 4}, many_experts, {**FULL, "packing": "true", "max_length": 61}),
    "etp 2 of whole layers, lora on experts": (2, {CUT: 2}, experts, ON_EXPERTS),
    "tp 2 of whole experts, balanced": (2, {TENSOR: 2, CUT: 1}, experts, {**FULL, "router_aux_loss_coef": 0.01}),
    "tp 2, ep 2, lora on experts, balanced": (2, {TENSOR: 2, EXPERT: 2, CUT: 1}, experts, {**ON_EXPERTS, "router_aux_loss_coef": 0.01}),
    "ep 2, etp 2, lora on experts": (4, {EXPERT: 2, CUT: 2}, experts, ON_EXPERTS),
    "tp 2, ep 2, two copies of each, clipped": (4, {TENSOR: 2, EXPERT: 2, CUT: 1}, experts, {**FULL, "max_grad_norm": 0.5}),
    "ep 2, sequences on both, balanced": (2, {EXPERT: 2, SEQUENCE: 2}, experts, {**ON_EXPERTS, "router_aux_loss_coef": 0.01, "router_z_loss_coef": 0.001}),
    "tp 2, ep 2, etp 2, lora on layers alone": (4, {TENSOR: 2, EXPERT: 2}, experts, ADAPTED),
}


def batch_of(world, layout):
    return GLOBAL_BATCH // (world // layout.get(TENSOR, 1) // layout.get(SEQUENCE, 1))


@pytest.fixture(scope="module")
def spread(train, tmp_path_factory, models):
    """A run in one of the layouts, once for all tests that look at it."""
    runs = {}

    def get(case):
        if case not in runs:
            world, layout, make, options = CASES[case]
            runs[case] = train(tmp_path_factory.mktemp("spread"), world, **layout, **settings(models(make), per_device_train_batch_size=batch_of(world, layout), **options))
        return runs[case]

    return get


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_one_process(spread, one_process, case, figure):
    run, one = spread(case), one_process(*CASES[case][2:])
    assert_same(run, one)
    figure(f"{case}: gradients within {worst_gradient(run, one, STEPS)[0]:.0e}, losses within {max(abs(a - b) for a, b in zip(run.losses(), one.losses())):.0e}")


SUMS = {"tensor_parallel.experts": "etp 2 of whole layers, lora on experts", "tensor_parallel.router": "tp 2 of whole experts, balanced", "expert_parallel.copies": "tp 2, ep 2, two copies of each, clipped",
        "sequence_parallel.router": "ep 2, sequences on both, balanced"}


@pytest.mark.parametrize("left_out", SUMS)
def test_a_sum_that_is_left_out_is_noticed(train, models, one_process, tmp_path, left_out):
    world, layout, make, options = CASES[SUMS[left_out]]
    run = train(tmp_path, world, env={"HONE_FAULT": f"{left_out}:nan:1+"}, **layout, **settings(models(make), per_device_train_batch_size=batch_of(world, layout), **options))
    assert run.code == 0, run.err
    worst, name = worst_gradient(run, one_process(make, options), STEPS)
    assert worst > 1e-3, f"without {left_out} the largest difference is {worst:.1e}, of {name}"


HALVES = "ep 2, etp 2, lora on experts"


@pytest.mark.parametrize("world, layout", [(4, {EXPERT: 2, CUT: 2}), (1, {}), (2, {EXPERT: 2}), (2, {TENSOR: 2})], ids=["the same", "one process", "ep 2", "tp 2"])
def test_resumes_in_another_layout(train, models, one_process, spread, tmp_path, world, layout):
    half, one = spread(HALVES), one_process(*CASES[HALVES][2:])
    run = train(tmp_path, world, **layout, **settings(models(experts), per_device_train_batch_size=batch_of(world, layout), **ON_EXPERTS), resume_from_checkpoint=half.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == (half.losses()[2:] if world == 4 else pytest.approx(one.losses()[2:], abs=1e-5))


@pytest.mark.parametrize("case, file", [("tp 2, ep 2, two copies of each, clipped", "model.safetensors"), (HALVES, "adapter_model.safetensors")])
def test_files_do_not_depend_on_the_layout(models, spread, one_process, case, file):
    """Names and shapes are those that one process writes, and transformers and peft give the same logits."""
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    tokens = torch.arange(3, 40).unsqueeze(0)
    folders = [run.folder / f"checkpoint-{STEPS}" for run in (spread(case), one_process(*CASES[case][2:]))]
    shapes = [{name: (tensor.shape, tensor.dtype) for name, tensor in load_file(folder / file).items()} for folder in folders]
    assert shapes[0] == shapes[1]

    def logits(folder):
        if file == "model.safetensors":
            return AutoModelForCausalLM.from_pretrained(folder).eval()(tokens).logits
        return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(models(experts)), folder).eval()(tokens).logits

    assert torch.allclose(*map(logits, folders), atol=1e-4)


def test_a_lost_rank_ends_the_run_by_name_and_others_continue(train, models, dataset, tmp_path):
    """kill -9 of a rank that holds half of the experts; two tensor parallel processes resume from its checkpoint."""
    run = start(models(experts), dataset, tmp_path / "lost", 2, **{EXPERT: 2}, save_steps=1)
    try:
        wait_for(lambda: steps_logged(tmp_path / "lost") >= 3, what="the third step")
        os.kill(run.ranks()[1], signal.SIGKILL)
        assert run.wait(60) != 0
        assert "rank 1" in run.text()
    finally:
        run.stop()
    step = max(int(folder.name.split("-")[1]) for folder in (tmp_path / "lost").glob("checkpoint-*[0-9]") if "." not in folder.name)  # not one half written
    after = train(tmp_path / "after", 2, **{TENSOR: 2}, **settings(models(experts), tuner_type="lora", max_steps=step + 2, num_train_epochs=100000, per_device_train_batch_size=GLOBAL_BATCH // 2),
                  resume_from_checkpoint=tmp_path / f"lost/checkpoint-{step}")
    assert after.code == 0, after.err
    assert after.checkpoints()[-1] == step + 2


@pytest.mark.parametrize("layout, make, message", [
    ({EXPERT: 3}, experts, "2 processes cannot be laid out"),
    ({EXPERT: 2}, tied_with_head_norms, "has no experts: --expert_parallel_size and --expert_tensor_parallel_size have no effect"),
])
def test_incompatible_options_are_reported(train, models, tmp_path, layout, make, message):
    run = train(tmp_path, 2, **layout, **settings(models(make)))
    assert message in run.err
    assert run.code == (0 if make is tied_with_head_norms else 2)
