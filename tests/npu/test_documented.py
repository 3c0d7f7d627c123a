"""The commands of docs/npu.md, run as printed, in order, in a folder like a fresh checkout. The Chinese page has the same commands."""
import os
import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def commands(page):
    for block in re.findall(r"```bash\n(.*?)```", (ROOT / page).read_text(), re.S):
        yield from (words for line in block.splitlines() if (words := shlex.split(line, comments=True)))


def test_every_command_works(hone, tmp_path):
    for name in ("models", "data", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    env = {**os.environ, "NO_COLOR": "1", "PATH": f"{hone.path.parent}:{os.environ['PATH']}"}
    for words in commands("docs/npu.md"):
        done = subprocess.run(words, cwd=tmp_path, env=env, input="Who are you?\nexit\n", capture_output=True, text=True, timeout=120)
        allowed = (0, 1) if "doctor" in words else (0,)
        if ".venv/bin/python" in words:
            assert "True 8 tensor([2., 2.])" in done.stdout, done.stdout + done.stderr[-2000:]
        assert done.returncode in allowed, f"{shlex.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_both_languages_say_the_same():
    english, chinese = ((ROOT / page).read_text() for page in ("docs/npu.md", "docs/npu.zh.md"))
    assert list(commands("docs/npu.md")) == list(commands("docs/npu.zh.md"))
    for mark in ("\n## ", "\n|"):  # sections; rows of tables
        assert english.count(mark) == chinese.count(mark)
    named = lambda text: set(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S)))
    assert {name for name in named(english) ^ named(chinese) if not name.startswith("hone emulate-npu")} == set()
