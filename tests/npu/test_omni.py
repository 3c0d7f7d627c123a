"""Models that hear on an emulated NPU compared with the CPU: the same losses, by the card's own operators."""
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "audio"))
import audio_files  # noqa: E402
from omni_models import write_omni_model  # noqa: E402


@pytest.mark.parametrize("family", ["qwen2_5_omni", "qwen3_omni_moe"])
def test_all_parts_train(train_all_parts, tmp_path, family):
    """Attention inside recordings is the fused one without causality; rows of text are mixed with rows with audio."""
    (tmp_path / "model").mkdir()
    write_omni_model(tmp_path / "model", family)
    rows = [{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]}]
    for seconds in (0.6, 2.3, 1.0):
        path = audio_files.write(tmp_path / f"{seconds}.wav", audio_files.chirp(seconds, 16000), 16000)
        rows.append({"messages": [{"role": "user", "content": "<audio>Long?"}, {"role": "assistant", "content": str(seconds)}], "audios": [str(path)]})
    train_all_parts(rows)
