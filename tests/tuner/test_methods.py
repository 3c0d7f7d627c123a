"""Tuners other than LoRA compared with peft: the same logits, gradients and merged weights from the same files, in both directions."""
import copy
import json

import peft.tuners.boft.layer as boft_layer
import pytest
import torch
from peft import AdaLoraConfig, BOFTConfig, FourierFTConfig, OFTConfig, PeftModel, VeraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

from tuner_testing import TOKENS, base_model, hone_outputs, peer_logits, run, spread

SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128)
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class BlockDiagonal:
    """What peft's CUDA extension computes; without it peft knows one butterfly factor only."""

    @staticmethod
    def apply(blocks):
        return torch.stack([torch.block_diag(*factor) for factor in blocks])


@pytest.fixture(autouse=True)
def butterflies(monkeypatch):
    monkeypatch.setattr(boft_layer, "get_fbd_cuda", lambda: True)
    monkeypatch.setattr(boft_layer, "FastBlockDiag", BlockDiagonal)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Matrices are tiny here, and tests share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    model = spread(Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=False)), 7)
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text("{}")
    return folder


CASES = {
    "adalora": AdaLoraConfig(target_modules=ALL, init_r=6, target_r=2, lora_alpha=12, total_step=10),
    "vera": VeraConfig(target_modules=ALL, r=5, projection_prng_key=3, d_initial=0.3),
    "vera without its matrices": VeraConfig(target_modules=["q_proj", "o_proj"], r=5, save_projection=False),
    "oft": OFTConfig(target_modules=ALL, oft_block_size=8),
    "oft exact, by number": OFTConfig(target_modules=["q_proj", "down_proj"], r=4, oft_block_size=0, use_cayley_neumann=False),
    "oft, one block for all": OFTConfig(target_modules=ALL, oft_block_size=16, block_share=True, num_cayley_neumann_terms=3),
    "oft, constrained": OFTConfig(target_modules=["v_proj", "up_proj"], oft_block_size=4, coft=True, eps=0.05),
    "oft, odd size": OFTConfig(target_modules=["q_proj"], oft_block_size=7),
    "boft": BOFTConfig(target_modules=ALL, boft_block_size=4),
    "boft butterfly": BOFTConfig(target_modules=ALL, boft_block_size=4, boft_n_butterfly_factor=3),
    "boft by number": BOFTConfig(target_modules=["q_proj", "v_proj"], boft_block_size=0, boft_block_num=8, boft_n_butterfly_factor=2),
    "fourierft": FourierFTConfig(target_modules=ALL, n_frequency=50, scaling=20.0),
    "saved": VeraConfig(target_modules=["q_proj"], r=4, modules_to_save=["lm_head", "norm"]),
    "layers": OFTConfig(target_modules=["q_proj", "up_proj"], oft_block_size=8, layers_to_transform=[1]),
}


def make_adapter(base, folder, case, seed=0):
    config = copy.deepcopy(CASES[case])
    config.task_type = "CAUSAL_LM"
    model = get_peft_model(base_model(base), config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator) * 0.2
                parameter.copy_(parameter + noise if "modules_to_save" in name or "boft_s" in name else noise)
    model.save_pretrained(folder, save_embedding_layers=False)
    return model


def compare_gradients(peer, ours):
    for row in TOKENS:
        ids = torch.tensor([row])
        # AdaLoRA adds its penalty to the loss of the model: the plain one is asked beneath it.
        (peer.base_model.model(input_ids=ids, labels=ids).loss * (len(row) - 1)).backward()
    compared = 0
    for name, parameter in peer.named_parameters():
        if parameter.grad is None or "modules_to_save" in name:
            continue
        mine = "grad." + name.removeprefix("base_model.model.").replace(".default", ".adapter0")
        torch.testing.assert_close(ours[mine], parameter.grad, rtol=1e-3, atol=1e-4, msg=lambda m: f"{name}: {m}")
        compared += 1
    assert compared >= 2


def compare_merged(folder, base, peer):
    run("export", "--model", base, "--adapters", folder / "adapter", "--merge_lora", "true", "--output_dir", folder / "merged")
    expected, ours = peer.merge_and_unload().state_dict(), load_file(folder / "merged/model.safetensors")
    assert ours.keys() == expected.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], expected[name], rtol=1e-4, atol=1e-5, msg=lambda m: f"{name}: {m}")


def compare_files_of_hone(folder, base):
    """A new adapter of hone's, with values that matter, read by peft."""
    config = json.loads((folder / "adapter/adapter_config.json").read_text())
    config["init_lora_weights" if config["peft_type"] == "ADALORA" else "init_weights"] = False
    (folder / "new.json").write_text(json.dumps(config))
    ours = hone_outputs(folder, base, "--new_adapter", folder / "new.json", "--save_adapter", folder / "mine")["logits"]
    assert set(load_file(folder / "mine/adapter_model.safetensors")) >= set(load_file(folder / "adapter/adapter_model.safetensors"))
    assert (ours - peer_logits(base_model(base))).abs().max() > 1e-4
    torch.testing.assert_close(ours, peer_logits(PeftModel.from_pretrained(base_model(base), folder / "mine").eval()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_same_as_peft(tmp_path, base, case):
    peer = make_adapter(base, tmp_path / "adapter", case)
    ours = hone_outputs(tmp_path, base, "--adapters", tmp_path / "adapter", "--grads", "true")
    assert (ours["logits"] - peer_logits(base_model(base))).abs().max() > 1e-2, "the adapter must matter"
    torch.testing.assert_close(ours["logits"], peer_logits(peer), rtol=1e-4, atol=1e-4)
    compare_gradients(peer, ours)
    compare_files_of_hone(tmp_path, base)
    compare_merged(tmp_path, base, peer)


def test_ranks_that_peft_cut_away_are_read(tmp_path, base):
    peer = make_adapter(base, tmp_path / "whole", "adalora")
    paths = [n.removesuffix(".lora_E.default") for n, _ in peer.base_model.model.named_parameters() if n.endswith(".lora_E.default")]
    pattern = {f"{path}.lora_E.default": [i % (2 + at % 3) == 0 for i in range(6)] for at, path in enumerate(paths)}
    with torch.no_grad():
        for name, parameter in peer.base_model.model.named_parameters():
            if name.endswith(".lora_E.default"):
                parameter[~torch.tensor(pattern[name])] = 0
    peer.peft_config["default"].rank_pattern = pattern
    expected = peer_logits(peer)
    peer.save_pretrained(tmp_path / "cut", save_embedding_layers=False)
    assert {t.shape[0] for n, t in load_file(tmp_path / "cut/adapter_model.safetensors").items() if "lora_E" in n} == {2, 3}
    ours = hone_outputs(tmp_path, base, "--adapters", tmp_path / "cut")
    torch.testing.assert_close(ours["logits"], expected, rtol=1e-4, atol=1e-4)


def test_first_values_are_pefts(tmp_path, base):
    """A fresh adapter changes nothing, but for FourierFT, whose spectrum is drawn; VeRA's matrices are peft's to the bit."""
    for case in ("adalora", "vera", "oft", "boft"):
        config = {**CASES[case].to_dict(), "target_modules": ALL}
        (tmp_path / "new.json").write_text(json.dumps(config, default=lambda value: getattr(value, "value", str(value))))
        ours = hone_outputs(tmp_path, base, "--new_adapter", tmp_path / "new.json", "--save_adapter", tmp_path / case)
        torch.testing.assert_close(ours["logits"], peer_logits(base_model(base)), rtol=1e-4, atol=1e-4)
    peer = get_peft_model(base_model(base), CASES["vera"])
    mine = load_file(tmp_path / "vera/adapter_model.safetensors")
    assert torch.equal(mine["base_model.vera_A"], peer.base_model.vera_A["default"])
    assert torch.equal(mine["base_model.vera_B"], peer.base_model.vera_B["default"])


def test_what_does_not_fit_is_named(tmp_path, base):
    make_adapter(base, tmp_path / "adapter", "boft")
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    (tmp_path / "tokens.json").write_text(json.dumps({"sequences": TOKENS}))
    words = ["logits", "--model", base, "--input", tmp_path / "tokens.json", "--output", tmp_path / "o", "--torch_dtype", "float32", "--adapters", tmp_path / "adapter"]
    for change, message in (({"boft_block_size": 8}, "shape"), ({"boft_block_size": "four"}, "boft_block_size"), ({"boft_block_size": 5}, "multiple"),
                         ({"target_modules": ["lm_head"]}, "lm_head"), ({"bias": "all"}, "bias"), ({"peft_type": "HRA"}, "HRA"),
                         ({"boft_block_num": 3}, "boft_block_num")):
        (tmp_path / "adapter/adapter_config.json").write_text(json.dumps({**config, **change}))
        done = run(*words, ok=False)
        assert done.returncode in (2, 4) and message in done.stderr, (change, done.stderr)
    (tmp_path / "adapter/adapter_config.json").write_text(json.dumps(config))
    tensors = load_file(tmp_path / "adapter/adapter_model.safetensors")
    tensors.pop("base_model.model.model.layers.0.self_attn.q_proj.boft_s")
    save_file(tensors, tmp_path / "adapter/adapter_model.safetensors")
    done = run(*words, ok=False)
    assert done.returncode == 4 and "layers.0.self_attn.q_proj.boft_s" in done.stderr
