"""Noise on embeddings, sampled layers and adapters other than LoRA in layouts: losses and every gradient are those of one process."""
import pytest
from layouts_testing import asserted_differences, four_tied_blocks, in_parts, one_key_head_and_biases, settings

FULL = dict(tuner_type="full")
NOISE = dict(**FULL, neftune_noise_alpha=50)
STAGES = dict(pipeline_parallel_size=2, **in_parts(2, 4))
TENSOR = dict(tensor_parallel_size=2, **in_parts(8, 1))
CASES = {  # processes, model, what is trained, layout
    "NEFTune, tensor parallel": (2, one_key_head_and_biases, NOISE, TENSOR),
    "NEFTune, tensor and sequence parallel": (2, one_key_head_and_biases, NOISE, dict(**TENSOR, sequence_parallel="true")),
    "LISA, two stages": (2, four_tied_blocks, dict(**FULL, lisa_activated_layers=2, lisa_step_interval=1), STAGES),
    "LISA, two stages in two copies, shared optimizer": (4, four_tied_blocks, dict(**FULL, lisa_activated_layers=2, lisa_step_interval=1),
                                                         dict(pipeline_parallel_size=2, use_distributed_optimizer="true", **in_parts(2, 2))),
    "LISA, two stages, of which some steps train nothing": (2, four_tied_blocks, dict(**FULL, lisa_activated_layers=1, lisa_step_interval=1,
                                                            freeze_parameters_regex=r"model\.(embed_tokens|layers\.[01]|norm).*"), STAGES),
    "VeRA, two stages": (2, four_tied_blocks, dict(tuner_type="vera", vera_rank=4, target_modules="all-linear"), STAGES),
    "BOFT, two stages": (2, four_tied_blocks, dict(tuner_type="boft", boft_block_size=4, target_modules="all-linear"), STAGES),
    "FourierFT, two stages": (2, four_tied_blocks, dict(tuner_type="fourierft", fourier_n_frequency=40, target_modules="all-linear"), STAGES),
    "ReFT, two stages": (2, four_tied_blocks, dict(tuner_type="reft", reft_rank=2), STAGES),
    "bottlenecks, two stages": (2, four_tied_blocks, dict(tuner_type="adapter", adapter_length=8), STAGES),
}


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_one_process(train, models, one_process, tmp_path, case, figure):
    world, make, options, layout = CASES[case]
    run, one = train(tmp_path, world, **settings(models(make), **options, **layout)), one_process(make, options)
    figure(f"{case}: {asserted_differences(run, one)}")


def test_what_ranks_layers_together_is_refused(train, models, tmp_path):
    run = train(tmp_path, 2, **settings(models(four_tied_blocks), tuner_type="adalora", **STAGES))
    assert run.code == 2 and "AdaLoRA, which ranks the layers of all stages together" in run.err, run.err
