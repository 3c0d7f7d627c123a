"""The package's types: `mypy python/hone`, strict by pyproject.toml."""
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


def test_package_passes_mypy_strict(tmp_path):
    settings = tmp_path / "pyproject.toml"
    settings.write_text((ROOT / "pyproject.toml").read_text() + LARGE)
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", os.devnull, "python/hone"], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "no issues found" in done.stdout, done.stdout + done.stderr
