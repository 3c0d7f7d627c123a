"""A model that knows nothing learns to see, and one to hear: cookbook/vision."""
import os
import re
import subprocess

import pytest
from vision_models import ROOT


ENVIRONMENT = {**os.environ, "PATH": f"{ROOT / 'build/bin'}:{os.environ['PATH']}"}


@pytest.mark.parametrize("what", ["vision", "tones"])
def test_colours_and_tones_are_learned(tmp_path, what):
    out = tmp_path / "output" / what
    out.mkdir(parents=True)
    done = subprocess.run(["bash", ROOT / "cookbook/vision/train.sh", out, what], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = (float(re.search(rf"{when}: ([\d.]+)", done.stdout)[1]) for when in ("before", "after"))
    assert before < 0.2 and after > 0.9, done.stdout[-500:]
    if what == "vision":
        run_documented(tmp_path)


def run_documented(folder):
    """The commands of docs/multimodal.md, as printed."""
    page = (ROOT / "docs/multimodal.md").read_text()
    lines = [line for block in re.findall(r"```bash\n(.*?)```", page, re.S) for line in block.splitlines() if re.match("(hone|swift) ", line)]
    assert len(lines) == 4
    for line in lines:
        typed = f"<image>Colour?\n{folder}/output/vision/val/0.png\nexit\n"
        done = subprocess.run(["bash", "-c", line], cwd=folder, env=ENVIRONMENT, input=typed.encode(), capture_output=True)
        assert done.returncode == 0, f"{line}\n{done.stderr[-2000:].decode()}"
    assert b"Input an image path or URL <<< " in done.stdout
