"""Models that see images on an emulated NPU compared with the CPU: the same losses, by the card's own operators."""
import json
import sys
from pathlib import Path

import pytest
from media_runs import ALL_PARTS, losses, write_rows
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "vision"))
from vision_models import write_vision_model  # noqa: E402


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "internvl", "gemma3"])
def test_all_parts_train(npu, swift, tmp_path, family):
    """Attention inside pictures is the fused one without causality; rows of text are mixed with rows with images."""
    (tmp_path / "model").mkdir()
    write_vision_model(tmp_path / "model", family)
    rows = [{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]}]
    for name, colour in (("red", (220, 30, 30)), ("blue", (30, 60, 220)), ("green", (30, 170, 40))):
        Image.new("RGB", (90, 60), colour).save(tmp_path / f"{name}.png")
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": name}], "images": [str(tmp_path / f"{name}.png")]})
    write_rows(tmp_path / "rows.jsonl", rows)
    words = ["--model", tmp_path / "model", "--dataset", tmp_path / "rows.jsonl", *ALL_PARTS]
    for done in (swift("sft", *words, "--device", "cpu", "--output_dir", tmp_path / "cpu"),
                 npu("swift", "sft", *words, "--output_dir", tmp_path / "npu", env={"HONE_EMULATED_REPORT": tmp_path / "report"})):
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert len(losses(tmp_path / "cpu")) == 2
    assert losses(tmp_path / "npu") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)
    report = json.loads((tmp_path / "report").read_text().splitlines()[-1])
    assert report["operators"].get("aclnnFlashAttentionVarLenScore") and report["missing"] == {}, report
