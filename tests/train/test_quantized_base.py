"""QLoRA: the base in few bits as bitsandbytes, hqq, quanto and EETQ keep it, LoRA on top as PEFT trains it."""
import json
import subprocess

import pytest

from train_testing import ENVIRONMENT, hone_binary

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def half_quadratic(weight, bits, axis, group=64):
    """The hqq package's default solver: the zero moves until few weights are far off in the norm |x|^0.7."""
    import torch
    groups = weight.reshape([-1, group] if axis == 1 else [group, -1])
    least, most = groups.amin(axis, keepdim=True), groups.amax(axis, keepdim=True)
    top = 2**bits - 1
    scale = torch.where((most - least).abs() <= 1e-4, torch.ones_like(least), top / (most - least)).clamp(max=2e4)
    zero = -least * scale
    zero = zero.round() if bits == 4 else zero
    best = float("inf")
    for _ in range(20):
        codes = (groups * scale + zero).round().clamp(0, top)
        error = groups - (codes - zero) / scale
        shrunk = error.sign() * (error.abs() - 0.1 * error.abs().pow(0.7 - 1)).clamp(min=0)
        zero = (codes - (groups - shrunk) * scale).mean(axis, keepdim=True)
        if not error.abs().mean() < best:
            break
        best = error.abs().mean()
    codes = (groups * scale + zero).round().clamp(0, top)
    return ((codes - zero) * (1 / scale)).reshape(weight.shape)


def quanto(weight, bits):
    """optimum-quanto: int8 around zero for each row; fewer bits between the extremes of groups of 128 where they divide a row."""
    if bits == 8:
        scale = weight.abs().amax(1, keepdim=True) / 127
        return (weight / scale).round().clamp(-128, 127) * scale
    inputs = weight.shape[1]
    group = next((size for size in (128, 96, 64, 32) if inputs > 128 and inputs % size == 0), inputs)
    groups = weight.reshape(-1, group)
    least = groups.amin(1, keepdim=True)
    scale = (groups.amax(1, keepdim=True) - least) / (2**bits - 1)
    return (((groups - least) / scale).round().clamp(0, 2**bits - 1) * scale + least).reshape(weight.shape)


def rounded(weight, way):
    """What the method's own package gives back for a weight."""
    if way.get("method") == "hqq":
        return half_quadratic(weight, way["bits"], way.get("axis", 1))
    if way.get("method") == "quanto":
        return quanto(weight, way["bits"])
    from bitsandbytes import functional
    if way["bits"] == 4:
        packed, state = functional.quantize_4bit(weight.contiguous(), quant_type=way.get("type", "nf4"), compress_statistics=way.get("double", True))
        return functional.dequantize_4bit(packed, state)
    half = weight.half().float()
    largest = half.abs().amax(1, keepdim=True)
    return (half * (127.0 / largest)).round() * largest / 127


@pytest.mark.parametrize("way", [dict(bits=4), dict(bits=4, double=False), dict(bits=4, type="fp4", double=False), dict(bits=8),
                                 dict(bits=8, method="eetq"), dict(bits=4, method="hqq"), dict(bits=3, method="hqq", axis=0), dict(bits=2, method="hqq", axis=1),
                                 dict(bits=8, method="quanto"), dict(bits=4, method="quanto"), dict(bits=2, method="quanto")], ids=str)
def test_the_first_losses_are_those_of_the_rounded_base(sft, model_folder, tmp_path, way):
    import shutil

    import torch
    from safetensors.torch import load_file, save_file
    folder = tmp_path / "rounded"
    shutil.copytree(model_folder, folder)
    weights = load_file(folder / "model.safetensors")
    for name in weights:
        if any(name.endswith(f"{part}.weight") for part in LINEARS):
            weights[name] = rounded(weights[name].float(), way).to(torch.float32).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    options = dict(quant_method=way.get("method", "bnb"), quant_bits=way["bits"], bnb_4bit_quant_type=way.get("type", "nf4"), bnb_4bit_use_double_quant=str(way.get("double", True)).lower())
    if "axis" in way:
        options["hqq_axis"] = way["axis"]
    quantized, plain = sft(tmp_path / "quantized", max_steps=4, **options), sft(tmp_path / "plain", max_steps=4, model=folder)
    assert quantized.code == 0, quantized.err
    assert plain.code == 0, plain.err
    assert quantized.losses() == pytest.approx(plain.losses(), rel=2e-4)


def test_such_an_adapter_answers_with_its_base(sft, model_folder, tmp_path):
    run = sft(tmp_path / "run", max_steps=2, save_steps=2, quant_method="bnb", quant_bits=4)
    assert run.code == 0, run.err
    (tmp_path / "rows.jsonl").write_text(json.dumps({"query": "the cat"}) + "\n")

    def infer(name, *words):
        done = subprocess.run([hone_binary(), "infer", "--adapters", run.folder / "checkpoint-2", "--val_dataset", tmp_path / "rows.jsonl", "--result_path", tmp_path / name,
                               "--max_new_tokens", "4", "--temperature", "0", *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
        return done

    done = infer("a.jsonl")
    assert done.returncode == 0 and json.loads((tmp_path / "a.jsonl").read_text())["response"] is not None, done.stderr
    merged = infer("b.jsonl", "--merge_lora", "true")  # into the base as it was before it was rounded
    assert merged.returncode == 0 and json.loads((tmp_path / "b.jsonl").read_text())["response"] is not None, merged.stderr


@pytest.mark.parametrize("options,named", [(dict(tuner_type="full"), "lora"), (dict(use_dora="true"), "DoRA needs unquantized weights"), (dict(init_weights="pissa"), "init_weights"),
                                           (dict(quant_method="fp8"), "bnb"), (dict(quant_bits=3), "4, 8 bits"),
                                           (dict(quant_method="eetq"), "8 bits"), (dict(quant_method="quanto", quant_bits=3), "quanto"), (dict(quant_method="hqq", hqq_axis=2), "hqq_axis")])
def test_what_does_not_go_with_it_is_refused(sft, tmp_path, options, named):
    run = sft(tmp_path / "run", **{"quant_method": "bnb", "quant_bits": 4, **options})
    assert run.code == 2 and named in run.err, run.err
