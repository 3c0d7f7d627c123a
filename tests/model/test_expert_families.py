"""Mixtures of experts: the load balancing loss, weights in files, and errors of broken folders."""
import json
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from test_parity import ask_hone, difference, model_dir, random_batch  # noqa: F401

FAMILIES = ["qwen2-moe", "qwen3-moe-mixed", "mixtral"]


def stacked_folder(folder, out):
    """The same model with the weights of all experts in one tensor, under the names of transformers' own parameters."""
    shutil.copytree(folder, out)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, out / "model.safetensors", {"format": "pt"})
    return out


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("variant", FAMILIES)
def test_balance_loss_and_its_gradient_match(model_dir, tmp_path, variant, recompute):  # noqa: F811
    folder, coefficient = model_dir(variant), 0.7
    batch = random_batch([37], 256)
    batch["labels"] = batch["sequences"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.router_aux_loss_coef = coefficient
    tokens = torch.tensor(batch["sequences"])
    theirs = model(tokens, labels=tokens, output_router_logits=True)
    targets = tokens.shape[1] - 1
    (theirs.loss * targets).backward()
    # hone's loss is the sum over tokens, so that the balance counts as often.
    ours = ask_hone(folder, batch, tmp_path, grads=True, recompute=recompute, router_aux_loss_coef=coefficient * targets)
    assert theirs.aux_loss.item() * coefficient > 0.05 * theirs.loss.item()
    assert ours["loss"].item() == pytest.approx(theirs.loss.item() * targets, rel=1e-4)
    for name, parameter in model.named_parameters():
        assert difference(ours["grad." + name], parameter.grad) < 1e-4, name


@pytest.mark.parametrize("variant", FAMILIES)
def test_stacked_and_single_experts_are_the_same_model(model_dir, tmp_path, variant):  # noqa: F811
    folder = model_dir(variant)
    stacked = stacked_folder(folder, tmp_path / "stacked")
    names = set(load_file(folder / "model.safetensors"))
    assert any(".experts.0." in name for name in names) and not any(name.endswith("gate_up_proj") for name in names)
    assert any(name.endswith("mlp.experts.gate_up_proj") for name in load_file(stacked / "model.safetensors"))
    batch = random_batch([11, 5], 256)
    assert torch.equal(ask_hone(folder, batch, tmp_path)["logits"], ask_hone(stacked, batch, tmp_path)["logits"])


def test_a_missing_expert_is_named(model_dir, tmp_path, hone):  # noqa: F811
    folder = tmp_path / "broken"
    shutil.copytree(model_dir("qwen3-moe"), folder)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.experts.2.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (tmp_path / "input.json").write_text(json.dumps({"sequences": [[1, 2]]}))
    done = hone("logits", "--model", folder, "--input", tmp_path / "input.json", "--output", tmp_path / "out.safetensors")
    assert done.returncode == 4
    assert "model.layers.1.mlp.experts.2.up_proj.weight" in done.stderr and "8 experts" in done.stderr


def test_more_experts_for_a_token_than_there_are(model_dir, tmp_path, hone):  # noqa: F811
    folder = tmp_path / "wrong"
    shutil.copytree(model_dir("mixtral"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_experts_per_tok": 9}))
    (tmp_path / "input.json").write_text(json.dumps({"sequences": [[1, 2]]}))
    done = hone("logits", "--model", folder, "--input", tmp_path / "input.json", "--output", tmp_path / "out.safetensors")
    assert done.returncode == 4 and "num_experts_per_tok is 9" in done.stderr


def test_families_are_listed(hone):
    listed = {family["family"] for family in json.loads(hone("models", "--format", "json").stdout)["families"]}
    assert {"qwen2_moe", "qwen3_moe", "mixtral"} <= listed
