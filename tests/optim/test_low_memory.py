"""APOLLO, BAdam and Adam-mini compared with their authors' packages on the same gradients, through `hone optim-trace`."""
import warnings

import pytest
import torch

from test_optim import compare, recorded, trace

LAYERS = {f"model.layers.{i}.{name}": shape for i in range(3) for name, shape in {
    "self_attn.q_proj.weight": (32, 32), "self_attn.q_proj.bias": (32,), "self_attn.k_proj.weight": (16, 32), "self_attn.v_proj.weight": (16, 32),
    "self_attn.o_proj.weight": (32, 32), "mlp.up_proj.weight": (48, 32), "mlp.down_proj.weight": (32, 48), "input_layernorm.weight": (32,)}.items()}
SHAPES = {"model.embed_tokens.weight": (64, 32), **LAYERS, "model.norm.weight": (32,), "lm_head.weight": (64, 32)}
STEPS = 14


def decays(name):
    return not ("bias" in name or "norm" in name)


def ordered(tensors):
    """The parameters in hone's order: those that decay first, then the others, each as the file lists them."""
    names = [k[6:] for k in sorted(tensors) if k.startswith("param/")]
    return [n for n in names if decays(n)] + [n for n in names if not decays(n)]


def follow(optimizer, params, tensors, rates, max_norm=0.0):
    for step, rate in enumerate(rates):
        for name, parameter in params.items():
            parameter.grad = tensors[f"grad/{step}/{name}"].clone() if parameter.requires_grad else None
        if max_norm:
            torch.nn.utils.clip_grad_norm_(params.values(), max_norm)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        for parameter in params.values():
            parameter.grad = None
    return params


def parameters(tensors):
    return {n: torch.nn.Parameter(tensors[f"param/{n}"].clone()) for n in ordered(tensors)}


@pytest.mark.parametrize("proj,kind,front,rank", [("random", "channel", False, 4), ("random", "tensor", True, 1), ("svd", "channel", False, 4)])
def test_apollo_equals_its_package(tmp_path, proj, kind, front, rank):
    from apollo_torch import APOLLOAdamW

    tensors = recorded(steps=STEPS, shapes=SHAPES)
    settings = {"rank": rank, "update_proj_gap": 5, "scale": 32.0, "proj": proj, "proj_type": "std", "scale_type": kind}
    config = {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS, "optim_args": {**settings, "scale_front": front}}
    printed, ours = trace(tmp_path, "apollo_adamw", config, tensors)
    params = parameters(tensors)
    groups = []
    for name, parameter in params.items():
        hidden = parameter.ndim == 2 and "embed" not in name and "lm_head" not in name
        groups.append({"params": [parameter], "weight_decay": 0.1 if decays(name) else 0.0, **(settings if hidden else {})})
    peer = APOLLOAdamW(groups, lr=1e-2, eps=1e-8, scale_front=front)
    compare(ours, follow(peer, params, tensors, printed["rates"]), rtol=1e-4, atol=1e-5)


def test_adam_mini_equals_its_package(tmp_path):
    from adam_mini import Adam_mini

    tensors = recorded(steps=STEPS, shapes=SHAPES)
    config = {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS, "optim_args": {"head_dim": 8}, "max_grad_norm": 1.0}
    printed, ours = trace(tmp_path, "adam_mini", config, tensors)
    params = parameters(tensors)
    peer = Adam_mini(list(params.items()), lr=1e-2, weight_decay=0.1, dim=32, n_heads=4, n_kv_heads=2, verbose=False)
    compare(ours, follow(peer, params, tensors, printed["rates"], max_norm=1.0), rtol=2e-6, atol=2e-6)
    full = sum(v.numel() for k, v in ours.items() if k.startswith("state/exp_avg/"))
    assert sum(v.numel() for k, v in ours.items() if k.startswith("state/exp_avg_sq/")) < 0.1 * full


def block_optimizer(params, **settings):
    from badam import BlockOptimizer

    base = torch.optim.AdamW(list(params.values()), lr=1e-2, weight_decay=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BlockOptimizer(base_optimizer=base, named_parameters_list=list(params.items()), verbose=0, **settings)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mode,start", [("ascending", None), ("descending", None), ("ascending", 1), ("fixed", 2)])
def test_badam_equals_its_package(tmp_path, mode, start, dtype):
    tensors = recorded(dtype, steps=STEPS, shapes=SHAPES)
    arguments = {"mode": "layer", "switch_mode": mode, "switch_interval": 4, **({"start_block": start} if start is not None else {})}
    printed, ours = trace(tmp_path, "badam", {"learning_rate": 1e-2, "total_steps": STEPS, "optim_args": arguments}, tensors)
    params = parameters(tensors)
    # The package numbers blocks as they come.
    params = dict(sorted(params.items(), key=lambda item: item[0]))
    peer = block_optimizer(params, switch_block_every=4, switch_mode=mode, start_block=start)
    theirs = follow(peer, params, tensors, printed["rates"])
    tolerance = 2e-6 if dtype == torch.float32 else 0.0
    compare(ours, theirs, rtol=tolerance, atol=tolerance)
    still = [n for n in SHAPES if "layers" not in n]
    assert all(torch.equal(ours[f"param/{n}"], tensors[f"param/{n}"]) for n in still)
    states = {k for k in ours if k.startswith("state/exp_avg/")}
    assert len(states) == len(LAYERS) / 3, "moments of one block alone"


def test_badam_in_random_order_visits_every_block_before_any_again(tmp_path):
    tensors = recorded(steps=STEPS, shapes=SHAPES)
    arguments = {"switch_mode": "random", "switch_interval": 4}
    _, ours = trace(tmp_path, "badam", {"learning_rate": 1e-2, "total_steps": 11, "optim_args": arguments}, tensors)
    for name in LAYERS:
        assert not torch.equal(ours[f"param/{name}"], tensors[f"param/{name}"]), name


def test_badam_by_ratio_equals_its_package(tmp_path):
    from badam import BlockOptimizerRatio

    tensors = recorded(steps=STEPS, shapes=SHAPES)
    arguments = {"mode": "ratio", "update_ratio": 0.3, "switch_interval": 4}
    printed, ours = trace(tmp_path, "badam", {"learning_rate": 1e-2, "total_steps": STEPS, "optim_args": arguments}, tensors)
    params = parameters(tensors)
    peer = BlockOptimizerRatio([{"params": list(params.values()), "weight_decay": 0.0}], list(params.items()), update_ratio=0.3, switch_every=4,
                               mask_mode="adjacent", keep_mask=False, preserve_threshold=0, verbose=0)
    hook = peer.sparse_hook
    for step, rate in enumerate(printed["rates"]):
        for name, parameter in params.items():
            if parameter.requires_grad:
                parameter.grad = tensors[f"grad/{step}/{name}"].clone()
                hook(parameter)  # what backward would call
        for group in peer.param_groups:
            group["lr"] = rate
        peer.step()
        for parameter in params.values():
            parameter.grad = None
    compare(ours, params, rtol=1e-5, atol=1e-6)


def test_badam_scatters_its_share(tmp_path):
    tensors = recorded(steps=4, shapes=SHAPES)
    arguments = {"mode": "ratio", "update_ratio": 0.25, "switch_interval": 2, "mask_mode": "scatter"}
    _, ours = trace(tmp_path, "badam", {"learning_rate": 1e-2, "total_steps": 4, "optim_args": arguments}, tensors)
    name = "param/model.layers.0.mlp.up_proj.weight"
    moved = (ours[name] != tensors[name]).flatten()
    assert moved.sum() == moved.numel() // 2, "two shares, none twice"
    assert not moved[: moved.numel() // 2].all()


CASES = {
    "apollo_adamw": {"rank": 4, "update_proj_gap": 3}, "apollo_adamw svd": {"rank": 2, "proj": "svd", "update_proj_gap": 4}, "adam_mini": {"head_dim": 8},
    "badam": {"switch_interval": 3}, "badam random": {"switch_mode": "random", "switch_interval": 2},
    "badam ratio": {"mode": "ratio", "update_ratio": 0.3, "switch_interval": 3}, "badam scatter": {"mode": "ratio", "mask_mode": "scatter", "switch_interval": 3}}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_saved_state_continues_bit_for_bit(tmp_path, case, dtype):
    tensors = recorded(dtype, steps=STEPS, shapes=SHAPES)
    config = {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS, "optim_args": CASES[case]}
    _, straight = trace(tmp_path, case.split()[0], config, tensors)
    _, resumed = trace(tmp_path, case.split()[0], dict(config, reload_at=7), tensors)
    assert straight.keys() == resumed.keys()
    for key in straight:
        assert torch.equal(straight[key], resumed[key]), key
