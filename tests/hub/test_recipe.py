"""The recipe of docs/your-data.md, run as printed and in its order, with a small model on a loopback hub under the name that the page uses."""
import json
import re
import shlex
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from workers import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/your-data.md").read_text()
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


@pytest.fixture
def working(tmp_path):
    rows, = blocks("json")
    (tmp_path / "train.jsonl").write_text(rows * 10)
    return tmp_path


def test_from_a_file_of_rows_to_a_model_that_can_be_served(hub, hone, working):
    hub.add_folder("models", MODEL, ROOT / "models/nano")
    *lines, last = (line for block in blocks("bash") for line in block.splitlines())
    assert [shlex.split(line)[1] for line in lines] == ["preview", "plan", "sft", "infer", "infer", "export", "plan"]
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] == "sft":
            words += ["--torch_dtype", "float32"]
        done = hone(*words, env=hub.environment(working, False), cwd=working, stdin="Where do I return a badge?\nexit\n", timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert len((working / "output/desk/answers.jsonl").read_text().splitlines()) == 20
    for name in ("output/desk/images/train_loss.png", "output/desk/images/eval_loss.png", "output/desk/best", "output/desk-merged/model.safetensors"):
        assert (working / name).exists(), name
    serves(hone, shlex.split(last)[1:], hub.environment(working, False), working)


def serves(hone, words, env, folder):
    """`hone deploy`, at a port that is free here, answers, and ends on SIGTERM."""
    port = str(free_port())
    words[words.index("--port") + 1] = port
    server = subprocess.Popen([hone.path, *words], env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as reply:
                    assert json.load(reply)["data"]
                    break
            except OSError:
                assert server.poll() is None
                time.sleep(0.1)
        server.terminate()
        assert server.wait(60) == 0
    finally:
        server.kill()
