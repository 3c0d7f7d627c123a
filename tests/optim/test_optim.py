"""Optimizers, groups and schedules against torch, transformers and their definitions, through `hone optim-trace`."""
import json
import math
import os
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import get_scheduler
from transformers.optimization import Adafactor

HONE = os.environ.get("HONE_BIN", str(Path(__file__).resolve().parents[2] / "build/bin/hone"))
STEPS = 12
SHAPES = {"model.layers.0.mlp.up_proj.weight": (48, 32), "model.layers.0.mlp.down_proj.weight": (32, 48), "model.embed_tokens.weight": (200, 32),
          "model.layers.0.self_attn.q_proj.bias": (48,), "model.norm.weight": (32,)}


def trace(folder, optim, config, tensors=None):
    (folder / "config.json").write_text(json.dumps(config))
    command = [HONE, "optim-trace", "--optim", optim, "--config", str(folder / "config.json")]
    if tensors is not None:
        save_file(tensors, folder / "input.safetensors")
        command += ["--input", str(folder / "input.safetensors"), "--output", str(folder / "output.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    return printed, (load_file(folder / "output.safetensors") if tensors is not None else None)


def recorded(dtype=torch.float32, steps=STEPS, shapes=SHAPES):
    generator = torch.Generator().manual_seed(0)
    tensors = {f"param/{n}": torch.randn(s, generator=generator).to(dtype) for n, s in shapes.items()}
    for step in range(steps):
        for n, s in shapes.items():
            tensors[f"grad/{step}/{n}"] = (torch.randn(s, generator=generator) * 0.1).to(dtype)
    return tensors


def follow(make, tensors, rates, max_norm=0.0, decay=0.0, steps=STEPS):
    """The peer over the same gradients; groups split by weight decay as the Trainer does."""
    names = [k[6:] for k in tensors if k.startswith("param/")]
    params = {n: torch.nn.Parameter(tensors[f"param/{n}"].clone()) for n in names}
    still = [n for n in names if "bias" in n or "norm" in n]
    groups = [{"params": [params[n] for n in names if n not in still], "weight_decay": decay},
              {"params": [params[n] for n in still], "weight_decay": 0.0}]
    optimizer = make(groups)
    for step in range(steps):
        for n in names:
            params[n].grad = tensors[f"grad/{step}/{n}"].clone()
        if max_norm:
            torch.nn.utils.clip_grad_norm_(params.values(), max_norm)
        for group in optimizer.param_groups:
            group["lr"] = rates[step]
        optimizer.step()
    return params


def compare(ours, theirs, rtol=0.0, atol=0.0):
    for name, parameter in theirs.items():
        torch.testing.assert_close(ours[f"param/{name}"], parameter.detach(), rtol=rtol, atol=atol, msg=lambda m: f"{name}: {m}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adamw_equals_torch_fused_bit_for_bit(tmp_path, dtype):
    tensors = recorded(dtype)
    config = {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS, "lr_scheduler_type": "cosine", "warmup_steps": 3, "adam_beta2": 0.95}
    printed, ours = trace(tmp_path, "adamw_torch", config, tensors)
    theirs = follow(lambda g: torch.optim.AdamW(g, betas=(0.9, 0.95), eps=1e-8, fused=True), tensors, printed["rates"], decay=0.1)
    compare(ours, theirs)


@pytest.mark.parametrize("reload_at", [-1, 5])
@pytest.mark.parametrize("first, second", [("bf16", "bf16"), ("bf16", "fp32"), ("fp32", "bf16")])
def test_rounded_moments_equal_torch_with_states_rounded_after_each_step(tmp_path, first, second, reload_at):
    """Bit for bit, also when the state is saved and loaded in between."""
    tensors, types = recorded(), {"exp_avg": first, "exp_avg_sq": second}
    config = {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS, "adam_beta2": 0.95, "exp_avg_dtype": first, "exp_avg_sq_dtype": second, "reload_at": reload_at}
    printed, ours = trace(tmp_path, "adamw_torch", config, tensors)

    class Rounded(torch.optim.AdamW):
        def step(self):
            super().step()
            for state in self.state.values():
                for name, dtype in types.items():
                    if dtype == "bf16":
                        state[name].copy_(state[name].bfloat16())

    compare(ours, follow(lambda g: Rounded(g, betas=(0.9, 0.95), eps=1e-8, fused=True), tensors, printed["rates"], decay=0.1))
    for name in SHAPES:
        for moment, dtype in types.items():
            assert ours[f"state/{moment}/{name}"].dtype == (torch.bfloat16 if dtype == "bf16" else torch.float32)


def test_rounded_moments_are_adamws(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"total_steps": 1, "exp_avg_dtype": "bf16"}))
    save_file(recorded(steps=1), tmp_path / "input.safetensors")
    done = subprocess.run([HONE, "optim-trace", "--optim", "lion", "--config", str(tmp_path / "config.json"), "--input", str(tmp_path / "input.safetensors"), "--output", str(tmp_path / "o")],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "apply to AdamW" in done.stderr


def test_adamw_is_within_rounding_of_torch_default(tmp_path):
    tensors = recorded()
    printed, ours = trace(tmp_path, "adamw_torch", {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS}, tensors)
    compare(ours, follow(torch.optim.AdamW, tensors, printed["rates"], decay=0.1), rtol=1e-6, atol=1e-6)


PEERS = {
    "adam": ({}, lambda g: torch.optim.Adam(g)),
    "sgd": ({}, lambda g: torch.optim.SGD(g, lr=1)),
    "sgd momentum": ({"momentum": 0.9, "nesterov": "true"}, lambda g: torch.optim.SGD(g, lr=1, momentum=0.9, nesterov=True)),
    "sgd dampened": ({"momentum": 0.9, "dampening": "0.5"}, lambda g: torch.optim.SGD(g, lr=1, momentum=0.9, dampening=0.5)),
    "rmsprop": ({}, lambda g: torch.optim.RMSprop(g)),
    "rmsprop centered": ({"centered": "true", "momentum": 0.9, "alpha": 0.95}, lambda g: torch.optim.RMSprop(g, centered=True, momentum=0.9, alpha=0.95)),
    "adagrad": ({"lr_decay": 0.01}, lambda g: torch.optim.Adagrad(g, lr_decay=0.01)),
    "adafactor": ({}, lambda g: Adafactor(g, lr=1.0, scale_parameter=False, relative_step=False)),
    "adafactor scaled": ({"scale_parameter": "true", "beta1": 0.9}, lambda g: Adafactor(g, lr=1.0, scale_parameter=True, relative_step=False, beta1=0.9)),
    "adafactor relative": ({"scale_parameter": "true", "relative_step": "true", "warmup_init": "true"},
                           lambda g: Adafactor(g, scale_parameter=True, relative_step=True, warmup_init=True)),
}


@pytest.mark.parametrize("case", PEERS)
def test_optimizer_equals_its_peer(tmp_path, case):
    arguments, make = PEERS[case]
    tensors = recorded()
    config = {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS, "optim_args": arguments, "max_grad_norm": 1.0}
    printed, ours = trace(tmp_path, case.split()[0], config, tensors)
    compare(ours, follow(make, tensors, printed["rates"], max_norm=1.0, decay=0.1), rtol=2e-6, atol=2e-6)


def test_clipping_reports_the_norm_before_it(tmp_path):
    tensors = recorded()
    printed, _ = trace(tmp_path, "sgd", {"learning_rate": 1e-2, "total_steps": STEPS, "max_grad_norm": 0.5}, tensors)
    for step, norm in enumerate(printed["norms"]):
        gradients = [v.flatten() for k, v in tensors.items() if k.startswith(f"grad/{step}/")]
        assert norm == pytest.approx(torch.cat(gradients).norm().item(), rel=1e-5)


def test_lion_follows_its_definition(tmp_path):
    tensors = recorded()
    printed, ours = trace(tmp_path, "lion_32bit", {"learning_rate": 1e-3, "weight_decay": 0.1, "total_steps": STEPS, "adam_beta2": 0.99}, tensors)
    for name in SHAPES:
        p, m = tensors[f"param/{name}"].clone(), torch.zeros(SHAPES[name])
        decay = 0.0 if "bias" in name or "norm" in name else 0.1
        for step, rate in enumerate(printed["rates"]):
            g = tensors[f"grad/{step}/{name}"]
            p = p * (1 - rate * decay) - rate * torch.sign(torch.lerp(m, g, 1 - 0.9))
            m = torch.lerp(m, g, 1 - 0.99)
        torch.testing.assert_close(ours[f"param/{name}"], p, rtol=1e-6, atol=1e-6)


def test_muon_equals_torch_muon_on_matrices_and_adamw_elsewhere(tmp_path, monkeypatch):
    import torch.optim._muon as muon
    # torch iterates in bf16; in float32, as hone does on a host, the comparison can be tight.
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.float())
    tensors = recorded()
    printed, ours = trace(tmp_path, "muon", {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS}, tensors)
    hidden = {k: v for k, v in tensors.items() if "up_proj" in k or "down_proj" in k}
    rest = {k: v for k, v in tensors.items() if k not in hidden}
    peer = follow(lambda g: muon.Muon(g[0]["params"], lr=1, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"), hidden, printed["rates"])
    compare(ours, peer, rtol=1e-4, atol=1e-5)
    compare(ours, follow(torch.optim.AdamW, rest, printed["rates"], decay=0.1), rtol=1e-6, atol=1e-6)


GALORE_EPSILON = 1e-5  # above rounding: a gradient in its own singular vectors is diagonal, and Adam would scale the zeros' rounding to full steps


def galore_reference(tensors, name, rates, rank, gap, scale, kind):
    p = tensors[f"param/{name}"].clone()
    tall = p.shape[0] >= p.shape[1]
    side = {"std": "right" if tall else "left", "reverse_std": "left" if tall else "right"}.get(kind, kind)
    m = v = left = right = None
    for step, rate in enumerate(rates):
        g = tensors[f"grad/{step}/{name}"]
        if step % gap == 0:
            u, _, vh = torch.linalg.svd(g, full_matrices=False)
            left, right = u[:, :rank], vh[:rank]
        low = {"left": lambda: left.T @ g, "right": lambda: g @ right.T, "full": lambda: left.T @ g @ right.T}[side]()
        m = 0.1 * low if m is None else 0.9 * m + 0.1 * low
        v = 0.001 * low**2 if v is None else 0.999 * v + 0.001 * low**2
        update = m / (v.sqrt() + GALORE_EPSILON) * (1 - 0.999 ** (step + 1)) ** 0.5 / (1 - 0.9 ** (step + 1))
        update = {"left": lambda: left @ update, "right": lambda: update @ right, "full": lambda: left @ update @ right}[side]()
        p = p - rate * scale * update
    return p


@pytest.mark.parametrize("kind", ["std", "reverse_std", "left", "right", "full"])
def test_galore_follows_its_definition(tmp_path, kind):
    tensors = recorded()
    config = {"learning_rate": 1e-2, "total_steps": STEPS, "adam_epsilon": GALORE_EPSILON, "optim_args": {"rank": "4", "update_proj_gap": "5", "scale": "2.0", "proj_type": kind}}
    printed, ours = trace(tmp_path, "galore_adamw", config, tensors)
    for name in ("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight"):
        expected = galore_reference(tensors, name, printed["rates"], 4, 5, 2.0, kind)
        torch.testing.assert_close(ours[f"param/{name}"], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("eight,full,loss", [("adamw_8bit", "adamw_torch", 0.05), ("lion_8bit", "lion_32bit", 0.1)])
def test_eight_bit_states_stay_near_full_ones_and_take_a_quarter(tmp_path, eight, full, loss):
    tensors = recorded(steps=40, shapes={"model.layers.0.mlp.up_proj.weight": (256, 64)})
    config = {"learning_rate": 1e-2, "total_steps": 40, "adam_beta2": 0.99}
    name = "param/model.layers.0.mlp.up_proj.weight"
    _, exact = trace(tmp_path, full, config, tensors)
    _, ours = trace(tmp_path, eight, config, tensors)
    moved = (exact[name] - tensors[name]).norm()
    assert (ours[name] - exact[name]).norm() < loss * moved
    size = lambda result: sum(v.numel() * v.element_size() for k, v in result.items() if k.startswith("state/"))
    assert size(ours) < 0.27 * size(exact)


ALL = ["adamw_torch", "adam", "adamw_8bit", "adafactor", "sgd", "rmsprop", "adagrad", "lion_32bit", "lion_8bit", "muon", "galore_adamw"]


@pytest.mark.parametrize("optim", ALL)
def test_saved_state_continues_bit_for_bit(tmp_path, optim):
    shapes = dict(SHAPES, **{"model.layers.0.mlp.up_proj.weight": (96, 64)})
    tensors = recorded(shapes=shapes)
    config = {"learning_rate": 1e-2, "weight_decay": 0.1, "total_steps": STEPS}
    if optim == "sgd":
        config["optim_args"] = {"momentum": 0.9}
    if optim == "galore_adamw":
        config["optim_args"] = {"rank": 4}
    _, straight = trace(tmp_path, optim, config, tensors)
    _, resumed = trace(tmp_path, optim, dict(config, reload_at=5), tensors)
    assert straight.keys() == resumed.keys()
    for key in straight:
        assert torch.equal(straight[key], resumed[key]), key


def test_loraplus_groups_scale_b_matrices(tmp_path):
    shapes = {"q_proj.lora_A.weight": (4, 8), "q_proj.lora_B.weight": (8, 4), "embed_tokens.lora_embedding_B": (8, 4)}
    tensors = recorded(steps=1, shapes=shapes)
    _, ours = trace(tmp_path, "sgd", {"learning_rate": 1e-2, "total_steps": 1, "loraplus_lr_ratio": 16.0}, tensors)
    for name, rate in (("q_proj.lora_A.weight", 1e-2), ("q_proj.lora_B.weight", 16e-2), ("embed_tokens.lora_embedding_B", 1e-6)):
        torch.testing.assert_close(ours[f"param/{name}"], tensors[f"param/{name}"] - rate * tensors[f"grad/0/{name}"])


def test_unknown_optimizer_names_the_choices(tmp_path):
    (tmp_path / "c.json").write_text("{}")
    save_file(recorded(steps=1), tmp_path / "i.safetensors")
    done = subprocess.run([HONE, "optim-trace", "--optim", "adamx", "--config", str(tmp_path / "c.json"), "--input", str(tmp_path / "i.safetensors"),
                           "--output", str(tmp_path / "o")], capture_output=True, text=True)
    assert done.returncode == 2 and "adamw_torch" in done.stderr


SCHEDULES = [
    ("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.5}), ("cosine_with_restarts", {"num_cycles": 3}),
    ("polynomial", {"lr_end": 1e-6, "power": 2.0}), ("constant", {}), ("constant_with_warmup", {}), ("inverse_sqrt", {}),
    ("inverse_sqrt", {"timescale": 7}), ("cosine_with_min_lr", {"min_lr": 1e-5}), ("cosine_with_min_lr", {"min_lr_rate": 0.1}),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}), ("cosine_warmup_with_min_lr", {"min_lr": 1e-5, "warmup_lr_rate": 0.2}),
    ("warmup_stable_decay", {"num_decay_steps": 20}),
    ("warmup_stable_decay", {"num_decay_steps": 20, "num_stable_steps": 10, "warmup_type": "cosine", "decay_type": "1-sqrt", "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", {"num_decay_steps": 20, "warmup_type": "1-sqrt", "decay_type": "linear", "min_lr_ratio": 0.05}),
]


def megatron_rate(step, total, peak, min_lr=0, warmup_init=0, warmup=0, decay_style="cosine", decay_steps=None, wsd_decay_style="exponential", wsd_decay_steps=0):
    """OptimizerParamScheduler.get_lr of Megatron-LM, counted in steps."""
    decay = decay_steps or total
    if warmup > 0 and step <= warmup:
        return warmup_init + (peak - warmup_init) * step / warmup
    if decay_style == "constant":
        return peak
    if step > decay:
        return min_lr
    if decay_style == "inverse-square-root":
        return max(min_lr, peak * max(warmup, 1) ** 0.5 / max(step, 1) ** 0.5)
    ratio, start = (step - warmup) / (decay - warmup), decay - wsd_decay_steps
    late = (step - start) / wsd_decay_steps if wsd_decay_steps else 0
    annealed = {"linear": 1 - late, "cosine": 0.5 * (math.cos(math.pi * late) + 1), "exponential": 2 * 0.5 ** late - 1, "minus_sqrt": 1 - abs(late) ** 0.5}[wsd_decay_style]
    share = {"linear": 1 - ratio, "cosine": 0.5 * (math.cos(math.pi * ratio) + 1), "WSD": 1 if step <= start else annealed}[decay_style]
    return min_lr + share * (peak - min_lr)


@pytest.mark.parametrize("settings", [
    dict(min_lr=1e-5, warmup=3.5), dict(decay_style="linear", min_lr=1e-4, warmup_init=2e-4, warmup=4), dict(decay_style="constant", warmup=2), dict(decay_style="inverse-square-root", warmup=5, min_lr=3e-4),
    dict(decay_steps=20, min_lr=1e-5), *(dict(decay_style="WSD", wsd_decay_style=shape, wsd_decay_steps=9, min_lr=1e-5, warmup=1.2) for shape in ("exponential", "linear", "cosine", "minus_sqrt"))])
def test_schedules_of_megatron(tmp_path, settings):
    total, peak = 30, 1e-3
    given = {key: value for key, value in settings.items() if key != "warmup"}
    given.update({"warmup_fraction": settings["warmup"] / total} if settings.get("warmup", 0) % 1 else {"warmup_steps": settings["warmup"]} if "warmup" in settings else {})
    printed, _ = trace(tmp_path, "sgd", {"learning_rate": peak, "lr_scheduler_type": "megatron", "lr_scheduler_kwargs": given, "total_steps": total})
    assert printed["rates"] == pytest.approx([megatron_rate(step, total, peak, **settings) for step in range(total)], rel=1e-12, abs=1e-18)


@pytest.mark.parametrize("warmup", [0, 7])
@pytest.mark.parametrize("name,kwargs", SCHEDULES)
def test_schedule_equals_transformers_at_every_step(tmp_path, name, kwargs, warmup):
    total, rate = 53, 3e-4
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    theirs = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total, scheduler_specific_kwargs=dict(kwargs))
    expected = []
    for _ in range(total + 5):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    config = {"learning_rate": rate, "lr_scheduler_type": name, "lr_scheduler_kwargs": kwargs, "warmup_steps": warmup, "total_steps": total}
    printed, _ = trace(tmp_path, "sgd", config)
    assert printed["rates"] == pytest.approx(expected[:total], rel=1e-12, abs=1e-18)


def test_reduce_on_plateau_equals_torch(tmp_path):
    metrics = [3.0, 2.0, 2.0, 2.1, 1.99999, 2.2, 2.3, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    kwargs = {"factor": 0.5, "patience": 1, "cooldown": 1, "min_lr": 1e-4}
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    theirs, expected = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **kwargs), []
    for metric in metrics:
        expected.append(optimizer.param_groups[0]["lr"])
        theirs.step(metric)
    config = {"learning_rate": 1e-3, "lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": kwargs, "total_steps": len(metrics), "metrics": metrics}
    printed, _ = trace(tmp_path, "sgd", config)
    assert printed["rates"] == pytest.approx(expected, rel=1e-12)
    assert printed["rates"][-1] < 1e-3
