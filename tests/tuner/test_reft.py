"""ReFT: the six interventions as pyreft publishes them, written in torch on transformers' model, against hone's logits and gradients."""
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils import parametrizations
from transformers import Qwen2Config, Qwen2ForCausalLM

from tuner_testing import TOKENS, base_model, hone_outputs, peer_logits, run, spread

WIDTH, RANK, LAYERS = 32, 3, 3
SIZES = dict(vocab_size=96, hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128)
KINDS = ["Loreft", "Noreft", "Consreft", "Lobireft", "Direft", "Nodireft"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    spread(Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=False)), 7).save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text("{}")
    return folder


def all_columns(reflectors):
    """The whole orthogonal matrix that hone keeps as a few reflections."""
    whole = torch.eye(WIDTH, dtype=torch.float64)
    for vector in reflectors.double().T:
        whole = whole @ (torch.eye(WIDTH, dtype=torch.float64) - 2 * torch.outer(vector, vector) / vector.dot(vector))
    return whole.float()


class Intervention(torch.nn.Module):
    """h + P^T (act(W h + b) - P h) and what is left of it in the other kinds."""

    def __init__(self, kind, tensors, act):
        super().__init__()
        self.kind, self.act = kind, act
        if "rotate_layer.turn" in tensors:
            self.rotate = parametrizations.orthogonal(torch.nn.Linear(WIDTH, RANK, bias=False).requires_grad_(True), use_trivialization=True)
            # torch turns wide matrices round: its parameter is the transposed of pyreft's, whose columns are orthonormal
            parametrization = self.rotate.parametrizations.weight
            parametrization[0].base = all_columns(tensors["rotate_layer.start"])
            with torch.no_grad():
                turn = tensors["rotate_layer.turn"].clone()
                turn.diagonal().fill_(-1.0)
                parametrization.original.copy_(turn.T)
            self.turn = parametrization.original
        else:
            self.weight = torch.nn.Parameter(tensors["proj_layer.weight"])
            self.bias = torch.nn.Parameter(tensors["proj_layer.bias"]) if "proj_layer.bias" in tensors else None
        if "learned_source" in tensors:
            self.source = torch.nn.Parameter(tensors["learned_source"])
        else:
            self.source = torch.nn.Linear(WIDTH, RANK)
            self.source.load_state_dict({"weight": tensors["learned_source.weight"], "bias": tensors["learned_source.bias"]})

    def forward(self, h):
        basis = self.rotate.weight if hasattr(self, "rotate") else self.weight
        wanted = self.act(self.source(h)) if isinstance(self.source, torch.nn.Linear) else self.source
        if self.kind in ("Loreft", "Noreft", "Consreft"):
            wanted = wanted - torch.nn.functional.linear(h, basis, getattr(self, "bias", None))
        return h + wanted @ basis

    def gradients(self):
        found = {}
        if hasattr(self, "rotate"):
            found["rotate_layer.turn"] = self.turn.grad.T.tril(-1)
        else:
            found["proj_layer.weight"] = self.weight.grad
            if self.bias is not None and self.kind == "Noreft":
                found["proj_layer.bias"] = self.bias.grad
        if isinstance(self.source, torch.nn.Linear):
            found |= {"learned_source.weight": self.source.weight.grad, "learned_source.bias": self.source.bias.grad}
        else:
            found["learned_source"] = self.source.grad
        return found


def with_interventions(base, kind, tensors, act, layers):
    model = base_model(base)
    placed = {}
    for number in layers:
        prefix = f"model.layers.{number}."
        placed[number] = Intervention(kind, {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}, act)
        model.model.layers[number].register_forward_hook(lambda module, args, out, own=placed[number]: own(out))
    return model, placed


def fresh_adapter(folder, base, kind, layers=None, **args):
    own = {"swift_type": "REFT", "r": RANK, "intervention_type": kind + "Intervention", "args": args or None,
           "target_modules": r"model\.layers\.\d+" if layers is None else rf"model\.layers\.({'|'.join(map(str, layers))})"}
    (folder / "new.json").write_text(json.dumps(own))
    ours = hone_outputs(folder, base, "--new_adapter", folder / "new.json", "--save_adapter", folder / "fresh")["logits"]
    return ours, load_file(folder / "fresh/default/adapter_model.safetensors")


@pytest.mark.parametrize("kind", KINDS)
def test_same_as_published(tmp_path, base, kind):
    layers = [0, 2] if kind == "Direft" else range(LAYERS)
    act, args = (torch.nn.functional.silu, {"act_fn": "silu", "add_bias": False}) if kind == "Nodireft" else (lambda x: x, {})
    ours, tensors = fresh_adapter(tmp_path, base, kind, layers, **args)
    assert {name.split(".")[2] for name in tensors} == set(map(str, layers))
    assert (ours - peer_logits(base_model(base))).abs().max() > 1e-3, "the adapter must matter"
    torch.testing.assert_close(ours, peer_logits(with_interventions(base, kind, tensors, act, layers)[0]), rtol=1e-4, atol=1e-4)

    generator = torch.Generator().manual_seed(1)
    for name, value in tensors.items():
        if not name.endswith("start"):
            noise = torch.randn(value.shape, generator=generator) * 0.3
            tensors[name] = noise.tril(-1) if name.endswith("turn") else noise
    save_file(tensors, tmp_path / "fresh/default/adapter_model.safetensors")
    peer, placed = with_interventions(base, kind, tensors, act, layers)
    ours = hone_outputs(tmp_path, base, "--adapters", tmp_path / "fresh", "--grads", "true")
    torch.testing.assert_close(ours["logits"], peer_logits(peer), rtol=1e-4, atol=1e-4)
    for row in TOKENS:
        ids = torch.tensor([row])
        (peer(input_ids=ids, labels=ids).loss * (len(row) - 1)).backward()
    for number, intervention in placed.items():
        for name, gradient in intervention.gradients().items():
            head, _, tail = name.partition(".")
            mine = ours[f"grad.model.layers.{number}.mlp.down_proj.{head}.adapter0{'.' + tail if tail else ''}"]
            assert gradient.abs().max() > 1e-5
            torch.testing.assert_close(mine, gradient, rtol=1e-3, atol=1e-4, msg=lambda m: f"{number} {name}: {m}")


def test_first_subspaces_are_orthonormal_and_differ(tmp_path, base):
    _, tensors = fresh_adapter(tmp_path, base, "Loreft")
    frames = [all_columns(tensors[f"model.layers.{number}.rotate_layer.start"])[:, :RANK] for number in range(LAYERS)]
    for frame in frames:
        torch.testing.assert_close(frame.T @ frame, torch.eye(RANK), rtol=0, atol=1e-5)
    assert (frames[0] - frames[1]).abs().max() > 0.05


def test_what_does_not_fit_is_named(tmp_path, base):
    fresh_adapter(tmp_path, base, "Loreft")
    (tmp_path / "swift/reft").mkdir(parents=True)
    (tmp_path / "swift/reft/adapter_config.json").write_text("{}")
    done = run("export", "--model", base, "--adapters", tmp_path / "swift", "--merge_lora", "true", "--output_dir", tmp_path / "merged", ok=False)
    assert done.returncode == 4 and "pickles" in done.stderr
    done = run("export", "--model", base, "--adapters", tmp_path / "fresh", "--merge_lora", "true", "--output_dir", tmp_path / "merged", ok=False)
    assert done.returncode == 2 and "cannot be merged" in done.stderr
    config = json.loads((tmp_path / "fresh/default/adapter_config.json").read_text())
    words = ["logits", "--model", base, "--input", tmp_path / "tokens.json", "--output", tmp_path / "o", "--torch_dtype", "float32", "--adapters", tmp_path / "fresh"]
    for change, message in (({"r": WIDTH}, "reft_rank"), ({"intervention_type": "Reft"}, "NoreftIntervention"), ({"args": {"dropout": 2}}, "dropout"),
                         ({"args": {"act_fn": "no"}}, "act_fn"), ({"args": {"rank": 2}}, "rank"), ({"args": [1]}, "reft_args"), ({"r": RANK + 1}, "shape")):
        (tmp_path / "fresh/default/adapter_config.json").write_text(json.dumps({**config, **change}))
        done = run(*words, ok=False)
        assert done.returncode in (2, 4) and message in done.stderr, (change, done.stderr)
