"""Tensor parallel runs train like one process: losses, every gradient, norms, files."""
import pytest
from layouts_testing import ADAPTED, EVERYWHERE, ON_EXPERTS, STEPS, assert_same, experts, one_key_head_and_biases, settings, tied_with_head_norms, worst_gradient
from parallel_testing import GLOBAL_BATCH

CASES = {
    "tied, full, smoothed labels": (2, tied_with_head_norms, dict(tuner_type="full", label_smoothing_factor=0.1)),
    "tied, full, sequence parallel": (2, tied_with_head_norms, dict(tuner_type="full", sequence_parallel="true")),
    "one key head, biases, full, sequence parallel": (2, one_key_head_and_biases, dict(tuner_type="full", sequence_parallel="true")),
    "one key head, biases, lora on every layer": (2, one_key_head_and_biases, EVERYWHERE),
    "lora, sequence parallel, packed": (2, tied_with_head_norms, dict(**ADAPTED, sequence_parallel="true", packing="true", max_length=61)),
    "experts, full, balanced": (2, experts, dict(tuner_type="full", router_aux_loss_coef=0.01, sequence_parallel="true")),
    "experts, lora on experts": (2, experts, ON_EXPERTS),
    "four processes, fewer key heads": (4, tied_with_head_norms, dict(**ADAPTED, sequence_parallel="true")),
}


@pytest.fixture(scope="module")
def sharded(train, tmp_path_factory, models):
    """A tensor parallel run, shared by all tests."""
    runs = {}

    def get(case):
        if case not in runs:
            world, make, options = CASES[case]
            runs[case] = train(tmp_path_factory.mktemp("sharded"), world, tensor_parallel_size=world, **settings(models(make), per_device_train_batch_size=GLOBAL_BATCH, **options))
        return runs[case]

    return get


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_one_process(sharded, one_process, case, figure):
    run, one = sharded(case), one_process(*CASES[case][1:])
    assert_same(run, one)
    figure(f"{case}: gradients within {worst_gradient(run, one, STEPS)[0]:.0e}, losses within {max(abs(a - b) for a, b in zip(run.losses(), one.losses())):.0e}")


def test_beside_data_parallelism_with_clipping(train, models, one_process, tmp_path):
    """Two copies of a model in two parts: norms count every value once, so that clipping does what it does in one process."""
    options = dict(tuner_type="full", max_grad_norm=0.5)
    run = train(tmp_path, 4, tensor_parallel_size=2, sequence_parallel="true",
                **settings(models(one_key_head_and_biases), per_device_train_batch_size=GLOBAL_BATCH // 2, **options))
    assert_same(run, one_process(one_key_head_and_biases, options))


SUMS = {"norm": "tied, full, sequence parallel", "head_norm": "tied, full, smoothed labels", "lora": "lora, sequence parallel, packed", "kv_head": "one key head, biases, full, sequence parallel",
        "router": "experts, full, balanced", "experts": "experts, lora on experts"}


@pytest.mark.parametrize("left_out", SUMS)
def test_a_sum_that_is_left_out_is_noticed(train, models, one_process, tmp_path, left_out):
    world, make, options = CASES[SUMS[left_out]]
    run = train(tmp_path, world, tensor_parallel_size=world, env={"HONE_FAULT": f"tensor_parallel.{left_out}:nan:1+"},
                **settings(models(make), per_device_train_batch_size=GLOBAL_BATCH, **options))
    assert run.code == 0, run.err
    worst, name = worst_gradient(run, one_process(make, options), STEPS)
    assert worst > 1e-3, f"without the sum of {left_out} gradients the largest difference is {worst:.1e}, of {name}"


RESUMED = {  # from a run of two processes or one, in how many, in which layout
    "in the same layout": (True, 2, dict(tensor_parallel_size=2, sequence_parallel="true")),
    "in one process": (True, 1, {}),
    "as data parallel copies": (True, 2, {}),
    "from one process": (False, 2, dict(tensor_parallel_size=2)),
}
RESUMED_CASE = "one key head, biases, full, sequence parallel"


@pytest.mark.parametrize("change", RESUMED)
def test_resumes_in_another_layout(train, models, one_process, sharded, tmp_path, change):
    was_sharded, world, layout = RESUMED[change]
    one = one_process(*CASES[RESUMED_CASE][1:])
    half = sharded(RESUMED_CASE) if was_sharded else one
    share = GLOBAL_BATCH // (world // layout.get("tensor_parallel_size", 1))
    run = train(tmp_path, world, **settings(models(one_key_head_and_biases), per_device_train_batch_size=share, tuner_type="full", **layout),
                resume_from_checkpoint=half.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == (half.losses()[2:] if change == "in the same layout" else pytest.approx(one.losses()[2:], abs=1e-5))


@pytest.mark.parametrize("case, file", [(RESUMED_CASE, "model.safetensors"), ("one key head, biases, lora on every layer", "adapter_model.safetensors")])
def test_files_do_not_depend_on_the_layout(models, sharded, one_process, case, file):
    """Names and shapes are those that one process writes, and transformers and peft give the same logits."""
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    tokens = torch.arange(3, 40).unsqueeze(0)
    folders = [run.folder / f"checkpoint-{STEPS}" for run in (sharded(case), one_process(*CASES[case][1:]))]
    shapes = [{name: (tensor.shape, tensor.dtype) for name, tensor in load_file(folder / file).items()} for folder in folders]
    assert shapes[0] == shapes[1]

    def logits(folder):
        if file == "model.safetensors":
            return AutoModelForCausalLM.from_pretrained(folder).eval()(tokens).logits
        return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(models(one_key_head_and_biases)), folder).eval()(tokens).logits

    assert torch.allclose(*map(logits, folders), atol=1e-4)


def test_modules_are_saved_by_megatrons_names_too(train, models, tmp_path):
    """They train in full, and the adapter's files have the names of the hub."""
    import json
    from safetensors.torch import load_file
    options = {**ADAPTED, "target_modules": "linear_qkv", "modules_to_save": '["word_embeddings", "output_layer"]', "max_steps": 1}
    run = train(tmp_path, 2, **settings(models(one_key_head_and_biases), tensor_parallel_size=2, **options))
    assert run.code == 0, run.err
    folder = run.folder / "checkpoint-1"
    assert sorted(json.loads((folder / "adapter_config.json").read_text())["modules_to_save"]) == ["embed_tokens", "lm_head"]
    saved = load_file(folder / "adapter_model.safetensors")
    before = load_file(models(one_key_head_and_biases) / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        ours = saved["base_model.model." + name]
        assert ours.shape == before[name].shape and not ours.equal(before[name])


@pytest.mark.parametrize("options, message", [
    (dict(tensor_parallel_size=2, use_dora="true"), "DoRA"),
])
def test_incompatible_options_are_reported(train, models, tmp_path, options, message):
    run = train(tmp_path, 2, **settings(models(tied_with_head_norms), **options))
    assert run.code == 2 and message in run.err
