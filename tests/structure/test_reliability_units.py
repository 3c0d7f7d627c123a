"""The unit tests among the thirty tests of reliability, run and counted as the others are."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import reliability  # noqa: E402

CASES = [pytest.param(program, chosen, marks=pytest.mark.reliability(number), id=f"{number}-{program}-{chosen}") for number, program, chosen in reliability.unit_filters()]


@pytest.mark.parametrize("program, chosen", CASES)
def test_unit(figure, request, program, chosen):
    if "reliability" not in (request.config.getoption("-m") or ""):
        pytest.skip("ctest runs it")
    binary = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone")).parents[1] / f"{program}_test"
    if not binary.exists():
        pytest.skip(f"{binary} is not built; make unit-test builds it")
    done = subprocess.run([binary, f"--gtest_filter={chosen}", "--gtest_brief=1"], capture_output=True, text=True, timeout=300)
    ran = re.search(r"(\d+) tests? from", done.stdout)
    assert done.returncode == 0 and ran and int(ran[1]) > 0, done.stdout[-2000:] + done.stderr[-2000:]
    figure(f"{ran[1]} unit tests")


def test_every_number_has_tests_that_exist():
    names = {f"{path.name}::{name}" for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)}
    marked = {int(n) for path in (ROOT / "tests").rglob("test_*.py") for n in re.findall(r"mark\.reliability\((\d+)\)", path.read_text())}
    listed = {number for number, tests in reliability.TESTS.items() if tests}
    assert set(reliability.TITLES) == set(range(1, 31)) == listed | marked
    for tests in reliability.TESTS.values():
        for test in tests:
            assert test.startswith("unit:") or any(name.startswith(test) for name in names), f"{test} is not a test"
