"""Qwen2-VL and Qwen2.5-VL against transformers on random weights: logits, loss and the gradient of every parameter."""
import json
import os
import subprocess

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from vision_models import ROOT, TOWERS, write_vision_model

HONE = os.environ.get("HONE_BIN", str(ROOT / "build" / "bin" / "hone"))
GRIDS = {"one": [[(1, 4, 6)]], "odd": [[(1, 10, 6)]], "two": [[(1, 6, 4), (1, 2, 8)]], "packed": [[(1, 4, 4)], [], [(1, 10, 6), (1, 6, 10)]]}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    made = {}

    def make(family):
        if family not in made:
            made[family] = write_vision_model(tmp_path_factory.mktemp(family), family, tie=family == "qwen2_vl")
        return made[family]

    return make


def batch_of(samples, config, seed=0):
    """Each sample is text, its images one after the other with text between them, and text."""
    generator = torch.Generator().manual_seed(seed)
    words = lambda n: torch.randint(200, (n,), generator=generator).tolist()
    sequences, labels = [], []
    for grids in samples:
        ids, wanted = words(3), [-100] * 3
        for frames, height, width in grids:
            ids += [config.vision_start_token_id] + [config.image_token_id] * (frames * height * width // 4) + [config.vision_end_token_id]
            wanted += [-100] * (len(ids) - len(wanted))
            text = words(4)
            ids, wanted = ids + text, wanted + text
        sequences.append(ids), labels.append(wanted + [-100] * (len(ids) - len(wanted)))
    patches = [torch.randn(t * h * w, 1176, generator=generator) for grids in samples for t, h, w in grids]
    return sequences, labels, patches


def ask_transformers(folder, samples, sequences, labels, patches):
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    logits, positions, loss, next_image = [], [], torch.zeros(()), 0
    for grids, ids, wanted in zip(samples, sequences, labels):
        inputs = {"input_ids": torch.tensor([ids])}
        kinds = (inputs["input_ids"] == model.config.image_token_id).int()
        images = {}
        if grids:
            images = {"pixel_values": torch.cat(patches[next_image:next_image + len(grids)]), "image_grid_thw": torch.tensor(grids)}
            next_image += len(grids)
        own, _ = model.model.get_rope_index(inputs["input_ids"], mm_token_type_ids=kinds, image_grid_thw=images.get("image_grid_thw"))
        positions.append(own[-3:, 0])
        one = model(**inputs, **images, mm_token_type_ids=kinds).logits[0]
        logits.append(one.detach())
        loss = loss + torch.nn.functional.cross_entropy(one[:-1], torch.tensor(wanted[1:]), reduction="sum", ignore_index=-100)
    loss.backward()
    return torch.cat(logits), torch.cat(positions, 1), loss.detach(), {n: p.grad for n, p in model.named_parameters()}


def ask_hone(folder, out, sequences, labels, samples, patches, positions, image_token, **options):
    save_file({"patches": torch.cat(patches)}, out / "patches.safetensors")
    flat = [token for ids in sequences for token in ids]
    (out / "input.json").write_text(json.dumps({
        "sequences": sequences, "labels": labels,
        "images": {"patches": str(out / "patches.safetensors"), "grids": [g for grids in samples for g in grids], "positions": positions.tolist(),
                   "rows": [i for i, token in enumerate(flat) if token == image_token]}}))
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value).lower())]
    subprocess.run([HONE, "logits", "--model", folder, "--input", out / "input.json", "--output", out / "out.safetensors", *flags], check=True)
    return load_file(out / "out.safetensors")


def difference(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-12)).item()


@pytest.mark.parametrize("grids,recompute", [*((name, False) for name in GRIDS), ("packed", True)])
@pytest.mark.parametrize("family", TOWERS)
def test_logits_loss_and_gradients_match(folders, tmp_path, family, grids, recompute):
    folder, samples = folders(family), GRIDS[grids]
    config = transformers.AutoConfig.from_pretrained(folder)
    sequences, labels, patches = batch_of(samples, config)
    logits, positions, loss, gradients = ask_transformers(folder, samples, sequences, labels, patches)
    ours = ask_hone(folder, tmp_path, sequences, labels, samples, patches, positions, config.image_token_id, grads=True, recompute=recompute)
    assert difference(ours["logits"], logits) < 1e-5
    assert abs(ours["loss"].item() - loss.item()) <= 1e-5 * abs(loss.item())
    seen = {name.removeprefix("grad.") for name in ours if name.startswith("grad.")}
    assert seen == set(gradients) - ({"lm_head.weight"} if config.tie_word_embeddings else set())
    for name in seen:
        assert difference(ours["grad." + name], gradients[name]) < 2e-5, name
