"""Operators through the published op-plugin against the CPU: values and gradients. The cases are in operators.py."""
import json
from pathlib import Path

import pytest
from run_operators import all_cases

ROOT = Path(__file__).resolve().parents[2]


def test_all_agree_with_the_cpu(npu_python):
    found = all_cases(lambda *words: npu_python(Path(__file__).with_name("operators.py"), *words))
    assert len(found) > 150
    bad = {name: trouble for name, trouble in found.items() if trouble}
    assert not bad, json.dumps(bad, indent=1)


@pytest.mark.parametrize("program, tests", [("ops_test", "NpuOperators"), ("optim_test", "NpuOptimizers")])
def test_what_hone_computes_agrees_with_the_cpu(emulated, program, tests):
    done = emulated([ROOT / "build" / program, f"--gtest_filter={tests}.*"])
    assert done.returncode == 0 and "SKIPPED" not in done.stdout and "PASSED" in done.stdout, done.stdout[-3000:] + done.stderr[-2000:]
