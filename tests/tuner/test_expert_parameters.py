"""LoRA on the stacked parameters of experts (target_parameters), in both directions against peft."""
import json

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, MixtralConfig, Qwen2MoeConfig, Qwen3MoeConfig

from tuner_testing import base_model, hone_outputs, peer_logits, run, spread

SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
             tie_word_embeddings=False, num_experts_per_tok=2)
CONFIGS = {
    "qwen2_moe": lambda: Qwen2MoeConfig(**SIZES, num_experts=5, moe_intermediate_size=24, shared_expert_intermediate_size=40),
    "qwen3_moe": lambda: Qwen3MoeConfig(**SIZES, head_dim=8, num_experts=5, moe_intermediate_size=24, norm_topk_prob=True),
    "mixtral": lambda: MixtralConfig(**SIZES, num_local_experts=3),
}
ADAPTERS = {
    "both": dict(target_modules=[], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]),
    "first": dict(target_modules=["q_proj"], target_parameters=["experts.gate_up_proj"]),
    "second and router": dict(target_modules=["o_proj"], target_parameters=["experts.down_proj", "mlp.gate.weight"]),
    "patterns": dict(target_modules=["v_proj"], target_parameters=["gate_up_proj", "experts.down_proj"], rank_pattern={r".*\.gate_up_proj": 4}, alpha_pattern={r".*\.gate_up_proj": 3},
                     use_rslora=True),
}


PAIRS = [("qwen2_moe", "both"), ("qwen3_moe", "both"), ("mixtral", "both"), ("mixtral", "first"), ("qwen3_moe", "second and router"), ("qwen2_moe", "patterns")]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    made = {}
    for name, config in CONFIGS.items():
        made[name] = tmp_path_factory.mktemp(name)
        spread(AutoModelForCausalLM.from_config(config()), 7).save_pretrained(made[name])
        (made[name] / "tokenizer_config.json").write_text("{}")
    return made


def make_adapter(base, folder, settings):
    model = get_peft_model(base_model(base), LoraConfig(**{"r": 2, "lora_alpha": 8, "task_type": "CAUSAL_LM", **settings})).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("base, case", PAIRS)
def test_adapter_of_peft_computes_and_merges_the_same_here(tmp_path, bases, case, base):
    peer = make_adapter(bases[base], tmp_path / "adapter", ADAPTERS[case])
    expected = peer_logits(peer)
    ours = hone_outputs(tmp_path, bases[base], "--adapters", tmp_path / "adapter")["logits"]
    assert (ours - peer_logits(base_model(bases[base]))).abs().max() > 1e-2, "the adapter must matter"
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    run("export", "--model", bases[base], "--adapters", tmp_path / "adapter", "--merge_lora", "true")
    merged = tmp_path / "adapter-merged"
    assert set(load_file(merged / "model.safetensors")) == set(load_file(bases[base] / "model.safetensors"))
    torch.testing.assert_close(peer_logits(base_model(merged)), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(hone_outputs(tmp_path, merged)["logits"], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("base, case", PAIRS)
def test_adapter_of_hone_gives_the_same_logits_in_peft(tmp_path, bases, case, base):
    settings = {"r": 2, "lora_alpha": 8, "init_lora_weights": False, **ADAPTERS[case], "peft_type": "LORA", "task_type": "CAUSAL_LM"}
    (tmp_path / "new.json").write_text(json.dumps(settings))
    ours = hone_outputs(tmp_path, bases[base], "--new_adapter", tmp_path / "new.json", "--save_adapter", tmp_path / "adapter")["logits"]
    theirs = PeftModel.from_pretrained(base_model(bases[base]), tmp_path / "adapter").eval()
    assert (ours - peer_logits(base_model(bases[base]))).abs().max() > 1e-2
    torch.testing.assert_close(ours, peer_logits(theirs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("base", ["qwen3_moe", "mixtral"])
def test_adapter_that_knows_experts_one_by_one(tmp_path, bases, base):
    """As transformers 4 had them: peft converts such files, and so does hone."""
    kinds, block = (("w1", "w3", "w2"), "block_sparse_moe") if base == "mixtral" else (("gate_proj", "up_proj", "down_proj"), "mlp")
    shapes = {name: tensor.shape for name, tensor in load_file(bases[base] / "model.safetensors").items()}
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for name, shape in shapes.items():
        if ".experts." in name or name.endswith((".gate.weight", "q_proj.weight")):
            module = "base_model.model." + name.removesuffix(".weight")
            tensors[module + ".lora_A.weight"] = torch.randn(2, shape[1], generator=generator) * 0.2
            tensors[module + ".lora_B.weight"] = torch.randn(shape[0], 2, generator=generator) * 0.2
    assert any(f"{block}.experts.0.{kinds[0]}.lora_A" in name for name in tensors)
    adapter = tmp_path / "adapter"
    LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj", "gate", *kinds], task_type="CAUSAL_LM").save_pretrained(adapter)
    save_file(tensors, adapter / "adapter_model.safetensors", {"format": "pt"})
    expected = peer_logits(PeftModel.from_pretrained(base_model(bases[base]), adapter).eval())
    torch.testing.assert_close(hone_outputs(tmp_path, bases[base], "--adapters", adapter)["logits"], expected, rtol=1e-4, atol=1e-4)
    run("export", "--model", bases[base], "--adapters", adapter, "--merge_lora", "true")
    torch.testing.assert_close(hone_outputs(tmp_path, tmp_path / "adapter-merged")["logits"], expected, rtol=1e-3, atol=1e-3)


def test_gradients_of_the_adapter_match(tmp_path, bases):
    peer = make_adapter(bases["qwen3_moe"], tmp_path / "adapter", ADAPTERS["second and router"])
    ours = hone_outputs(tmp_path, bases["qwen3_moe"], "--adapters", tmp_path / "adapter", "--grads", "true")
    tokens = json.loads((tmp_path / "tokens.json").read_text())["sequences"]
    loss = sum(peer(input_ids=torch.tensor([row]), labels=torch.tensor([row])).loss * (len(row) - 1) for row in tokens)
    loss.backward()
    compared = 0
    for name, parameter in peer.named_parameters():
        if "lora_" in name:
            mine = ours["grad." + name.removeprefix("base_model.model.").replace(".default.", ".adapter0.")]
            torch.testing.assert_close(mine, parameter.grad, rtol=1e-3, atol=1e-4)
            compared += 1
    assert compared == 2 * 2 * 3


@pytest.mark.parametrize("settings, words", [
    (dict(target_parameters=["experts.gate_up_proj"], lora_dropout=0.1), "--lora_dropout 0"),
    (dict(target_parameters=["experts.up_proj"]), "no parameter ends in"),
    (dict(target_parameters=["experts.down_proj"], use_dora=True), "use_dora"),
])
def test_what_parameters_cannot_have_is_reported(tmp_path, bases, settings, words):
    (tmp_path / "new.json").write_text(json.dumps({"r": 2, "peft_type": "LORA", "target_modules": ["q_proj"], **settings}))
    (tmp_path / "tokens.json").write_text(json.dumps({"sequences": [[1, 2, 3]]}))
    done = run("logits", "--model", bases["mixtral"], "--input", tmp_path / "tokens.json", "--output", tmp_path / "out.safetensors", "--new_adapter", tmp_path / "new.json", ok=False)
    assert done.returncode == 2 and words in done.stderr
