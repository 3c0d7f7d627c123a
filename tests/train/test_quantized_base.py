"""QLoRA: the base in 4 or 8 bits as bitsandbytes keeps it, LoRA on top as PEFT trains it."""
import json
import subprocess

import pytest

from train_testing import ENVIRONMENT, hone_binary

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def rounded(weight, way):
    """What bitsandbytes gives back for a weight."""
    functional = pytest.importorskip("bitsandbytes").functional
    if way["bits"] == 4:
        packed, state = functional.quantize_4bit(weight.contiguous(), quant_type=way.get("type", "nf4"), compress_statistics=way.get("double", True))
        return functional.dequantize_4bit(packed, state)
    half = weight.half().float()
    largest = half.abs().amax(1, keepdim=True)
    return (half * (127.0 / largest)).round() * largest / 127


@pytest.mark.parametrize("way", [dict(bits=4), dict(bits=4, double=False), dict(bits=4, type="fp4", double=False), dict(bits=8)], ids=str)
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
    options = dict(quant_method="bnb", quant_bits=way["bits"], bnb_4bit_quant_type=way.get("type", "nf4"), bnb_4bit_use_double_quant=str(way.get("double", True)).lower())
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
    merged = infer("b.jsonl", "--merge_lora", "true")
    assert merged.returncode == 2 and "few bits" in merged.stderr


@pytest.mark.parametrize("options,named", [(dict(tuner_type="full"), "lora"), (dict(use_dora="true"), "DoRA"), (dict(init_weights="pissa"), "init_weights"),
                                           (dict(quant_method="hqq"), "bnb"), (dict(quant_bits=3), "quant_bits")])
def test_what_does_not_go_with_it_is_refused(sft, tmp_path, options, named):
    run = sft(tmp_path / "run", **{"quant_method": "bnb", "quant_bits": 4, **options})
    assert run.code == 2 and named in run.err, run.err
