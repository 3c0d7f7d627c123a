"""LoftQ compared with peft and bitsandbytes: the same grid, base and logits, in both directions."""
import inspect
import json

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import layer as peft_layer
from peft.utils import loftq_utils
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from test_peft import SIZES, base_model, hone_logits, peer_logits, randomise_adapter, run, spread

TARGETS = ["q_proj", "down_proj"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Rows of whole blocks of 64: bitsandbytes' host kernel reads shorter ones wrongly."""
    folder = tmp_path_factory.mktemp("base")
    spread(LlamaForCausalLM(LlamaConfig(**{**SIZES, "hidden_size": 64, "intermediate_size": 128}, tie_word_embeddings=False)), 7).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def loftq_on_the_host(monkeypatch):
    """peft's own function with its hard-wired accelerator replaced by the host."""
    source = inspect.getsource(loftq_utils.loftq_init).replace('"cuda"', '"cpu"')
    namespace = dict(vars(loftq_utils))
    exec(source, namespace)
    monkeypatch.setattr(peft_layer, "loftq_init", namespace["loftq_init"])


def config(**more):
    return {"r": 4, "lora_alpha": 4, "target_modules": TARGETS, "init_lora_weights": "loftq", "loftq_config": {"loftq_bits": 4, "loftq_iter": 1}, **more}


@pytest.mark.parametrize("bits,rounds", [(4, 1), (4, 3), (8, 1)])
def test_start_equals_pefts(tmp_path, base, bits, rounds):
    settings = config(loftq_config={"loftq_bits": bits, "loftq_iter": rounds}, peft_type="LORA")
    (tmp_path / "new.json").write_text(json.dumps(settings))
    ours = hone_logits(tmp_path, base, "--new_adapter", tmp_path / "new.json", "--save_adapter", tmp_path / "adapter")
    peer = get_peft_model(base_model(base), LoraConfig(**{k: v for k, v in settings.items() if k != "peft_type"})).eval()
    torch.testing.assert_close(ours, peer_logits(peer), rtol=1e-3, atol=1e-3)
    mine = load_file(tmp_path / "adapter/adapter_model.safetensors")
    layer = peer.base_model.model.get_submodule("model.layers.0.self_attn.q_proj")
    product = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    name = "base_model.model.model.layers.0.self_attn.q_proj"
    torch.testing.assert_close(mine[f"{name}.lora_B.weight"] @ mine[f"{name}.lora_A.weight"], product.detach(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("alpha", [4, 16])
def test_trained_adapter_of_hone_loads_in_peft(tmp_path, base, alpha):
    (tmp_path / "new.json").write_text(json.dumps(config(peft_type="LORA", lora_alpha=alpha)))
    ours = hone_logits(tmp_path, base, "--new_adapter", tmp_path / "new.json", "--save_adapter", tmp_path / "adapter")
    theirs = PeftModel.from_pretrained(base_model(base), tmp_path / "adapter").eval()
    torch.testing.assert_close(ours, peer_logits(theirs), rtol=1e-4, atol=1e-4)
    rounded = (ours - peer_logits(base_model(base))).abs().max()
    assert 0 < rounded < 5, "near the base, whatever alpha is"


def test_adapter_of_peft_loads_and_merges_here(tmp_path, base):
    peer = get_peft_model(base_model(base), LoraConfig(**config(), task_type="CAUSAL_LM")).eval()
    randomise_adapter(peer, 3)
    peer.save_pretrained(tmp_path / "adapter")
    expected = peer_logits(peer)
    torch.testing.assert_close(hone_logits(tmp_path, base, "--adapters", tmp_path / "adapter"), expected, rtol=1e-4, atol=1e-4)
    run("export", "--model", base, "--adapters", tmp_path / "adapter", "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    torch.testing.assert_close(hone_logits(tmp_path, tmp_path / "merged"), expected, rtol=1e-3, atol=1e-3)


def test_bits_that_do_not_exist_are_refused(tmp_path, base):
    (tmp_path / "new.json").write_text(json.dumps(config(peft_type="LORA", loftq_config={"loftq_bits": 3, "loftq_iter": 1})))
    (tmp_path / "tokens.json").write_text(json.dumps({"sequences": [[1, 2]]}))
    done = run("logits", "--model", base, "--input", tmp_path / "tokens.json", "--output", tmp_path / "o", "--new_adapter", tmp_path / "new.json", ok=False)
    assert done.returncode == 3 and "3 bits" in done.stderr
