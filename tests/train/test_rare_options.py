"""Choices that few runs make, each seen by what it changes: Q-GaLore, updates in the backward pass, anchored fine-tuning, names of runs,
SwanLab, and what is checked before a model is read."""
import json
import os
import stat

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from test_loss_curves import BATCH, RATE, texts  # noqa: F401
from test_resume import digest

GALORE = dict(tuner_type="full", use_galore="true", galore_rank=8, galore_update_proj_gap=2)


def same_end(sft, tmp_path, **options):
    whole = sft(tmp_path / "whole", **options)
    assert whole.code == 0, whole.err
    rest = sft(tmp_path / "rest", resume_from_checkpoint=whole.folder / "checkpoint-3", **options)
    assert rest.code == 0 and rest.losses() == whole.losses()[3:], rest.err
    for name in ("model.safetensors", "hone_state.safetensors"):
        assert digest(rest.folder / "checkpoint-6", name) == digest(whole.folder / "checkpoint-6", name)
    return whole


def state_of(run):
    return load_file(run.folder / "checkpoint-6/hone_state.safetensors")


def test_quantized_galore(sft, tmp_path):
    plain = sft(tmp_path / "plain", **GALORE)
    steady = dict(galore_quantization="true", galore_queue_size=1, galore_gamma_proj=3)
    always = same_end(sft, tmp_path / "always", **GALORE, **steady, galore_cos_threshold=-1, galore_proj_quant="true", galore_proj_bits=4, galore_proj_group_size=16)
    assert always.losses()[:2] == pytest.approx(plain.losses()[:2], rel=0.02) and always.losses()[-1] < always.losses()[0]
    state = state_of(always)
    codes = [tensor for name, tensor in state.items() if "projector_codes/" in name]
    assert codes and all(tensor.dtype == torch.uint8 and tensor.max() < 16 and tensor.shape[1] == 16 for tensor in codes), "four bits in groups of 16"
    gaps = {int(tensor[0]) for name, tensor in state.items() if "projector_counts/" in name}
    assert gaps == {6}, "found at steps 0 and 2, and from then on a third as often"
    never = sft(tmp_path / "never", **GALORE, **steady, galore_cos_threshold=1)
    assert never.code == 0, never.err
    assert {int(tensor[0]) for name, tensor in state_of(never).items() if "projector_counts/" in name} == {2}
    assert not any("projector_codes/" in name for name in state_of(never))


@pytest.mark.parametrize("options", [dict(GALORE, galore_optim_per_parameter="true"),
                                     dict(tuner_type="full", use_apollo="true", apollo_rank=4, apollo_layerwise="true", gradient_accumulation_steps=2)],
                         ids=["galore", "apollo"])
def test_updates_in_the_backward_pass_have_the_same_numbers(sft, tmp_path, options):
    layerwise = same_end(sft, tmp_path, max_grad_norm=0, **options)
    off = {key: "false" if key in ("galore_optim_per_parameter", "apollo_layerwise") else value for key, value in options.items()}
    plain = sft(tmp_path / "plain", max_grad_norm=0, **off)
    assert plain.code == 0, plain.err
    assert layerwise.losses() == pytest.approx(plain.losses(), abs=1e-6)
    norms = [event["grad_norm"] for event in layerwise.log() if "grad_norm" in event]
    assert norms and all(norm == 0 for norm in norms), "no gradient was left when the pass had ended"
    two = sft(tmp_path / "two", count=2, **options)
    assert two.code == 0 and "after the backward pass" in two.err


def test_anchored_fine_tuning_follows_its_definition(sft, model_folder, texts, tmp_path):  # noqa: F811
    path, rows = texts
    steps, alpha = 6, 0.7
    run = sft(tmp_path / "run", dataset=path, verb="pt", tuner_type="full", use_asft_loss="true", asft_alpha=alpha, max_steps=steps, per_device_train_batch_size=BATCH,
              learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0, adam_beta2=0.999, max_grad_norm=1.0, save_steps=1000, dataset_shuffle="false",
              train_dataloader_shuffle="false")
    assert run.code == 0, run.err
    model, start = (AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32) for _ in range(2))
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses = []
    for step in range(steps):
        batch = [torch.tensor([tokenizer(row).input_ids + [tokenizer.eos_token_id]]) for row in rows[step * BATCH:(step + 1) * BATCH]]
        count, total = sum(ids.shape[1] - 1 for ids in batch), 0
        for ids in batch:
            logps = model(ids).logits[0, :-1].log_softmax(-1)
            with torch.no_grad():
                wanted = start(ids).logits[0, :-1].log_softmax(-1)
            own = logps.gather(1, ids[0, 1:, None])
            divergence = torch.nn.functional.kl_div(logps, wanted.exp(), reduction="sum")
            total = total + (-(own.detach().exp() * own).sum() + alpha * divergence) / count
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total.item())
    assert run.losses() == pytest.approx(losses, rel=1e-4)


def test_a_run_is_called_as_asked(sft, tmp_path):
    run = sft(tmp_path / "run", max_steps=1, run_name="first/try", project="colours", report_to="tensorboard")
    assert run.code == 0, run.err
    assert list((run.folder / "runs/colours/first-try").glob("events.out.tfevents.*"))


def test_swanlab_takes_the_run_in(sft, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    script = programs / "swanlab"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\necho "$SWANLAB_API_KEY $SWANLAB_MODE" > {tmp_path}/environment\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    asked = dict(max_steps=1, report_to="swanlab", swanlab_project="colours", swanlab_workspace="us", swanlab_exp_name="try", swanlab_token="k3y", swanlab_mode="local")
    run = sft(tmp_path / "run", env={"PATH": f"{programs}:{os.environ['PATH']}"}, **asked)
    assert run.code == 0 and "swanlab imported the run" in run.err, run.err
    events = run.folder / "runs/try"
    assert (tmp_path / "words").read_text().split() == ["convert", "-t", "tensorboard", "--tb-logdir", str(events), "-p", "colours", "-w", "us"]
    assert (tmp_path / "environment").read_text().split() == ["k3y", "local"] and list(events.glob("events.*"))
    alone = sft(tmp_path / "alone", env={"PATH": str(tmp_path)}, **asked)
    assert alone.code == 0 and "swanlab convert" in alone.err and "k3y" not in alone.err + alone.out
    off = sft(tmp_path / "off", env={"PATH": f"{programs}:{os.environ['PATH']}"}, **{**asked, "swanlab_mode": "disabled"})
    assert off.code == 0 and "swanlab imported" not in off.err


def test_declared_model_properties_are_checked(sft, tmp_path):
    assert sft(tmp_path / "fits", max_steps=1, model_type="qwen2_5", max_memory=json.dumps({"cpu": "1GB"})).code == 0
    for wrong in ("llama3_1", "qwen2_vl", "qwen3"):
        refused = sft(tmp_path / "other", max_steps=1, model_type=wrong)
        assert refused.code == 2 and "model_type" in refused.err and "qwen2" in refused.err
    large = sft(tmp_path / "large", max_steps=1, max_memory=json.dumps({"cpu": "10KB"}))
    assert large.code == 5 and "max_memory" in large.err
    assert sft(tmp_path / "elsewhere", max_steps=1, max_memory=json.dumps({"0": "10KB"})).code == 0
    assert sft(tmp_path / "odd", max_steps=1, max_memory=json.dumps({"cpu": "much"})).code == 2
