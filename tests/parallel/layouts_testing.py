"""Models and comparisons for layouts that must train as one process does: losses, every gradient, norms."""
import re

import pytest
from parallel_testing import small_tokenizer

STEPS = 4
WORDS = 401  # no number of processes divides it
SHAPE = dict(vocab_size=WORDS, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, head_dim=8, max_position_embeddings=256)


BLOCKS = {**SHAPE, "num_hidden_layers": 4}


def in_parts(rows, parts):
    """A global batch as a number of micro-batches of a number of rows."""
    return dict(per_device_train_batch_size=rows, gradient_accumulation_steps=parts)


def four_tied_blocks():
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM(Qwen3Config(**BLOCKS, tie_word_embeddings=True))


def tied_with_head_norms():
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=True))


def one_key_head_and_biases():
    """Fewer key heads than processes; biases on both sides of sharded layers."""
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(**{**SHAPE, "num_key_value_heads": 1}, attention_bias=True, mlp_bias=True, tie_word_embeddings=False))


def experts():
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM
    shape = {key: value for key, value in SHAPE.items() if key != "head_dim"}
    return Qwen2MoeForCausalLM(Qwen2MoeConfig(**shape, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48,
                                              mlp_only_layers=[0], tie_word_embeddings=False))


def many_experts():
    """Eight of them, some without a token in a batch; no expert is shared."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**SHAPE, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True, tie_word_embeddings=False))


@pytest.fixture(scope="session")
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
    """Adam with an epsilon above every gradient moves weights by their gradients: divided by its own size, one that is nearly zero would turn rounding into a step."""
    return {"model": model, "max_steps": STEPS, "num_train_epochs": 1, "save_steps": 1, "max_grad_norm": 0, "adam_epsilon": "1", "learning_rate": "1e-2", **options}


ADAPTED = dict(tuner_type="lora", lora_rank=4, target_modules="all-linear")
EVERYWHERE = dict(tuner_type="lora", lora_rank=4, target_regex=r".*(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj|embed_tokens|lm_head|shared_expert_gate)")
ON_EXPERTS = {**EVERYWHERE, "target_parameters": '["mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"]'}


def elements(places, size):
    """Where the elements of a piece are in the whole: "1024" from there on, "1024:64:256" in runs of 64, one every 256, and so on; after a second @ follows how many of
    those are another piece's."""
    import torch
    first, skipped = (places + ["0"])[:2] if ":" in places[0] else ("0:1:1", places[0])
    begin, run, stride, *rows = map(int, first.split(":"))
    count, jump = rows or (1 << 60, 0)
    element = torch.arange(int(skipped), int(skipped) + size)
    number = element // run
    return begin + number // count * jump + number % count * stride + element % run


def state_of(folder):
    """Optimizer state under whole names and in whole tensors, out of what each process wrote of its own part."""
    import torch
    from safetensors.torch import load_file
    pieces = {}
    for file in sorted(folder.glob("hone_state*.safetensors")):
        for name, tensor in load_file(file).items():
            if name.startswith("optimizer/") and "/" in name[10:]:
                whole, *places = name.split("@")
                pieces.setdefault(whole, []).append((places, tensor))
    state = {}
    for name, parts in pieces.items():
        if not parts[0][0]:
            assert len(parts) == 1, f"{len(parts)} processes wrote {name}"
            state[name] = parts[0][1]
            continue
        flat = torch.full((sum(part.numel() for _, part in parts),), float("nan"))
        for places, part in parts:
            flat[elements(places, part.numel())] = part.reshape(-1)
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
    # Adam makes differences of weights of the first gradients' rounding, and later gradients have those.
    for step, allowed in ((1, 1e-5), (STEPS, 2e-5)):
        worst, name = worst_gradient(run, one, step)
        assert worst < allowed, f"step {step}: {name} differs by {worst:.1e} of its largest gradient"
    norms, expected = ([event["grad_norm"] for event in each.log() if "grad_norm" in event] for each in (run, one))
    assert norms == pytest.approx(expected, rel=1e-5, abs=2e-8)  # a log has eight decimals


def asserted_differences(run, one):
    """As assert_same; returns the largest differences, in words."""
    assert_same(run, one)
    return f"gradients within {worst_gradient(run, one, STEPS)[0]:.0e}, losses within {max(abs(a - b) for a, b in zip(run.losses(), one.losses())):.0e}"


LAYOUT = {"tensor_parallel_size", "sequence_parallel", "expert_parallel_size", "expert_tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size",
          "per_device_train_batch_size", "use_distributed_optimizer", "deepspeed"}


@pytest.fixture(scope="session")
def one_process(train, tmp_path_factory, models):
    """The same rows in one process, once for all layouts that must equal it."""
    runs = {}

    def get(make, options):
        options = {key: value for key, value in options.items() if key not in LAYOUT}
        key = (make, *sorted(options.items()))
        if key not in runs:
            runs[key] = train(tmp_path_factory.mktemp("one"), **settings(models(make), **options))
        return runs[key]

    return get
