"""Noise on embeddings, sampled layers and adapters other than LoRA in layouts: losses and every gradient are those of one process."""
import pytest
from layouts_testing import asserted_differences, four_tied_blocks, in_parts, one_key_head_and_biases, settings

FULL = dict(tuner_type="full")
NOISE = dict(**FULL, neftune_noise_alpha=50)
STAGES = dict(pipeline_parallel_size=2, **in_parts(2, 4))
TENSOR = dict(tensor_parallel_size=2, **in_parts(8, 1))
BUDGET = dict(tuner_type="adalora", adalora_init_r=6, adalora_target_r=2, adalora_tinit=0, adalora_tfinal=1, adalora_deltaT=1, target_modules="all-linear")
CASES = {  # processes, model, what is trained, layout
    "NEFTune, tensor parallel": (2, one_key_head_and_biases, NOISE, TENSOR),
    "NEFTune, tensor and sequence parallel": (2, one_key_head_and_biases, NOISE, dict(**TENSOR, sequence_parallel="true")),
    "LISA, two stages": (2, four_tied_blocks, dict(**FULL, lisa_activated_layers=2, lisa_step_interval=1), STAGES),
    "LISA, two stages in two copies, shared optimizer": (4, four_tied_blocks, dict(**FULL, lisa_activated_layers=2, lisa_step_interval=1),
                                                         dict(pipeline_parallel_size=2, use_distributed_optimizer="true", **in_parts(2, 2))),
    "LISA, two stages, of which some steps train nothing": (2, four_tied_blocks, dict(**FULL, lisa_activated_layers=1, lisa_step_interval=1,
                                                            freeze_parameters_regex=r"model\.(embed_tokens|layers\.[01]|norm).*"), STAGES),
    "VeRA, two stages": (2, four_tied_blocks, dict(tuner_type="vera", vera_rank=4, target_modules="all-linear"), STAGES),
    "AdaLoRA, two stages": (2, four_tied_blocks, dict(**BUDGET, adalora_orth_reg_weight=0.4), STAGES),
    "AdaLoRA, three and one of four blocks, two copies": (4, four_tied_blocks, BUDGET, dict(pipeline_parallel_size=2, decoder_last_pipeline_num_layers=1, **in_parts(2, 2))),
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


def test_adalora_resumes_in_another_layout(train, models, one_process, tmp_path):
    """The ranks that earlier steps dropped stay dropped, of all stages."""
    import torch
    from safetensors.torch import load_file
    one = one_process(four_tied_blocks, BUDGET)
    run = train(tmp_path, 2, **settings(models(four_tied_blocks), **BUDGET, **STAGES), resume_from_checkpoint=one.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == pytest.approx(one.losses()[2:], abs=1e-5)
    ours, theirs = (load_file(each.folder / "checkpoint-4/adapter_model.safetensors") for each in (run, one))
    kept = {name: values for name, values in theirs.items() if "lora_E" in name}
    assert 0 < sum(values.count_nonzero() for values in kept.values()) < sum(values.numel() for values in kept.values())
    for name, values in kept.items():
        assert torch.equal(ours[name] != 0, values != 0), name
