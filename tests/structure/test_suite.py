"""The suite's own lists: allowed skips are respected, and listed files exist."""
from pathlib import Path

from skipped import is_known, known_skips

ROOT = Path(__file__).resolve().parents[2]


def test_only_listed_skips_are_allowed():
    known = known_skips("# why\ntests/serve/* | node and npm are not installed\n\ntests/* | HONE_PEERS_PYTHON names no Python with *\n")
    assert is_known("tests/serve/test_clients.py::test_openai_npm_package", "node and npm are not installed", known)
    assert is_known("tests/data/test_peer_labels.py::test_swift", "HONE_PEERS_PYTHON names no Python with swift", known)
    assert not is_known("tests/cli/test_errors.py::test_x", "node and npm are not installed", known)
    assert not is_known("tests/serve/test_clients.py::test_openai_npm_package", "no time", known)


def test_every_line_of_skips_has_both_patterns():
    assert all(len(pair) == 2 and all(pair) for pair in known_skips((ROOT / "tests/skips.txt").read_text()))


def test_the_fast_part_exists():
    lines = (ROOT / "tests/fast.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#") and not (ROOT / line).exists()] == []


def test_requirements_are_pinned_as_installed():
    closure = {line.split("==")[0].lower().replace("_", "-"): line for line in (ROOT / "tools/constraints.txt").read_text().splitlines() if "==" in line}
    asked = [line for line in (ROOT / "tools/requirements.txt").read_text().splitlines() if line]
    assert [line for line in asked if closure.get(line.split("==")[0].lower().replace("_", "-"), "").lower().replace("_", "-") != line.lower().replace("_", "-")] == []
