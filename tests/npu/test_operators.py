"""Operators through the published op-plugin against the CPU: values and gradients. The cases are in operators.py."""
import json
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("operators.py")


def _lines(done):
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def troubles(npu_python):
    names = json.loads(npu_python(CASES, "--list").stdout.splitlines()[-1])
    found = {}
    while names:
        done = npu_python(CASES, *names)
        lines = _lines(done)
        if not lines:  # the process died in the first case
            lines = [{"case": names[0], "trouble": f"exit {done.returncode}: {done.stderr[-2000:]}"}]
        found.update({line["case"]: line["trouble"] for line in lines})
        names = names[len(lines):]
    return found


def test_all_agree_with_the_cpu(troubles):
    assert len(troubles) > 140
    bad = {name: trouble for name, trouble in troubles.items() if trouble}
    assert not bad, json.dumps(bad, indent=1)
