"""What every test may use: the built program as `hone(...)`."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import reliability  # noqa: E402

pytest_plugins = ["skipped", "workers", "peers"]

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
    """Facts and real templates kept next to the checkout; tests that need them say so when they are absent."""
    folder = Path(os.environ.get("HONE_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"{folder}/data is not there; set HONE_SHARED")
    return folder


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config, items):
    """Marks the thirty tests of reliability; their table stands in reliability.py, new ones carry the mark themselves."""
    for item in items:
        for number in reliability.numbers_of(item.nodeid):
            item.add_marker(pytest.mark.reliability(number))
        numbers = sorted({mark.args[0] for mark in item.iter_markers("reliability")})
        if numbers:
            item.user_properties.append(("reliability", numbers))


@pytest.fixture
def figure(record_property):
    """figure("24 connections, 12 MB"): what a test of reliability measured, for the line that make test-reliability prints."""
    return lambda text: record_property("figure", text)


def pytest_terminal_summary(terminalreporter, config):
    if "reliability" not in (config.getoption("-m") or ""):
        return
    lines = {number: [0, 0, 0.0, []] for number in reliability.TITLES}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            properties = dict(getattr(report, "user_properties", []))
            for number in properties.get("reliability", []):
                line = lines[number]
                line[0] += outcome == "passed"
                line[1] += outcome != "passed"
                line[2] += report.duration
                line[3] += [value for name, value in report.user_properties if name == "figure"]
    terminalreporter.section("thirty tests of reliability")
    for number, (passed, failed, seconds, figures) in lines.items():
        verdict = "FAILED" if failed else "ok" if passed else "not run"
        terminalreporter.write_line(f"{number:3} {reliability.TITLES[number]:50} {verdict:7} {passed} of {passed + failed} in {seconds:.0f} s{''.join('; ' + text for text in dict.fromkeys(figures))}")
