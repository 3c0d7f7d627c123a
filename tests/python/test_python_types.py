"""The package's types, and those of a program that uses it: `mypy python/hone`, strict by pyproject.toml."""
import os
import subprocess
import sys

from python_environment import ROOT

# Reading the types of these takes a minute; without them what comes out of them is Any. `mypy python/hone` by hand reads them too.
LARGE = '''
[[tool.mypy.overrides]]
module = ["torch.*", "transformers.*", "ray.*", "peft.*", "datasets.*"]
follow_imports = "skip"

[[tool.mypy.overrides]]
module = ["hone.twinkle.module.scheduler"]
disallow_subclassing_any = false
'''

PROGRAM = '''
import hone
import numpy as np

sampler = hone.Sampler(hone.Model("models/nano"))
answers: list[hone.Completion] = sampler.sample(["a", [1, 2], np.array([1, 2]), [{"role": "user", "content": "b"}]], hone.SamplingParams(stop="x"))
again: str = sampler.chat(answers[0].prompt)
scores: np.ndarray = hone.rewards.score(["format"], answers)
'''


def test_package_passes_mypy_strict(tmp_path):
    settings = tmp_path / "pyproject.toml"
    settings.write_text((ROOT / "pyproject.toml").read_text() + LARGE)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", os.devnull, "python/hone", program], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "no issues found" in done.stdout, done.stdout + done.stderr
