"""The wheel `hone`, built once, and a separate environment with torch."""
from pathlib import Path

import pytest

from python_environment import make_environment, make_wheel
from workers import made_once


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return next(made_once(tmp_path_factory, "wheel", make_wheel).glob("hone-*.whl"))


@pytest.fixture(scope="session")
def python(tmp_path_factory, wheel):
    def make(folder):
        make_environment(folder, wheel)

    # Scripts name the Python they were made for, so the folder is not renamed: it is next to a mark.
    place = made_once(tmp_path_factory, "wheel environment", lambda folder: (folder / "place").write_text(str(folder.parent / "environment")))
    environment = Path((place / "place").read_text())
    made_once(tmp_path_factory, "wheel environment is made", lambda _: make(environment))
    return environment / "venv/bin/python"
