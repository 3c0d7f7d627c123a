"""Vision models whose decoder is stored in FP8 by blocks, as the hub has Qwen3.5 and Qwen3-VL: the numbers of the weights that the formula gives."""
import json
import shutil
import subprocess

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from media_runs import HONE
from test_towers import GRIDS, compare

BLOCK = 8
MTP = "mtp.layers.0.mlp.down_proj.weight"
ROUNDED = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "gate_proj.weight", "up_proj.weight", "down_proj.weight", "in_proj_qkv.weight", "in_proj_z.weight", "out_proj.weight",
           "experts.gate_up_proj", "experts.down_proj")


def rounded(weight):
    """Codes, scales by blocks and what they stand for; of a matrix, or of a stack of them."""
    *experts, rows, columns = weight.shape
    tiles = weight.reshape(*experts, rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
    scales = tiles.abs().amax((-3, -1)) / 448
    spread = scales[..., :, None, :, None]
    codes = (tiles / spread).to(torch.float8_e4m3fn)
    return codes.view(weight.shape), scales, (codes.float() * spread).view(weight.shape)


def one_by_one(tensors):
    """Stacked experts as one tensor for each layer of each expert."""
    single = {}
    for name, value in tensors.items():
        path, stacked, kind = name.rpartition(".experts.")
        if not stacked or value.ndim < 3:
            single[name] = value
            continue
        kind, end = kind.replace("_scale_inv", ""), ".weight_scale_inv" if kind.endswith("_scale_inv") else ".weight"
        for i, expert in enumerate(value):
            halves = zip(("gate_proj", "up_proj"), expert.chunk(2)) if kind == "gate_up_proj" else [(kind, expert)]
            single |= {f"{path}.experts.{i}.{half}{end}": part.contiguous() for half, part in halves}
    return single


def stacked(tensors):
    """The reverse, for folders that transformers has written one by one."""
    together, parts = {}, {}
    for name, value in tensors.items():
        path, is_expert, rest = name.rpartition(".experts.")
        if not is_expert or value.ndim > 2:
            together[name] = value
        else:
            number, kind, _ = rest.split(".")
            parts.setdefault(path, {}).setdefault(int(number), {})[kind] = value
    for path, experts in parts.items():
        own = [experts[i] for i in sorted(experts)]
        together[f"{path}.experts.gate_up_proj"] = torch.stack([torch.cat([one["gate_proj"], one["up_proj"]]) for one in own])
        together[f"{path}.experts.down_proj"] = torch.stack([one["down_proj"] for one in own])
    return together


def swapped(tensors):
    return {name: value.transpose(1, 2).contiguous() if ".experts." in name else value for name, value in tensors.items()}


def write(source, folder, tensors, **more):
    shutil.copytree(source, folder)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**json.loads((folder / "config.json").read_text()), **more}))
    return folder


def fp8_and_whole(source, place, layout=lambda tensors: tensors):
    stored, whole = {}, {}
    for name, weight in stacked(load_file(source / "model.safetensors")).items():
        stored[name] = whole[name] = weight
        if "visual" not in name and name.endswith(ROUNDED):
            stored[name], scales, whole[name] = rounded(weight)
            stored[name + "_scale_inv"] = scales
    stored[MTP], stored[MTP + "_scale_inv"], extra = rounded(torch.randn(16, 24))
    kept = {} if "qwen3_5" not in json.loads((source / "config.json").read_text())["model_type"] else {MTP: extra}
    if not kept:
        del stored[MTP], stored[MTP + "_scale_inv"]
    quantization = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK], "modules_to_not_convert": ["lm_head", "model.visual"]}
    return write(source, place / "fp8", layout(stored), quantization_config=quantization), write(source, place / "whole", {**whole, **kept}), kept


@pytest.mark.parametrize("family,layout", [("qwen3_5", None), ("qwen3_5_moe", one_by_one), ("qwen3_5_moe", None), ("qwen3_vl_moe", swapped), ("qwen3_vl_moe", None), ("qwen3_vl_moe", one_by_one)])
def test_logits_and_gradients_are_those_of_the_weights(folders, tmp_path, family, layout):
    fp8, whole, _ = fp8_and_whole(folders(family), tmp_path, layout or (lambda tensors: tensors))
    compare(fp8, whole, GRIDS["packed"], tmp_path, False)


def test_transformers_dequantizes_to_the_same_weights(folders, tmp_path):
    fp8, whole, _ = fp8_and_whole(folders("qwen3_5"), tmp_path)
    theirs = transformers.AutoModelForImageTextToText.from_pretrained(fp8, dtype=torch.float32, quantization_config=transformers.FineGrainedFP8Config(dequantize=True, weight_block_size=(BLOCK, BLOCK)))
    expected = load_file(whole / "model.safetensors")
    weights = {name: value for name, value in theirs.state_dict().items() if name in expected}
    assert any("in_proj_qkv" in name for name in weights)
    assert all(torch.equal(value, expected[name]) for name, value in weights.items())


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
def test_a_merge_is_whole(folders, tmp_path, family):
    """LoRA over FP8; the merged folder holds no codes, also where only carried weights had some."""
    fp8, whole, kept = fp8_and_whole(folders(family), tmp_path, one_by_one)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]}) + "\n")
    for model in (fp8, whole):
        words = [HONE, "sft", "--model", model, "--dataset", tmp_path / "rows.jsonl", "--max_steps", "2", "--lora_rank", "2", "--learning_rate", "1e-2", "--torch_dtype", "float32",
                 "--per_device_train_batch_size", "1", "--output_dir", tmp_path / f"run-{model.name}", "--add_version", "false", "--lora_dropout", "0"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        done = subprocess.run([HONE, "export", "--adapters", tmp_path / f"run-{model.name}/checkpoint-2", "--merge_lora", "true", "--output_dir", tmp_path / f"merged-{model.name}"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "quantization_config" not in json.loads((tmp_path / "merged-fp8/config.json").read_text())
    ours, expected = (stacked(load_file(tmp_path / f"merged-{name}/model.safetensors")) for name in ("fp8", "whole"))
    assert set(ours) == set(expected)
    for name, value in ours.items():
        assert value.dtype != torch.float8_e4m3fn and (value.float() - expected[name].float()).abs().max() <= 0.01 * expected[name].float().abs().max(), name
    assert (ours[MTP].float() - kept[MTP]).abs().max() <= 0.005 * kept[MTP].abs().max()
