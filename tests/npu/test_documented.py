"""The commands of docs/npu.md, run as printed, in order, in a folder like a fresh checkout."""
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
