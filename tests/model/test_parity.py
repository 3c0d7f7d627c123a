"""Logits, losses and gradients of every family against transformers, on random weights in real block shapes."""
import json
import os
import pathlib
import subprocess

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny_models import make_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
HONE = os.environ.get("HONE_BIN", str(ROOT / "build" / "bin" / "hone"))

LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}
LINEAR_ATTENTION = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
VARIANTS = {  # name: family, further fields of config.json
    "qwen2": ("qwen2", {}),
    "qwen2-window": ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    "qwen2-yarn": ("qwen2", {"max_position_embeddings": 256, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 64}}),
    "qwen3": ("qwen3", {}),
    "qwen3-listed": ("qwen3", {"use_sliding_window": True, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "llama3": ("llama3", {}),
    "llama3.1": ("llama3", {"rope_parameters": LLAMA3_ROPE}),
    "llama3-biased": ("llama3", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "llama-linear": ("llama3", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}),
    "llama-dynamic": ("llama3", {"max_position_embeddings": 64, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}}),
    "mistral": ("mistral", {"sliding_window": 8}),
    "mistral-full": ("mistral", {"sliding_window": None}),
    "qwen2-moe": ("qwen2_moe", {}),
    "qwen2-moe-mixed": ("qwen2_moe", {"mlp_only_layers": [1], "use_sliding_window": True, "sliding_window": 8}),
    "qwen3-moe": ("qwen3_moe", {}),
    "qwen3-moe-mixed": ("qwen3_moe", {"decoder_sparse_step": 2, "norm_topk_prob": False, "use_sliding_window": True, "sliding_window": 8}),
    "mixtral": ("mixtral", {"sliding_window": 8}),
    "seed-oss": ("seed_oss", {}),
    "seed-oss-biased": ("seed_oss", {"attention_out_bias": True, "mlp_bias": True}),
    "granite": ("granite", {"embedding_multiplier": 12.0, "attention_multiplier": 0.1, "residual_multiplier": 0.3, "logits_scaling": 7.0}),
    "gemma3": ("gemma3", {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "qwen3-next": ("qwen3_next", {}),
    "qwen3-next-mixed": ("qwen3_next", {"mlp_only_layers": [1], "partial_rotary_factor": 0.5, "layer_types": ["linear_attention", "full_attention", "full_attention", "linear_attention"]}),
    "qwen3.5": ("qwen3_5", {}),
    "qwen3.5-moe": ("qwen3_5_moe", {}),
    "gemma3-scaled": ("gemma3", {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "query_pre_attn_scalar": 20, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}, "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}}}),
}


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    made = {}

    def make(variant, *arguments):
        key = (variant, *arguments)
        if key not in made:
            family, fields = VARIANTS[variant]
            made[key] = tmp_path_factory.mktemp(variant)
            make_model()(["--family", family, "--vocab", "small", "--config", json.dumps(fields), "--out", str(made[key]), *arguments])
            spread_parameters(made[key])
        return made[key]

    return make


def spread_parameters(folder):
    """Fresh models have unit norms and zero biases, which could hide a mistake."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            else:
                parameter.mul_(3)
    shards = len(list(folder.glob("*.safetensors")))
    model.save_pretrained(folder, max_shard_size="100KB" if shards > 1 else "5GB")


def random_batch(lengths, words, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sequences = [torch.randint(words, (n,), generator=generator).tolist() for n in lengths]
    labels = [[t if torch.rand((), generator=generator) < 0.6 else -100 for t in s] for s in sequences]
    return {"sequences": sequences, "labels": labels}


def ask_hone(folder, batch, out, **options):
    (out / "input.json").write_text(json.dumps(batch))
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value).lower())]
    subprocess.run([HONE, "logits", "--model", folder, "--input", out / "input.json", "--output", out / "out.safetensors", *flags], check=True)
    return load_file(out / "out.safetensors")


def ask_transformers(folder, batch, dtype, grads=False):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    logits, loss = [], torch.zeros(())
    with torch.set_grad_enabled(grads):
        for sequence, labels in zip(batch["sequences"], batch["labels"]):
            one = model(torch.tensor([sequence])).logits[0]
            logits.append(one.detach().float())
            loss = loss + torch.nn.functional.cross_entropy(one[:-1].float(), torch.tensor(labels[1:], dtype=torch.long), reduction="sum", ignore_index=-100)
    if grads:
        loss.backward()
    return torch.cat(logits), loss.detach(), {name: p.grad for name, p in model.named_parameters()}


def difference(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


@pytest.mark.parametrize("lengths", [[7], [1], [1, 33, 128]], ids=["one", "one-token", "packed"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_and_loss_match(model_dir, tmp_path, variant, lengths):
    folder = model_dir(variant)
    batch = random_batch(lengths, 256)
    ours = ask_hone(folder, batch, tmp_path)
    logits, loss, _ = ask_transformers(folder, batch, torch.float32)
    assert difference(ours["logits"], logits) < 1e-4
    assert abs(ours["loss"].item() - loss.item()) <= 1e-4 * abs(loss.item())


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("variant", ["qwen2", "qwen3", "llama3.1", "llama3-biased", "mistral", "qwen2-moe-mixed", "qwen3-moe", "mixtral", "seed-oss-biased", "gemma3", "gemma3-scaled", "granite", "qwen3-next-mixed", "qwen3.5", "qwen3.5-moe"])
def test_gradient_of_every_parameter_matches(model_dir, tmp_path, variant, recompute):
    folder = model_dir(variant)
    is_linear = VARIANTS[variant][0] in LINEAR_ATTENTION
    batch = random_batch([1, 19, 65, 200] if is_linear else [1, 19, 40], 256)  # linear attention: more than one chunk of 64
    ours = ask_hone(folder, batch, tmp_path, grads=True, recompute=recompute)
    _, _, grads = ask_transformers(folder, batch, torch.float32, grads=True)
    assert {name.removeprefix("grad.") for name in ours if name.startswith("grad.")} == set(grads)
    for name, grad in grads.items():
        if name.endswith(("A_log", "dt_bias")):  # sums of positions that nearly cancel: float64 differs as much from either
            assert (ours["grad." + name] - grad).abs().max() < 1e-4 * max(grad.abs().max(), 1), name
        assert difference(ours["grad." + name], grad) < (1e-2 if name.endswith(("A_log", "dt_bias")) else 1e-4), name


@pytest.mark.parametrize("variant", ["qwen2", "qwen3", "llama3.1", "mistral", "qwen2-moe-mixed", "qwen3-moe", "mixtral", "seed-oss-biased", "gemma3", "gemma3-scaled", "granite", "qwen3-next-mixed", "qwen3.5", "qwen3.5-moe"])
def test_cache_gives_the_same_logits(model_dir, tmp_path, variant):
    folder = model_dir(variant)
    batch = random_batch([5, 1, 31], 256)
    ours = ask_hone(folder, batch, tmp_path, cached=True)
    logits, _, _ = ask_transformers(folder, batch, torch.float32)
    assert difference(ours["logits"], logits) < 1e-4


@pytest.mark.parametrize("variant", ["qwen2", "qwen3", "llama3", "mistral", "gemma3", "granite"])
def test_bfloat16_is_as_close_as_transformers_is_to_itself(model_dir, tmp_path, variant):
    """Our bf16 logits may be no further from float32's than one and a half times transformers' own bf16 logits are."""
    folder = model_dir(variant)
    batch = random_batch([1, 33, 128], 256)
    exact, _, _ = ask_transformers(folder, batch, torch.float32)
    theirs, _, _ = ask_transformers(folder, batch, torch.bfloat16)
    ours = ask_hone(folder, batch, tmp_path, dtype="bfloat16")["logits"]
    bound = 1.5 * (theirs - exact).abs().mean()
    assert (ours - exact).abs().mean() < bound
    assert difference(ours, exact) < 0.05


def test_shards_and_stored_bfloat16_load(model_dir, tmp_path):
    folder = model_dir("qwen3", "--max-shard-size", "200KB", "--dtype", "bfloat16")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    batch = random_batch([9], 256)
    logits, _, _ = ask_transformers(folder, batch, torch.float32)
    assert difference(ask_hone(folder, batch, tmp_path, dtype="float32")["logits"], logits) < 1e-4


def test_damaged_weights_are_an_error_a_person_can_act_on(model_dir, tmp_path):
    folder = tmp_path / "damaged"
    folder.mkdir()
    source = model_dir("qwen2")
    (folder / "config.json").write_bytes((source / "config.json").read_bytes())
    (folder / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes()[:-1000])
    (tmp_path / "input.json").write_text('{"sequences": [[1, 2]]}')
    run = subprocess.run([HONE, "logits", "--model", folder, "--input", tmp_path / "input.json", "--output", tmp_path / "o.safetensors"],
                         capture_output=True, text=True)
    assert run.returncode == 4
    assert "model.safetensors" in run.stderr and "truncated" in run.stderr
