"""Omni thinkers against transformers on random weights: logits, loss and the gradient of every parameter."""
import json
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file

from media_runs import HONE
from omni_models import hub_names, thinker_of, write_omni_model

# A sample is a list of media: frames of an audio, or the grid of an image.
SAMPLES = {"audio": [[99], [100], [200], [451, 101]], "mixed": [[250, (1, 4, 6)], [], [(1, 6, 4), 333, (1, 2, 4)]]}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    made = {}

    def make(family):
        if family not in made:
            made[family] = write_omni_model(tmp_path_factory.mktemp(family), family)
        return made[family]

    return make


def tokens_of(frames, family):
    if family == "qwen2_5_omni":
        return ((frames - 1) // 2 + 1 - 2) // 2 + 1
    rest = frames % 100
    return frames // 100 * 13 + (((rest - 1) // 2 + 1 - 1) // 2 + 1 - 1) // 2 + 1 if rest else frames // 100 * 13


def batch_of(samples, config, family):
    """Each sample is text, its media one after the other with text between them, and text."""
    generator = torch.Generator().manual_seed(0)
    words = lambda n: torch.randint(200, (n,), generator=generator).tolist()
    sequences, labels, media = [], [], []
    for sample in samples:
        ids, wanted = words(3), [-100] * 3
        for medium in sample:
            if isinstance(medium, int):
                ids += [config.audio_start_token_id] + [config.audio_token_id] * tokens_of(medium, family) + [config.audio_end_token_id]
                media.append(torch.randn(medium, 128, generator=generator))
            else:
                ids += [config.vision_start_token_id] + [config.image_token_id] * (medium[1] * medium[2] // 4) + [config.vision_end_token_id]
                media.append(torch.randn(medium[1] * medium[2], 1176 if family == "qwen2_5_omni" else 1536, generator=generator))
            wanted += [-100] * (len(ids) - len(wanted))
            text = words(4)
            ids, wanted = ids + text, wanted + text
        sequences.append(ids), labels.append(wanted)
    return sequences, labels, media


def inputs_of(sample, own, ids):
    """A sample's media as transformers takes them."""
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    audios = [value for medium, value in zip(sample, own) if isinstance(medium, int)]
    if audios:
        longest = max(len(audio) for audio in audios)
        inputs["input_features"] = torch.stack([torch.nn.functional.pad(audio, (0, 0, 0, longest - len(audio))) for audio in audios]).transpose(1, 2)
        inputs["feature_attention_mask"] = torch.stack([(torch.arange(longest) < len(audio)).long() for audio in audios])
    grids = [medium for medium in sample if not isinstance(medium, int)]
    if grids:
        inputs["pixel_values"] = torch.cat([value for medium, value in zip(sample, own) if not isinstance(medium, int)])
        inputs["image_grid_thw"] = torch.tensor(grids)
    return inputs


def ask_transformers(folder, samples, sequences, labels, media):
    model = thinker_of(folder)
    logits, positions, loss, at = [], [], torch.zeros(()), 0
    for sample, ids, wanted in zip(samples, sequences, labels):
        inputs = inputs_of(sample, media[at:at + len(sample)], ids)
        at += len(sample)
        lengths = inputs["feature_attention_mask"].sum(-1) if "feature_attention_mask" in inputs else None
        own, _ = model.get_rope_index(inputs["input_ids"], inputs.get("image_grid_thw"), None, inputs["attention_mask"], False, lengths, None)
        positions.append(own[:, 0].long())
        one = model(**inputs).logits[0]
        logits.append(one.detach())
        loss = loss + torch.nn.functional.cross_entropy(one[:-1], torch.tensor(wanted[1:]), reduction="sum", ignore_index=-100)
    loss.backward()
    return torch.cat(logits), torch.cat(positions, 1), loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def ask_hone(folder, out, samples, sequences, labels, media, positions, config, recompute):
    flat = [token for ids in sequences for token in ids]
    rows = lambda token: [i for i, found in enumerate(flat) if found == token]
    kinds = [medium for sample in samples for medium in sample]
    frames = [value for medium, value in zip(kinds, media) if isinstance(medium, int)]
    patches = [value for medium, value in zip(kinds, media) if not isinstance(medium, int)]
    save_file({"frames": torch.cat(frames), **({"patches": torch.cat(patches)} if patches else {})}, out / "media.safetensors")
    asked = {"sequences": sequences, "labels": labels,
             "audio": {"frames": str(out / "media.safetensors"), "lengths": [len(one) for one in frames], "rows": rows(config.audio_token_id)}}
    if patches:
        asked["images"] = {"patches": str(out / "media.safetensors"), "grids": [m for m in kinds if not isinstance(m, int)],
                           "rows": rows(config.image_token_id), "positions": positions.tolist()}
    (out / "input.json").write_text(json.dumps(asked))
    subprocess.run([HONE, "logits", "--model", folder, "--input", out / "input.json", "--output", out / "out.safetensors", "--grads", "true",
                    "--recompute", str(recompute).lower()], check=True)
    return load_file(out / "out.safetensors")


def difference(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-12)).item()


def stacked(gradients):
    """hone's names of gradients: experts stay stacked."""
    return {next(iter(hub_names({name: value}))) if ".experts." not in name else "thinker." + name.replace("model.language_model.", "model."): value
            for name, value in gradients.items()}


@pytest.mark.parametrize("samples,recompute", [("audio", False), ("mixed", False), ("mixed", True)])
@pytest.mark.parametrize("family", ["qwen2_5_omni", "qwen3_omni_moe"])
def test_logits_loss_and_gradients_match(folders, tmp_path, family, samples, recompute):
    folder, samples = folders(family), SAMPLES[samples]
    config = thinker_of(folder).config
    sequences, labels, media = batch_of(samples, config, family)
    logits, positions, loss, gradients = ask_transformers(folder, samples, sequences, labels, media)
    gradients = stacked(gradients)
    ours = ask_hone(folder, tmp_path, samples, sequences, labels, media, positions, config, recompute)
    assert difference(ours["logits"], logits) < 1e-5
    assert abs(ours["loss"].item() - loss.item()) <= 1e-5 * abs(loss.item())
    seen = {name.removeprefix("grad.") for name in ours if name.startswith("grad.")}
    assert set(gradients) <= seen and all("visual" in name for name in seen - set(gradients))  # a tower without images has none
    for name in gradients:
        if "audio_tower" in name and name.endswith("k_proj.bias"):  # without rotations it moves all scores of a query alike, which softmax does not see
            assert max(ours["grad." + name].abs().max(), gradients[name].abs().max()) < 1e-4, name
            continue
        assert difference(ours["grad." + name], gradients[name]) < 2e-5, name
