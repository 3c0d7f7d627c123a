"""The drawing of docs/architecture.md is what the script draws."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))
from test_includes import BELOW, allowed  # noqa: E402


def test_drawing_is_current():
    drawn = subprocess.run([sys.executable, ROOT / "tools/draw_architecture.py"], capture_output=True, text=True, check=True).stdout
    assert (ROOT / "docs/architecture.svg").read_text() == drawn, "python3 tools/draw_architecture.py > docs/architecture.svg"


def test_drawing_has_every_component_above_what_it_includes():
    sys.path.insert(0, str(ROOT / "tools"))
    from draw_architecture import LAYERS
    row = {name: number for number, layer in enumerate(LAYERS) for name, _ in layer}
    assert set(row) == set(BELOW)
    wrong = [(name, below) for name in BELOW for below in allowed(name) - {name} if row[below] <= row[name]]
    assert not wrong, wrong
