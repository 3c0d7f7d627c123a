"""Megatron's --fp8_format in layouts: stages round as one process does; shards of a layer have scales of their own, so that losses differ as fp8 rounds."""
import json
import subprocess

import pytest
from layouts_testing import four_tied_blocks, many_experts, one_key_head_and_biases
from parallel_testing import environment, hone_binary

LINE = """--tuner_type full --torch_dtype float32 --micro_batch_size 2 --global_batch_size 8 --train_iters 4 --lr 1e-3 --lr_warmup_fraction 0 --log_interval 1 --eval_iters 0 --save_interval 100
    --fp8_recipe blockwise --fp8_param_gather true --add_version false --moe_aux_loss_coeff 0 --dataset_shuffle false --train_dataloader_shuffle false"""
ROUNDING = 2e-2  # of a loss near 6
CASES = {  # processes, model, format, layout, how far losses may be from those of one process
    "e4m3, tensor and sequence parallel": (2, one_key_head_and_biases, "e4m3", "--tensor_model_parallel_size 2 --sequence_parallel true", ROUNDING),
    "hybrid, two stages": (2, four_tied_blocks, "hybrid", "--pipeline_model_parallel_size 2", 1e-3),
    "e4m3, two stages, tensor parallel": (4, four_tied_blocks, "e4m3", "--pipeline_model_parallel_size 2 --tensor_model_parallel_size 2", ROUNDING),
    "hybrid, experts over two ranks": (2, many_experts, "hybrid", "--expert_model_parallel_size 2", ROUNDING),
    "e4m3, tensor and expert parallel": (2, many_experts, "e4m3", "--tensor_model_parallel_size 2 --expert_model_parallel_size 2 --sequence_parallel true", ROUNDING),
}


@pytest.fixture(scope="module")
def losses(models, dataset, tmp_path_factory):
    known = {}

    def get(make, world=1, layout="", form=None):
        key = (make, world, layout, form)
        if key not in known:
            folder = tmp_path_factory.mktemp("fp8")
            words = [hone_binary().parent / "megatron", "sft", "--model", models(make), "--dataset", dataset, *LINE.split(), *layout.split(), *(["--fp8_format", form] if form else []), "--output_dir", folder]
            done = subprocess.run(words, env=environment(world), capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            events = [json.loads(line) for line in next(folder.rglob("logging.jsonl")).read_text().splitlines()]
            known[key] = [event["loss"] for event in events if "loss" in event]
        return known[key]

    return get


@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_one_process(losses, case, figure):
    world, make, form, layout, allowed = CASES[case]
    run, one, exact = losses(make, world, layout, form), losses(make, form=form), losses(make)
    assert len(run) == 4 and run == pytest.approx(one, abs=allowed)
    if "tensor" not in layout and "expert" not in layout:
        assert run[0] == pytest.approx(one[0], abs=1e-5)  # later, Adam and fp8 enlarge what another order of sums changes
    assert max(abs(a - b) for a, b in zip(one, exact)) > 1e-6, "nothing was rounded"
    figure(f"{case}: losses within {max(abs(a - b) for a, b in zip(run, one)):.0e} of one process in fp8, which is within {max(abs(a - b) for a, b in zip(one, exact)):.0e} of float32")
