"""Layers that are cut over processes train as if they were whole: losses, every gradient, norms, files."""
import re

import pytest
from parallel_testing import GLOBAL_BATCH, small_tokenizer

STEPS = 4
WORDS = 401  # no number of processes divides it
SHAPE = dict(vocab_size=WORDS, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, head_dim=8, max_position_embeddings=256)


def tied_with_head_norms():
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=True))


def one_key_head_and_biases():
    """Fewer key heads than processes; biases on both sides of what is cut."""
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(**{**SHAPE, "num_key_value_heads": 1}, attention_bias=True, mlp_bias=True, tie_word_embeddings=False))


def experts():
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM
    shape = {key: value for key, value in SHAPE.items() if key != "head_dim"}
    return Qwen2MoeForCausalLM(Qwen2MoeConfig(**shape, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48,
                                              mlp_only_layers=[0], tie_word_embeddings=False))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    import torch
    folders = {}

    def get(make):
        if make not in folders:
            folders[make] = tmp_path_factory.mktemp(make.__name__)
            tokenizer = small_tokenizer()
            torch.manual_seed(0)
            model = make().float()
            with torch.no_grad():
                for name, weight in model.named_parameters():  # norms and biases that are all ones or zeros would hide mistakes
                    if weight.dim() == 1:
                        weight.add_(torch.randn_like(weight) * 0.1)
            model.config.eos_token_id = tokenizer.eos_token_id
            model.save_pretrained(folders[make])
            tokenizer.save_pretrained(folders[make])
        return folders[make]

    return get


def settings(model, **options):
    return {"model": model, "max_steps": STEPS, "num_train_epochs": 1, "save_steps": 1, "max_grad_norm": 0, "adam_epsilon": "1e-5", "learning_rate": "1e-3", **options}


ADAPTED = dict(tuner_type="lora", lora_rank=4, target_modules="all-linear")
EVERYWHERE = dict(tuner_type="lora", lora_rank=4, target_regex=r".*(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj|embed_tokens|lm_head|shared_expert_gate)")
ON_EXPERTS = {**EVERYWHERE, "target_parameters": '["mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"]'}


def state_of(folder):
    """Optimizer state under whole names and in whole tensors, out of what each process wrote of its own part."""
    import torch
    from safetensors.torch import load_file
    pieces = {}
    for file in sorted(folder.glob("hone_state*.safetensors")):
        for name, tensor in load_file(file).items():
            if not name.startswith("optimizer/") or "/" not in name[10:]:
                continue
            whole, *numbers = re.split("[@:]", name)
            pieces.setdefault(whole, []).append((list(map(int, numbers)), tensor))
    state = {}
    for name, parts in pieces.items():
        if not parts[0][0]:
            assert len(parts) == 1, f"{len(parts)} processes wrote {name}"
            state[name] = parts[0][1]
            continue
        flat = torch.full((sum(part.numel() for _, part in parts),), float("nan"))
        for (begin, run, stride), part in parts:
            flat.as_strided((part.numel() // run, run), (stride, 1), begin).copy_(part.reshape(-1, run))
        assert not flat.isnan().any(), f"{name} has a hole"
        state[name] = flat
    return state


def worst_gradient(run, one, step):
    """The largest difference of a gradient mean, over the largest element of its tensor, and where."""
    ours, theirs = (state_of(each.folder / f"checkpoint-{step}") for each in (run, one))
    assert ours.keys() == theirs.keys()
    differences = {}
    for name, tensor in theirs.items():
        if "exp_avg/" in name:
            # A key's bias, where there are no rotations, and rows of words that nobody used have none: what is left is rounding.
            largest = max(float(tensor.abs().max()), 1e-7)
            differences[name] = float((ours[name].reshape(-1) - tensor.reshape(-1)).abs().max()) / largest
    return max((value, name) for name, value in differences.items())


def assert_same(run, one):
    assert run.code == 0, run.err
    assert one.code == 0, one.err
    assert run.losses() == pytest.approx(one.losses(), abs=1e-5)
    for step in (1, STEPS):
        worst, name = worst_gradient(run, one, step)
        assert worst < 1e-5, f"step {step}: {name} differs by {worst:.1e} of its largest gradient"
    norms, expected = ([event["grad_norm"] for event in each.log() if "grad_norm" in event] for each in (run, one))
    assert norms == pytest.approx(expected, rel=1e-5)


CASES = {
    "tied, full, smoothed labels": (2, tied_with_head_norms, dict(tuner_type="full", label_smoothing_factor=0.1)),
    "tied, full, rows dealt out": (2, tied_with_head_norms, dict(tuner_type="full", sequence_parallel="true")),
    "one key head, biases, full, rows dealt out": (2, one_key_head_and_biases, dict(tuner_type="full", sequence_parallel="true")),
    "one key head, biases, lora on every layer": (2, one_key_head_and_biases, EVERYWHERE),
    "lora, rows dealt out, packed": (2, tied_with_head_norms, dict(**ADAPTED, sequence_parallel="true", packing="true", max_length=61)),
    "experts, full, balanced": (2, experts, dict(tuner_type="full", router_aux_loss_coef=0.01, sequence_parallel="true")),
    "experts, lora on experts": (2, experts, ON_EXPERTS),
    "four processes, fewer key heads": (4, tied_with_head_norms, dict(**ADAPTED, sequence_parallel="true")),
}


@pytest.fixture(scope="module")
def one_process(train, tmp_path_factory, models):
    """The same rows in one process, once for all layouts that must equal it."""
    runs = {}

    def get(make, options):
        options = {key: value for key, value in options.items() if key != "sequence_parallel"}
        key = (make, *sorted(options.items()))
        if key not in runs:
            runs[key] = train(tmp_path_factory.mktemp("one"), **settings(models(make), **options))
        return runs[key]

    return get


@pytest.fixture(scope="module")
def cut(train, tmp_path_factory, models):
    """A run whose layers are cut, once for all tests that look at it."""
    runs = {}

    def get(case):
        if case not in runs:
            world, make, options = CASES[case]
            runs[case] = train(tmp_path_factory.mktemp("cut"), world, tensor_parallel_size=world, **settings(models(make), per_device_train_batch_size=GLOBAL_BATCH, **options))
        return runs[case]

    return get


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_one_process(cut, one_process, case, figure):
    run, one = cut(case), one_process(*CASES[case][1:])
    assert_same(run, one)
    figure(f"{case}: gradients within {worst_gradient(run, one, STEPS)[0]:.0e}, losses within {max(abs(a - b) for a, b in zip(run.losses(), one.losses())):.0e}")


def test_beside_data_parallelism_with_clipping(train, models, one_process, tmp_path):
    """Two copies of a model in two parts: norms count every value once, so that clipping does what it does in one process."""
    options = dict(tuner_type="full", max_grad_norm=0.5)
    run = train(tmp_path, 4, tensor_parallel_size=2, sequence_parallel="true",
                **settings(models(one_key_head_and_biases), per_device_train_batch_size=GLOBAL_BATCH // 2, **options))
    assert_same(run, one_process(one_key_head_and_biases, options))


SUMS = {"norm": "tied, full, rows dealt out", "head_norm": "tied, full, smoothed labels", "lora": "lora, rows dealt out, packed", "kv_head": "one key head, biases, full, rows dealt out",
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
RESUMED_CASE = "one key head, biases, full, rows dealt out"


@pytest.mark.parametrize("change", RESUMED)
def test_goes_on_in_another_layout(train, models, one_process, cut, tmp_path, change):
    was_cut, world, layout = RESUMED[change]
    one = one_process(*CASES[RESUMED_CASE][1:])
    half = cut(RESUMED_CASE) if was_cut else one
    share = GLOBAL_BATCH // (world // layout.get("tensor_parallel_size", 1))
    run = train(tmp_path, world, **settings(models(one_key_head_and_biases), per_device_train_batch_size=share, tuner_type="full", **layout),
                resume_from_checkpoint=half.folder / "checkpoint-2")
    assert run.code == 0, run.err
    assert run.losses() == (half.losses()[2:] if change == "in the same layout" else pytest.approx(one.losses()[2:], abs=1e-5))


@pytest.mark.parametrize("case, file", [(RESUMED_CASE, "model.safetensors"), ("one key head, biases, lora on every layer", "adapter_model.safetensors")])
def test_files_know_no_layout(models, cut, one_process, case, file):
    """Names and shapes are those that one process writes, and transformers and peft give the same logits."""
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    tokens = torch.arange(3, 40).unsqueeze(0)
    folders = [run.folder / f"checkpoint-{STEPS}" for run in (cut(case), one_process(*CASES[case][1:]))]
    shapes = [{name: (tensor.shape, tensor.dtype) for name, tensor in load_file(folder / file).items()} for folder in folders]
    assert shapes[0] == shapes[1]

    def logits(folder):
        if file == "model.safetensors":
            return AutoModelForCausalLM.from_pretrained(folder).eval()(tokens).logits
        return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(models(one_key_head_and_biases)), folder).eval()(tokens).logits

    assert torch.allclose(*map(logits, folders), atol=1e-4)


@pytest.mark.parametrize("options, said", [
    (dict(tensor_parallel_size=2, deepspeed="zero3"), "sharded model"),
    (dict(tensor_parallel_size=2, use_dora="true"), "DoRA"),
])
def test_what_does_not_go_together_is_said(train, models, tmp_path, options, said):
    run = train(tmp_path, 2, **settings(models(tied_with_head_norms), **options))
    assert run.code == 2 and said in run.err
