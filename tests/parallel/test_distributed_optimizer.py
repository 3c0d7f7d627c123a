"""Ranks that hold the same parts of a model share its optimizer state: losses, every gradient, norms and files are those of one process, and any layout continues with any other's."""
import pytest
from layouts_testing import ADAPTED, ON_EXPERTS, assert_same, experts, four_tied_blocks, in_parts, one_key_head_and_biases, settings, worst_gradient
from parallel_testing import GLOBAL_BATCH

SHARED = dict(use_distributed_optimizer="true")
FULL = dict(tuner_type="full")
OF_LAYERS = {**ADAPTED, "target_parameters": ON_EXPERTS["target_parameters"]}
CLIPPED = dict(**FULL, max_grad_norm=0.5)
TENSOR = dict(tensor_parallel_size=2, sequence_parallel="true")
EXPERTS = dict(tensor_parallel_size=2, expert_parallel_size=2, expert_tensor_parallel_size=1)
STAGES = dict(pipeline_parallel_size=2)
CASES = {  # model, what is trained, layout of four processes
    "tp 2, biases, key heads twice": (one_key_head_and_biases, CLIPPED, dict(**SHARED, **TENSOR, **in_parts(4, 1))),
    "tp 2, ep 2, experts in two copies": (experts, CLIPPED, dict(**SHARED, **EXPERTS, **in_parts(2, 2))),
    "etp 2, lora on experts": (experts, ON_EXPERTS, dict(deepspeed="zero1", expert_tensor_parallel_size=2, **in_parts(2, 1))),
    "pp 2, tied": (four_tied_blocks, CLIPPED, dict(deepspeed="zero2", **STAGES, **in_parts(2, 2))),
    "pp 2, tp 2, tied, no copies": (four_tied_blocks, CLIPPED, dict(**SHARED, **STAGES, **TENSOR, **in_parts(4, 2))),
    "zero3, tp 2, tied": (four_tied_blocks, CLIPPED, dict(deepspeed="zero3", **TENSOR, **in_parts(4, 1))),
    "zero3, tp 2, ep 2, lora on experts": (experts, OF_LAYERS, dict(deepspeed="zero3", **EXPERTS, **in_parts(2, 2))),
    "zero3, pp 2, tied": (four_tied_blocks, CLIPPED, dict(deepspeed="zero3", **STAGES, **in_parts(1, 4))),
    "zero3, pp 2, tp 2, tied, no copies": (four_tied_blocks, CLIPPED, dict(deepspeed="zero3", **STAGES, **TENSOR, **in_parts(2, 4))),
    "cp 2, tp 2": (four_tied_blocks, FULL, dict(**SHARED, context_parallel_size=2, tensor_parallel_size=2, **in_parts(8, 1))),
}


@pytest.fixture(scope="module")
def shared(train, tmp_path_factory, models):
    runs = {}

    def get(case):
        if case not in runs:
            make, options, layout = CASES[case]
            runs[case] = train(tmp_path_factory.mktemp("shared"), 4, **settings(models(make), **options, **layout))
        return runs[case]

    return get


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_one_process(shared, one_process, case, figure):
    run, one = shared(case), one_process(*CASES[case][:2])
    assert_same(run, one)
    figure(f"{case}: gradients within {worst_gradient(run, one, 4)[0]:.0e}, losses within {max(abs(a - b) for a, b in zip(run.losses(), one.losses())):.0e}")


@pytest.mark.parametrize("case", ["tp 2, biases, key heads twice", "tp 2, ep 2, experts in two copies", "pp 2, tied"])
def test_each_rank_has_its_share(shared, case):
    """Two copies of everything: no process keeps more than a quarter of the state, up to a stage's ends and to what is too small to divide."""
    from safetensors import safe_open
    sizes = []
    for file in (shared(case).folder / "checkpoint-4").glob("hone_state*.safetensors"):
        with safe_open(file, "pt") as stored:
            sizes.append(sum(stored.get_tensor(name).numel() for name in stored.keys() if "exp_avg/" in name))
    assert len(sizes) == 4
    assert max(sizes) <= (0.3 if case != "pp 2, tied" else 0.35) * sum(sizes)


RESUMED = {  # from which case, with how many processes, how they are laid out
    "in the same layout": ("tp 2, biases, key heads twice", 4, CASES["tp 2, biases, key heads twice"][2]),
    "in one process": ("tp 2, biases, key heads twice", 1, {}),
    "without sharing": ("tp 2, biases, key heads twice", 2, dict(tensor_parallel_size=2, **in_parts(GLOBAL_BATCH, 1))),
    "as zero3": ("tp 2, ep 2, experts in two copies", 2, dict(deepspeed="zero3", **in_parts(4, 1))),
    "as expert tensor parallel": ("tp 2, ep 2, experts in two copies", 4, dict(deepspeed="zero2", expert_tensor_parallel_size=2, **in_parts(2, 1))),
    "parameters too, in the same layout": ("zero3, tp 2, tied", 4, CASES["zero3, tp 2, tied"][2]),
    "parameters of an adapted model, as expert tensor parallel": ("zero3, tp 2, ep 2, lora on experts", 4, dict(deepspeed="zero1", expert_tensor_parallel_size=2, **in_parts(2, 1))),
    "parameters of stages, in the same layout": ("zero3, pp 2, tied", 4, CASES["zero3, pp 2, tied"][2]),
    "parameters of stages, in one process": ("zero3, pp 2, tied", 1, {}),
    "as stages": ("cp 2, tp 2", 4, CASES["pp 2, tied"][2]),
}


@pytest.mark.parametrize("change", RESUMED)
def test_resumes_in_another_layout(train, models, shared, tmp_path, change):
    case, world, layout = RESUMED[change]
    make, options, _ = CASES[case]
    half = shared(case)
    run = train(tmp_path, world, **settings(models(make), **options, **layout), resume_from_checkpoint=half.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == (half.losses()[2:] if change.endswith("in the same layout") else pytest.approx(half.losses()[2:], abs=1e-5))


ROUNDED = dict(exp_avg_dtype="bf16", exp_avg_sq_dtype="bf16")
ROUNDED_LAYOUTS = {  # what is trained, processes, how they are laid out
    "one process, lora": (ADAPTED, 1, {}),
    "data parallel": (FULL, 2, in_parts(4, 1)),
    "zero1": (FULL, 2, dict(**SHARED, **in_parts(4, 1))),
    "zero3": (FULL, 2, dict(deepspeed="zero3", **in_parts(4, 1))),
    "tp 2, pp 2, shared": (FULL, 4, CASES["pp 2, tp 2, tied, no copies"][2]),
}


def moment_types(folder):
    from safetensors.torch import load_file
    return {tensor.dtype for file in folder.glob("hone_state*.safetensors") for name, tensor in load_file(file).items() if "/exp_avg" in name}


@pytest.mark.parametrize("case", ROUNDED_LAYOUTS)
def test_moments_in_bfloat16(train, models, one_process, tmp_path, case):
    """Megatron's --exp_avg_dtype: half the state in the files, the losses of one process, and the same ones after a resume."""
    import torch
    trained, world, layout = ROUNDED_LAYOUTS[case]
    line = settings(models(four_tied_blocks), **trained, **layout, **ROUNDED)
    run, one = train(tmp_path / "run", world, **line), one_process(four_tied_blocks, {**trained, **ROUNDED})
    assert run.code == 0 and one.code == 0, run.err + one.err
    assert run.losses() == pytest.approx(one.losses(), abs=1e-5)
    assert moment_types(run.folder / "checkpoint-4") == {torch.bfloat16}
    again = train(tmp_path / "again", world, **line, resume_from_checkpoint=run.folder / "checkpoint-2")
    assert again.code == 0, again.err
    assert again.losses() == run.losses()[2:]


@pytest.mark.parametrize("case", ["one process, lora", "zero1", "zero3"])
@pytest.mark.parametrize("before, after", [({}, ROUNDED), (ROUNDED, {})], ids=["float32 to bfloat16", "bfloat16 to float32"])
def test_resumes_with_moments_of_another_type(train, models, one_process, tmp_path, case, before, after):
    """They are rounded or widened when read; from there on the run keeps them as it was told."""
    import torch
    trained, world, layout = ROUNDED_LAYOUTS[case]
    half = one_process(four_tied_blocks, {**trained, **before})
    types = [torch.bfloat16 if options else torch.float32 for options in (before, after)]
    assert half.code == 0, half.err
    assert moment_types(half.folder / "checkpoint-2") == {types[0]}
    run = train(tmp_path, world, **settings(models(four_tied_blocks), **trained, **layout, **after), resume_from_checkpoint=half.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert moment_types(run.folder / "checkpoint-4") == {types[1]}
    assert run.losses() == pytest.approx(half.losses()[2:], abs=1e-4)  # what rounding of moments changes


def test_incompatible_options_are_reported(train, models, tmp_path):
    run = train(tmp_path, 2, **settings(models(experts), tensor_parallel_size=2, deepspeed="zero2", zero_hpz_partition_size=2))
    assert run.code == 2 and "--zero_hpz_partition_size" in run.err
