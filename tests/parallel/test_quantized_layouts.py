"""QLoRA in layouts: the codes of a quantized base are sharded, so that losses and gradients are those of one process."""
import pytest
from layouts_testing import ADAPTED, EVERYWHERE, ON_EXPERTS, assert_same, asserted_differences, four_tied_blocks, in_parts, many_experts, one_key_head_and_biases, settings, tied_with_head_norms

NF4 = dict(quant_method="bnb", quant_bits=4, bnb_4bit_use_double_quant="true")
INT8 = dict(quant_method="bnb", quant_bits=8)
HQQ = dict(quant_method="hqq", quant_bits=4, hqq_axis=1)
CASES = {
    "nf4, tensor and sequence parallel": (2, tied_with_head_norms, {**ADAPTED, **NF4}, dict(tensor_parallel_size=2, sequence_parallel="true", **in_parts(8, 1))),
    "int8, one key head on four ranks": (4, one_key_head_and_biases, {**EVERYWHERE, **INT8}, dict(tensor_parallel_size=4, **in_parts(8, 1))),
    "hqq, two stages": (2, four_tied_blocks, {**ADAPTED, **HQQ}, dict(pipeline_parallel_size=2, **in_parts(2, 4))),
    "nf4, two stages, tensor parallel": (4, four_tied_blocks, {**ADAPTED, **NF4}, dict(pipeline_parallel_size=2, tensor_parallel_size=2, **in_parts(2, 4))),
    "int8, experts over two ranks": (2, many_experts, {**ON_EXPERTS, **INT8}, dict(expert_parallel_size=2, **in_parts(4, 1))),
    "nf4, zero3 in tensor parallel copies": (4, tied_with_head_norms, {**ADAPTED, **NF4}, dict(tensor_parallel_size=2, deepspeed="zero3", **in_parts(4, 1))),
}


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_one_process(train, models, one_process, tmp_path, case, figure):
    world, make, options, layout = CASES[case]
    run, one = train(tmp_path, world, **settings(models(make), **options, **layout)), one_process(make, options)
    figure(f"{case}: {asserted_differences(run, one)}")


def test_predictions_between_steps_leave_the_shards_as_they_were(train, models, dataset, tmp_path):
    """Generating gathers codes that ZeRO-3 shards, and releases them before the next step."""
    world, make, options, layout = CASES["nf4, zero3 in tensor parallel copies"]
    options = {**options, "val_dataset": dataset, "eval_strategy": "steps", "eval_steps": 2, "predict_with_generate": "true", "max_new_tokens": 4}
    run, one = (train(tmp_path / str(count), count, **settings(models(make), **options, **where)) for count, where in ((world, layout), (1, {})))
    assert_same(run, one)
    after, expected = ([event["eval_loss"] for event in each.log() if "eval_rouge-l" in event] for each in (run, one))
    assert after == pytest.approx(expected, abs=1e-5) and len(after) == 2


def test_groups_of_rows_that_ranks_would_divide_are_reported(train, models, tmp_path):
    """HQQ's axis 0 over two rows of eight: the shards would end within a group."""
    run = train(tmp_path, 2, **settings(models(one_key_head_and_biases), **{**ADAPTED, **HQQ, "hqq_axis": 0}, tensor_parallel_size=2))
    assert run.code == 2 and "hqq_axis" in run.err, run.err
