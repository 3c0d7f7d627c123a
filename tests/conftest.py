"""What every test may use: the built program as `hone(...)`."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BINARY = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))


class Program:
    """Runs hone under one of its names; returns stdout, stderr and returncode as text."""

    def __init__(self, name="hone"):
        self.path = BINARY.parent / name

    def __call__(self, *words, stdin=None, env=None, cwd=None, timeout=300):
        environment = {k: v for k, v in os.environ.items() if k not in ("LOG_LEVEL", "USE_HF", "ALLOW_EXTRA_ARGS", "COLUMNS", "NPROC_PER_NODE", "WORLD_SIZE")}
        # Tests reach no hub but their own.
        environment.update({"NO_COLOR": "1", "HF_HUB_OFFLINE": "1", **{k: str(v) for k, v in (env or {}).items()}})
        command = [str(self.path), *map(str, words)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, cwd=cwd, timeout=timeout)


def _program(name):
    if not BINARY.exists():
        pytest.fail(f"{BINARY} is not built; make build")
    return Program(name)


@pytest.fixture(scope="session")
def hone():
    return _program("hone")


@pytest.fixture(scope="session")
def swift():
    return _program("swift")


@pytest.fixture(scope="session")
def factory():
    return _program("llamafactory-cli")


@pytest.fixture(scope="session")
def accelerate():
    return _program("accelerate")


@pytest.fixture(scope="session")
def shared():
    """Facts and real templates kept beside the checkout; tests that need them say so when they are absent."""
    folder = Path(os.environ.get("HONE_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"{folder}/data is not there; set HONE_SHARED")
    return folder
