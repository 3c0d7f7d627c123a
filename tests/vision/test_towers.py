"""Vision models against transformers on random weights: logits, loss and the gradient of every parameter."""
import json
import shutil
import subprocess

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from media_runs import HONE
from vision_models import as_chat_model, as_hub_experts, chat_names

TILES = {"one": [[(1, 4, 4)]], "packed": [[(3, 4, 4)], [], [(1, 4, 4), (2, 4, 4)]]}  # InternVL's
SQUARES = {"one": [[(1, 4, 4)]], "packed": [[(1, 4, 4)], [], [(1, 4, 4), (1, 4, 4)]]}  # Gemma 3's
GRIDS = {"one": [[(1, 4, 6)]], "frames": [[(3, 4, 6)]], "odd": [[(1, 10, 6)]], "two": [[(1, 6, 4), (1, 2, 8)]], "packed": [[(1, 4, 4)], [], [(1, 10, 6), (1, 6, 10)]]}


def batch_of(samples, config, seed=0):
    """Each sample is text, its images one after the other with text between them, and text."""
    generator = torch.Generator().manual_seed(seed)
    words = lambda n: torch.randint(200, (n,), generator=generator).tolist()
    sequences, labels = [], []
    for grids in samples:
        ids, wanted = words(3), [-100] * 3
        for frames, height, width in grids:
            start, end = getattr(config, "vision_start_token_id", 201), getattr(config, "vision_end_token_id", 202)
            ids += [start] + [config.image_token_id] * (frames * height * width // 4) + [end]
            wanted += [-100] * (len(ids) - len(wanted))
            text = words(4)
            ids, wanted = ids + text, wanted + text
        sequences.append(ids), labels.append(wanted + [-100] * (len(ids) - len(wanted)))
    row = {"internvl": 588, "gemma3": 588, "qwen3_vl": 1536, "qwen3_vl_moe": 1536, "qwen3_5": 1536, "qwen3_5_moe": 1536}.get(config.model_type, 1176)
    patches = [torch.randn(t * h * w, row, generator=generator) for grids in samples for t, h, w in grids]
    return sequences, labels, patches


def as_tiles(rows):
    """Rows of patches, cell by cell, as the pictures of 56 x 56 that they were cut from."""
    return rows.view(-1, 2, 2, 2, 2, 3, 14, 14).permute(0, 5, 1, 3, 6, 2, 4, 7).reshape(-1, 3, 56, 56)


def ask_transformers(folder, samples, sequences, labels, patches):
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    logits, positions, loss, next_image = [], [], torch.zeros(()), 0
    squares, gemma = model.config.model_type in ("internvl", "gemma3"), model.config.model_type == "gemma3"
    for grids, ids, wanted in zip(samples, sequences, labels):
        inputs = {"input_ids": torch.tensor([ids])}
        kinds = (inputs["input_ids"] == model.config.image_token_id).int()
        if grids:
            rows = torch.cat(patches[next_image:next_image + len(grids)])
            inputs |= {"pixel_values": as_tiles(rows)} if squares else {"pixel_values": rows, "image_grid_thw": torch.tensor(grids)}
            next_image += len(grids)
        if gemma:
            inputs["token_type_ids"] = kinds
        if not squares:
            inputs["mm_token_type_ids"] = kinds
            own, _ = model.model.get_rope_index(inputs["input_ids"], mm_token_type_ids=kinds, image_grid_thw=inputs.get("image_grid_thw"))
            positions.append(own[-3:, 0])
        one = model(**inputs).logits[0]
        logits.append(one.detach())
        loss = loss + torch.nn.functional.cross_entropy(one[:-1], torch.tensor(wanted[1:]), reduction="sum", ignore_index=-100)
    loss.backward()
    return torch.cat(logits), torch.cat(positions, 1) if positions else None, loss.detach(), {n: p.grad for n, p in model.named_parameters()}


def ask_hone(folder, out, sequences, labels, samples, patches, positions, image_token, **options):
    save_file({"patches": torch.cat(patches)}, out / "patches.safetensors")
    flat = [token for ids in sequences for token in ids]
    (out / "input.json").write_text(json.dumps({
        "sequences": sequences, "labels": labels,
        "images": {"patches": str(out / "patches.safetensors"), "grids": [g for grids in samples for g in grids],
                   "rows": [i for i, token in enumerate(flat) if token == image_token], **({} if positions is None else {"positions": positions.tolist()})}}))
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value).lower())]
    subprocess.run([HONE, "logits", "--model", folder, "--input", out / "input.json", "--output", out / "out.safetensors", *flags], check=True)
    return load_file(out / "out.safetensors")


def difference(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-12)).item()


def compare(folder, asked, samples, out, recompute, renamed=lambda tensors: tensors, still=False):
    """`folder` read by hone against `asked` read by transformers, whose names `renamed` gives hone's. `still`: hone gets one of two equal frames."""
    config = transformers.AutoConfig.from_pretrained(asked)
    sequences, labels, patches = batch_of(samples, config)
    first = [rows.view(len(rows), 3, 2, -1)[:, :, :1] for rows in patches] if still else []
    patches = [rows.expand(-1, -1, 2, -1).flatten(1) for rows in first] or patches
    logits, positions, loss, gradients = ask_transformers(asked, samples, sequences, labels, patches)
    gradients = renamed(gradients)
    patches = [rows.flatten(1) for rows in first] or patches
    ours = ask_hone(folder, out, sequences, labels, samples, patches, positions, config.image_token_id, grads=True, recompute=recompute)
    assert difference(ours["logits"], logits) < 1e-5
    assert abs(ours["loss"].item() - loss.item()) <= 1e-5 * abs(loss.item())
    # Recurrences and routers amplify rounding: gradients of float64 are up to 2e-5 from transformers' float32 there, and 4e-6 from hone's.
    bound = 5e-5 if config.model_type.startswith("qwen3_5") else 2e-5
    seen = {name.removeprefix("grad.") for name in ours if name.startswith("grad.")}
    assert seen == set(gradients) - ({"lm_head.weight"} if config.tie_word_embeddings else set())
    for name in seen:
        if name.endswith("attention.k_proj.bias") or "vision_tower" in name and name.endswith("k_proj.bias"):  # it moves all scores of a query alike, which softmax does not see: what is left is rounding
            assert max(ours["grad." + name].abs().max(), gradients[name].abs().max()) < 1e-4, name
            continue
        if name.endswith(("A_log", "dt_bias", "in_proj_a.weight")):  # sums of positions that nearly cancel: float64 differs as much from either
            assert (ours["grad." + name] - gradients[name]).abs().max() < bound * max(gradients[name].abs().max(), 1), name
            continue
        assert difference(ours["grad." + name], gradients[name]) < bound, name


@pytest.mark.parametrize("grids,recompute", [*((name, False) for name in GRIDS), ("packed", True)])
@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe"])
def test_logits_loss_and_gradients_match(folders, tmp_path, family, grids, recompute):
    compare(folders(family), folders(family), GRIDS[grids], tmp_path, recompute, still=recompute)


@pytest.mark.parametrize("recompute", [False, True])
def test_experts_in_both_layouts(folders, tmp_path, recompute):
    """As transformers 5 writes them and as the hub has them."""
    folder = folders("qwen3_vl_moe")
    compare(folder, folder, GRIDS["packed"], tmp_path, recompute)
    hub = shutil.copytree(folder, tmp_path / "hub")
    as_hub_experts(hub)
    compare(hub, hub, GRIDS["packed"], tmp_path, recompute)


@pytest.mark.parametrize("tiles,recompute", [("one", False), ("packed", False), ("packed", True)])
def test_internvl_in_both_spellings(folders, tmp_path, tiles, recompute):
    folder = folders("internvl")
    compare(folder, folder, TILES[tiles], tmp_path, recompute)
    (tmp_path / "chat").mkdir()
    compare(as_chat_model(folder, tmp_path / "chat"), folder, TILES[tiles], tmp_path, recompute, renamed=chat_names)


@pytest.mark.parametrize("pictures,recompute", [("one", False), ("packed", False), ("packed", True)])
def test_gemma3_under_both_names_of_its_tower(folders, tmp_path, pictures, recompute):
    """As transformers 5 writes them and as the hub has them."""
    folder = folders("gemma3")
    compare(folder, folder, SQUARES[pictures], tmp_path, recompute)
    hub = shutil.copytree(folder, tmp_path / "hub")
    tensors = {name.replace("vision_tower.", "vision_tower.vision_model."): value for name, value in load_file(hub / "model.safetensors").items()}
    save_file(tensors, hub / "model.safetensors", {"format": "pt"})
    compare(hub, folder, SQUARES[pictures], tmp_path, recompute)
