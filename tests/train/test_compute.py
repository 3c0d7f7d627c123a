"""How a run computes: 8-bit floats, attention in shifted groups and switched operators, against the published formulas in torch."""
import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from test_loss_curves import BATCH, RATE, texts  # noqa: F401

STEPS = 6


def settings(**more):
    return dict(verb="pt", tuner_type="full", max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0,
                adam_beta2=0.999, max_grad_norm=1.0, save_steps=1000, dataset_shuffle="false", train_dataloader_shuffle="false", **more)


def peer_losses(model, tokenizer, rows, forward, measured=None):
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses = []
    for step in range(STEPS):
        batch = [torch.tensor(tokenizer(row).input_ids + [tokenizer.eos_token_id]) for row in rows[step * BATCH:(step + 1) * BATCH]]
        count = sum(len(ids) - 1 for ids in batch)
        logits = forward(model, batch)
        total = sum(torch.nn.functional.cross_entropy(one[:-1].float(), ids[1:], reduction="sum") for one, ids in zip(logits, batch)) / count
        total.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total.item())
    return losses


class Float8Product(torch.autograd.Function):
    """torchao's default recipe: a scale for each tensor, e4m3 forward, gradients in e5m2."""

    @staticmethod
    def rounded(values, kind):
        largest = torch.finfo(kind).max
        scale = (largest / values.abs().max().double().clamp(min=1e-12)).float()
        return (values.float() * scale).clamp(-largest, largest).to(kind).float() / scale

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return Float8Product.rounded(x, torch.float8_e4m3fn) @ Float8Product.rounded(weight, torch.float8_e4m3fn).T

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dy = Float8Product.rounded(dy, torch.float8_e5m2)
        return dy @ Float8Product.rounded(weight, torch.float8_e4m3fn), dy.T @ Float8Product.rounded(x, torch.float8_e4m3fn)


def packed_forward(model, batch):
    """One row of all texts: a tensor's scale is that of everything computed together."""
    lengths = [len(ids) for ids in batch]
    positions = torch.cat([torch.arange(length) for length in lengths])
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    allowed = (owner[:, None] == owner[None, :]) & (torch.arange(len(owner))[:, None] >= torch.arange(len(owner))[None, :])
    mask = torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))[None, None]
    logits = model(torch.cat(batch)[None], attention_mask=mask, position_ids=positions[None], use_cache=False).logits[0]
    return logits.split(lengths)


def test_products_of_8_bits_follow_torchao(sft, model_folder, texts, tmp_path):  # noqa: F811
    path, rows = texts
    run = sft(tmp_path / "run", dataset=path, fp8="true", fp8_backend="torchao", **settings())
    assert run.code == 0, run.err
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32, attn_implementation="eager").train()
    plain = peer_losses(AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32, attn_implementation="eager").train(), tokenizer, rows, packed_forward)
    names = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    for name in names[1:-1]:  # Accelerate leaves out the first and the last

        def forward(x, layer=model.get_submodule(name)):
            y = Float8Product.apply(x.reshape(-1, x.shape[-1]), layer.weight).reshape(*x.shape[:-1], -1)
            return y if layer.bias is None else y + layer.bias

        model.get_submodule(name).forward = forward
    theirs = peer_losses(model, tokenizer, rows, packed_forward)
    assert run.losses() == pytest.approx(theirs, rel=5e-5)
    assert max(abs(a - b) / b for a, b in zip(theirs, plain)) > 4e-4, "8 bits must show"
    lora = sft(tmp_path / "lora", dataset=path, fp8="true", **(settings() | dict(tuner_type="lora", max_steps=2)))
    assert lora.code == 0 and len(lora.losses()) == 2, lora.err


def shifted_groups(length):
    """[2, L, L]: who sees whom, in the straight half of the heads and in the shifted one."""
    padded = (length + 7) // 8 * 8
    size = padded // 4
    places = torch.arange(padded)
    masks = []
    for order in (places, places.roll(-size // 2)):
        rank = torch.empty(padded, dtype=torch.long)
        rank[order] = places
        group = rank // size
        masks.append(((group[:, None] == group[None, :]) & (rank[:, None] >= rank[None, :]))[:length, :length])
    return torch.stack(masks)


def test_shifted_groups_follow_longlora(sft, model_folder, texts, tmp_path):  # noqa: F811
    path, rows = texts
    run = sft(tmp_path / "run", dataset=path, shift_attn="true", **settings())
    assert run.code == 0, run.err
    again = sft(tmp_path / "again", dataset=path, shift_attn="true", gradient_checkpointing="false", **settings())
    assert again.losses() == run.losses(), "whether blocks run again or not"

    def forward(model, batch):
        heads = model.config.num_attention_heads
        results = []
        for ids in batch:
            mask = shifted_groups(len(ids)).repeat_interleave(heads // 2, 0)
            results.append(model(ids[None], attention_mask=torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))[None], use_cache=False).logits[0])
        return results

    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32, attn_implementation="eager").train()
    theirs = peer_losses(model, AutoTokenizer.from_pretrained(model_folder), rows, forward)
    assert run.losses() == pytest.approx(theirs, rel=1e-4)
    of_swift = sft(tmp_path / "longlora", dataset=path, **(settings() | dict(tuner_type="longlora", max_steps=1)))
    assert of_swift.losses()[0] == pytest.approx(theirs[0], rel=1e-4)
    plain = sft(tmp_path / "plain", dataset=path, **settings())
    assert max(abs(a - b) for a, b in zip(plain.losses(), theirs)) > 1e-3, "groups must show"


def test_switched_operators_compute_the_same(sft, tmp_path):
    plain = sft(tmp_path / "plain", max_steps=3)
    for config, message in (({"rope": False, "swiglu": False, "rms_norm": False}, "rope, rms_norm, swiglu"),
                         ({"fused_linear_cross_entropy": False, "layer_norm": True}, "cross_entropy, fused_linear_cross_entropy"),
                         ({"fused_linear_cross_entropy": False, "cross_entropy": True}, ": fused_linear_cross_entropy")):
        run = sft(tmp_path / message[:6], max_steps=3, use_liger_kernel="true", liger_kernel_config=json.dumps(config))
        assert run.code == 0, run.err
        assert f"plain operators instead of fused ones{'' if message.startswith(':') else ': '}{message}" in run.out + run.err
        assert run.losses() == pytest.approx(plain.losses(), rel=1e-5)


@pytest.mark.parametrize("options,message", [
    (dict(use_liger_kernel="true", liger_kernel_config='{"cross_entropy": true}'), "fused_linear_cross_entropy"),
    (dict(use_liger_kernel="true", liger_kernel_config='{"ropes": true}'), "ropes"),
    (dict(use_liger_kernel="true", liger_kernel_config='{"rope": 1}'), "rope"),
    (dict(fp8="true", quant_bits=4, quant_method="bnb"), "exclude each other"),
    (dict(fp8="true", fp8_backend="te"), "fp8_backend"),
])
def test_what_does_not_go_is_named(sft, tmp_path, options, message):
    run = sft(tmp_path / "run", **options)
    assert run.code == 2 and message in run.err, run.err


def test_threads_that_pack_rows_change_nothing(sft, tmp_path):
    one, three = (sft(tmp_path / str(count), packing="true", packing_num_proc=count, max_steps=3, max_length=64) for count in (1, 3))
    assert one.code == 0 and three.code == 0, one.err + three.err
    assert three.losses() == one.losses()
    refused = sft(tmp_path / "none", packing="true", packing_num_proc=0)
    assert refused.code == 2 and "packing_num_proc" in refused.err
