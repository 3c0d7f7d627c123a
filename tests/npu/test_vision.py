"""Models that see images on an emulated NPU compared with the CPU: the same losses, by the card's own operators."""
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "vision"))
from vision_models import write_vision_model  # noqa: E402


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_5", "internvl", "gemma3"])
def test_all_parts_train(train_all_parts, tmp_path, family):
    """Attention inside pictures is the fused one without causality; rows of text are mixed with rows with images."""
    (tmp_path / "model").mkdir()
    write_vision_model(tmp_path / "model", family)
    rows = [{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]}]
    for name, colour in (("red", (220, 30, 30)), ("blue", (30, 60, 220)), ("green", (30, 170, 40))):
        Image.new("RGB", (90, 60), colour).save(tmp_path / f"{name}.png")
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": name}], "images": [str(tmp_path / f"{name}.png")]})
    train_all_parts(rows)
