"""Adapters in both directions and merging, against peft: the same logits from the same files."""
import itertools
import json

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          SeedOssConfig, SeedOssForCausalLM)

from tuner_testing import TOKENS, base_model, hone_outputs, peer_logits, run, spread

SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128)


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    made = {}
    for name, config, kind in (("untied", LlamaConfig(**SIZES, tie_word_embeddings=False), LlamaForCausalLM),
                               ("tied", Qwen2Config(**SIZES, tie_word_embeddings=True), Qwen2ForCausalLM),
                               ("gemma3", Gemma3TextConfig(**SIZES, head_dim=16, sliding_window=4, query_pre_attn_scalar=16), Gemma3ForCausalLM),
                               ("granite", GraniteConfig(**SIZES, tie_word_embeddings=True, residual_multiplier=0.4, embedding_multiplier=3.0, logits_scaling=2.0), GraniteForCausalLM),
                               ("seed_oss", SeedOssConfig(**SIZES, head_dim=16), SeedOssForCausalLM)):
        made[name] = tmp_path_factory.mktemp(name)
        spread(kind(config), 7).save_pretrained(made[name])
        (made[name] / "tokenizer_config.json").write_text("{}")
    return made


def hone_logits(*words):
    return hone_outputs(*words)["logits"]


def randomise_adapter(model, seed):
    """A fresh adapter changes nothing: give every trained tensor some value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator) * 0.1
                parameter.copy_(parameter + noise if "magnitude" in name or "modules_to_save" in name or "bias" in name else noise)


ADAPTERS = {
    "plain": dict(target_modules="all-linear"),
    "names": dict(target_modules=["q_proj", "v_proj"], lora_alpha=3),
    "regex": dict(target_modules=r".*\.1\..*(up|down)_proj"),
    "rslora": dict(target_modules=["o_proj", "gate_proj"], use_rslora=True),
    "dora": dict(target_modules="all-linear", use_dora=True),
    "patterns": dict(target_modules=["q_proj", "down_proj"], rank_pattern={"down_proj": 2, r"layers\.1\.self_attn\.q_proj": 6}, alpha_pattern={"q_proj": 5}),
    "layers": dict(target_modules=["q_proj", "up_proj"], layers_to_transform=[0, 2], exclude_modules=["layers.2.mlp.up_proj"]),
    "saved": dict(target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"]),
    "saved embedding": dict(target_modules=["q_proj"], modules_to_save=["embed_tokens"]),
    "saved norms": dict(target_modules=["q_proj"], modules_to_save=["norm"]),
    "embedding": dict(target_modules=["embed_tokens", "k_proj"]),
    "head": dict(target_modules=["lm_head", "k_proj"]),
    "bias": dict(target_modules=["q_proj", "v_proj"], bias="all"),
    "bias of targets": dict(target_modules=["q_proj", "v_proj"], bias="lora_only"),
    "pissa": dict(target_modules=["q_proj", "down_proj"], init_lora_weights="pissa"),
    "olora": dict(target_modules=["q_proj", "down_proj"], init_lora_weights="olora"),
}


def make_adapter(base, folder, settings, seed=0):
    model = get_peft_model(base_model(base), LoraConfig(**{"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "task_type": "CAUSAL_LM", **settings})).eval()
    randomise_adapter(model, seed)
    model.save_pretrained(folder, save_embedding_layers=False)
    return model


@pytest.mark.parametrize("case, base", [*itertools.product(ADAPTERS, ["untied", "tied"]), *((case, "gemma3") for case in ("plain", "dora", "saved norms", "embedding")),
                                        ("plain", "granite"), ("plain", "seed_oss")])
def test_adapter_of_peft_gives_the_same_logits_here(tmp_path, bases, case, base):
    peer = make_adapter(bases[base], tmp_path / "adapter", ADAPTERS[case])
    ours = hone_logits(tmp_path, bases[base], "--adapters", tmp_path / "adapter")
    assert (ours - peer_logits(base_model(bases[base]))).abs().max() > 1e-2, "the adapter must matter"
    torch.testing.assert_close(ours, peer_logits(peer), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case, base", [*itertools.product([c for c in ADAPTERS if c not in ("pissa", "olora")], ["untied", "tied"]), *(("plain", base) for base in ("gemma3", "granite", "seed_oss")),
                                        ("embedding", "gemma3")])
def test_adapter_of_hone_gives_the_same_logits_in_peft(tmp_path, bases, case, base):
    settings = {"r": 4, "lora_alpha": 8, "init_lora_weights": False, **ADAPTERS[case], "peft_type": "LORA", "task_type": "CAUSAL_LM"}
    if settings["target_modules"] == "all-linear":
        settings["target_modules"] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    (tmp_path / "new.json").write_text(json.dumps(settings))
    ours = hone_logits(tmp_path, bases[base], "--new_adapter", tmp_path / "new.json", "--save_adapter", tmp_path / "adapter")
    theirs = PeftModel.from_pretrained(base_model(bases[base]), tmp_path / "adapter").eval()
    assert (ours - peer_logits(base_model(bases[base]))).abs().max() > 1e-2
    torch.testing.assert_close(ours, peer_logits(theirs), rtol=1e-4, atol=1e-4)


def test_loss_counts_an_adapter_on_the_head(tmp_path, bases):
    peer = make_adapter(bases["untied"], tmp_path / "adapter", ADAPTERS["head"])
    hone_logits(tmp_path, bases["untied"], "--adapters", tmp_path / "adapter")
    ours = load_file(tmp_path / "logits.safetensors")["loss"]
    with torch.no_grad():
        expected = sum(peer(input_ids=torch.tensor([row]), labels=torch.tensor([row])).loss * (len(row) - 1) for row in TOKENS)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("init", ["pissa", "olora"])
def test_start_from_the_base_weight_equals_peft(tmp_path, bases, init):
    settings = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"], "init_lora_weights": init, "peft_type": "LORA"}
    (tmp_path / "new.json").write_text(json.dumps(settings))
    ours = hone_logits(tmp_path, bases["untied"], "--new_adapter", tmp_path / "new.json", "--save_adapter", tmp_path / "adapter")
    torch.testing.assert_close(ours, peer_logits(base_model(bases["untied"])), rtol=1e-4, atol=1e-4)
    peer = get_peft_model(base_model(bases["untied"]), LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], init_lora_weights=init))
    mine = load_file(tmp_path / "adapter/adapter_model.safetensors")
    for path in ("model.layers.0.self_attn.q_proj", "model.layers.2.mlp.down_proj"):
        layer = peer.base_model.model.get_submodule(path)
        product = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
        ours = mine[f"base_model.model.{path}.lora_B.weight"] @ mine[f"base_model.model.{path}.lora_A.weight"]
        torch.testing.assert_close(ours, product.detach(), rtol=1e-4, atol=1e-5)


def test_fresh_adapter_is_drawn_from_pefts_distribution(tmp_path, bases):
    settings = {"r": 16, "lora_alpha": 8, "target_modules": ["down_proj", "q_proj"], "peft_type": "LORA"}
    (tmp_path / "new.json").write_text(json.dumps(settings))
    hone_logits(tmp_path, bases["untied"], "--new_adapter", tmp_path / "new.json", "--save_adapter", tmp_path / "adapter")
    mine = load_file(tmp_path / "adapter/adapter_model.safetensors")
    for name, tensor in mine.items():
        if "lora_B" in name:
            assert tensor.abs().max() == 0
        else:
            bound = tensor.shape[1] ** -0.5
            assert 0.9 * bound < tensor.abs().max() <= bound
            assert tensor.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    drawn = [tensor.flatten()[:64] for name, tensor in mine.items() if "lora_A" in name]
    assert not torch.equal(drawn[0], drawn[1])


def test_several_adapters_add_up(tmp_path, bases):
    make_adapter(bases["untied"], tmp_path / "one", ADAPTERS["plain"], 1)
    make_adapter(bases["untied"], tmp_path / "two", ADAPTERS["names"], 2)
    peer = PeftModel.from_pretrained(base_model(bases["untied"]), tmp_path / "one", adapter_name="one")
    peer.load_adapter(tmp_path / "two", adapter_name="two")
    peer.base_model.set_adapter(["one", "two"])
    ours = hone_logits(tmp_path, bases["untied"], "--adapters", tmp_path / "one", tmp_path / "two")
    torch.testing.assert_close(ours, peer_logits(peer.eval()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("base", ["untied", "tied"])
@pytest.mark.parametrize("case", ADAPTERS)
def test_merged_folder_gives_the_logits_of_the_adapted_model(tmp_path, bases, case, base):
    peer = make_adapter(bases[base], tmp_path / "adapter", ADAPTERS[case])
    run("export", "--model", bases[base], "--adapters", tmp_path / "adapter", "--merge_lora", "true", "--max_shard_size", "20KB")
    merged = tmp_path / "adapter-merged"
    assert (merged / "model.safetensors.index.json").exists() and (merged / "tokenizer_config.json").exists()
    expected = peer_logits(peer)
    torch.testing.assert_close(peer_logits(base_model(merged)), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(hone_logits(tmp_path, merged), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("case", ["plain", "dora", "rslora", "saved"])
def test_merged_weights_equal_merge_and_unload(tmp_path, bases, case):
    peer = make_adapter(bases["untied"], tmp_path / "adapter", ADAPTERS[case])
    run("export", "--model", bases["untied"], "--adapters", tmp_path / "adapter", "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    expected = peer.merge_and_unload().state_dict()
    ours = load_file(tmp_path / "merged/model.safetensors")
    assert ours.keys() == expected.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], expected[name], rtol=1e-5, atol=1e-5, msg=lambda m: f"{name}: {m}")


def test_merge_in_bfloat16_rounds_once_and_says_so_in_the_config(tmp_path, bases):
    peer = make_adapter(bases["untied"], tmp_path / "adapter", ADAPTERS["plain"])
    run("export", "--model", bases["untied"], "--adapters", tmp_path / "adapter", "--merge_lora", "true", "--torch_dtype", "bfloat16",
        "--output_dir", tmp_path / "merged")
    expected = peer.merge_and_unload().state_dict()
    ours = load_file(tmp_path / "merged/model.safetensors")
    for name in ours:
        assert ours[name].dtype == torch.bfloat16
        torch.testing.assert_close(ours[name].float(), expected[name], rtol=2**-8, atol=1e-6)
    config = json.loads((tmp_path / "merged/config.json").read_text())
    assert config.get("dtype", config.get("torch_dtype")) == "bfloat16"


def test_merge_refuses_another_base_and_an_existing_folder(tmp_path, bases):
    make_adapter(bases["untied"], tmp_path / "adapter", ADAPTERS["plain"])
    wide = LlamaForCausalLM(LlamaConfig(**{**SIZES, "intermediate_size": 64}))
    wide.save_pretrained(tmp_path / "wide")
    done = run("export", "--model", tmp_path / "wide", "--adapters", tmp_path / "adapter", "--merge_lora", "true", ok=False)
    assert done.returncode == 4 and "mlp" in done.stderr and "another base" in done.stderr
    shallow = LlamaForCausalLM(LlamaConfig(**{**SIZES, "num_hidden_layers": 2}))
    shallow.save_pretrained(tmp_path / "shallow")
    done = run("export", "--model", tmp_path / "shallow", "--adapters", tmp_path / "adapter", "--merge_lora", "true", ok=False)
    assert done.returncode == 4 and "model.layers.2" in done.stderr
    assert not list(tmp_path.glob("adapter-merged*"))
    words = ["export", "--model", bases["untied"], "--adapters", tmp_path / "adapter", "--merge_lora", "true"]
    run(*words)
    assert run(*words, ok=False).returncode == 2
    run(*words, "--exist_ok", "true")


def test_merge_into_a_folder_keeps_what_is_not_its_own(tmp_path, bases):
    make_adapter(bases["untied"], tmp_path / "adapter", ADAPTERS["plain"])
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("precious")
    (out / "model-00001-of-00002.safetensors").write_bytes(b"an older model's")
    words = ["export", "--model", bases["untied"], "--adapters", tmp_path / "adapter", "--merge_lora", "true", "--exist_ok", "true", "--output_dir"]
    run(*words, out)
    assert (out / "notes.txt").read_text() == "precious"
    assert [path.name for path in out.glob("*.safetensors")] == ["model.safetensors"]
    assert not list(tmp_path.glob("*.partial*"))
    before = (bases["untied"] / "model.safetensors").read_bytes()
    for source in (bases["untied"], tmp_path / "adapter"):
        done = run(*words, source, ok=False)
        assert done.returncode == 2 and "reads from" in done.stderr
    assert (bases["untied"] / "model.safetensors").read_bytes() == before


def test_damaged_or_foreign_adapters_are_named(tmp_path, bases):
    make_adapter(bases["untied"], tmp_path / "adapter", ADAPTERS["names"])
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    (tmp_path / "tokens.json").write_text(json.dumps({"sequences": TOKENS}))
    words = ["logits", "--model", bases["untied"], "--input", tmp_path / "tokens.json", "--output", tmp_path / "o", "--torch_dtype", "float32",
             "--adapters", tmp_path / "adapter"]
    for change, message in (({"peft_type": "IA3"}, "IA3"), ({"r": 5}, "rank 5"), ({"use_dora": True}, "magnitude"), ({"r": -1}, "positive rank"),
                         ({"lora_bias": True}, "lora_bias"), ({"rank_pattern": [1]}, "rank_pattern")):
        (tmp_path / "adapter/adapter_config.json").write_text(json.dumps({**config, **change}))
        done = run(*words, ok=False)
        assert done.returncode == 4 and message in done.stderr, done.stderr
    (tmp_path / "adapter/adapter_config.json").write_text("{")
    assert run(*words, ok=False).returncode == 4
    (tmp_path / "adapter/adapter_config.json").write_text(json.dumps(config))
    tensors = load_file(tmp_path / "adapter/adapter_model.safetensors")
    tensors.pop("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight")
    save_file(tensors, tmp_path / "adapter/adapter_model.safetensors")
    done = run(*words, ok=False)
    assert done.returncode == 4 and "layers.0.self_attn.q_proj" in done.stderr
