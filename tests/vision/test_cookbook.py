"""A model that knows nothing learns to see, and one to hear: cookbook/vision."""
import os
import re
import subprocess

import pytest
from vision_models import ROOT


@pytest.mark.parametrize("what", ["vision", "tones"])
def test_colours_and_tones_are_learned(tmp_path, what):
    done = subprocess.run(["bash", ROOT / "cookbook/vision/train.sh", tmp_path, what], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{ROOT / 'build/bin'}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = (float(re.search(rf"{when}: ([\d.]+)", done.stdout)[1]) for when in ("before", "after"))
    assert before < 0.2 and after > 0.9, done.stdout[-500:]
