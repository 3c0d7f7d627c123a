"""Outputs of frozen towers that are kept in files: the same losses with and without them, by several processes, with deepstack and with damaged files."""
import re
import subprocess

import numpy as np
import pytest
from PIL import Image

from media_runs import HONE, losses, sft, write_rows


@pytest.fixture(scope="module")
def made(folders, tmp_path_factory):
    """A model with deepstack, and rows of which one has two pictures and one none."""
    place, draw, rows = tmp_path_factory.mktemp("kept"), np.random.default_rng(0), []
    for i, count in enumerate((1, 2, 0, 1)):
        paths = [place / f"{i}-{k}.png" for k in range(count)]
        for path in paths:
            Image.fromarray(draw.integers(0, 256, (50 + 10 * i, 70, 3), dtype=np.uint8)).save(path)
        rows.append({"messages": [{"role": "user", "content": "<image>" * count + "?"}, {"role": "assistant", "content": "one two"}], "images": [str(path) for path in paths]})
    return folders("qwen3_vl"), write_rows(place / "rows.jsonl", rows), rows


def learn(made, out, *words, **variables):
    output = sft(made, out, "--tuner_type", "lora", "--num_train_epochs", 2, "--save_strategy", "no", "--gradient_accumulation_steps", 1, *words, **variables)
    return losses(out), re.search(r"(\d+) of (\d+) media were cached", output)


def test_kept_outputs_are_the_tower_s(made, tmp_path):
    words = ("--tower_cache", tmp_path / "cache")
    plain, _ = learn(made, tmp_path / "plain")
    first, found = learn(made, tmp_path / "first", *words)
    assert found.groups() == ("4", "8")  # the second epoch finds those of the first
    assert first == pytest.approx(plain, rel=1e-5)
    again, found = learn(made, tmp_path / "again", *words)
    assert found.groups() == ("8", "8") and again == first
    file = next((tmp_path / "cache").rglob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-5])
    mended, found = learn(made, tmp_path / "mended", *words)
    assert mended == first and found.groups() == ("7", "8")
    two, _ = learn(made, tmp_path / "two", *words, "--deepspeed", "zero3", NPROC_PER_NODE="2")
    assert len(two) == 4 and len(list((tmp_path / "cache").rglob("*.safetensors"))) == 4


def test_a_tower_that_trains_is_refused(made, tmp_path):
    done = subprocess.run([HONE.with_name("swift"), "sft", "--model", made[0], "--dataset", made[1], "--output_dir", tmp_path / "run", "--tower_cache", tmp_path / "cache", "--freeze_vit", "false",
                           "--max_steps", "1"], capture_output=True, text=True)
    assert done.returncode == 2 and "towers that do not train" in done.stderr, done.stderr[-800:]
