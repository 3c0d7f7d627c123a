"""pytest imports test files by their bare names: two files of one name in different folders fail the whole run at collection."""
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


def test_every_test_file_has_a_name_of_its_own():
    importable_by_bare_name = [file for file in TESTS.rglob("test_*.py") if not (file.parent / "__init__.py").exists()]
    counts = Counter(file.name for file in importable_by_bare_name)
    assert not {name: count for name, count in counts.items() if count > 1}
