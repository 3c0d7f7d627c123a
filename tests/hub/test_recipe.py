"""The recipe of docs/your-data.md and the commands of docs/models.md and docs/serving.md, run as printed and in their order, with a small model on a loopback hub under the
name that the pages use."""
import itertools
import json
import os
import re
import shlex
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from workers import free_port

ROOT = Path(__file__).resolve().parents[2]
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
PROGRAMS = ("hone", "swift", "llamafactory-cli")


def blocks(language, page="your-data"):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(), re.S)


def commands(page):
    """(variables, words) of each; what follows them as a comment is dropped."""
    for line in (line for block in blocks("bash", page) for line in block.splitlines()):
        words = shlex.split(line, comments=True)
        variables = dict(word.split("=", 1) for word in itertools.takewhile(lambda word: re.match(r"[A-Z_]+=", word), words))
        if len(words) > len(variables) and words[len(variables)] in PROGRAMS:
            yield variables, words[len(variables):]


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
    serves(hone, shlex.split(last), hub.environment(working, False), working)


def serves(hone, words, env, folder, key=None, while_it_does=lambda port: None):
    """A server, at a port that is free here, answers, and ends on SIGTERM."""
    port = free_port()
    if "--port" in words:
        words[words.index("--port") + 1] = str(port)
    elif words[0] == "llamafactory-cli":
        env = {**env, "API_PORT": str(port)}
    else:
        words = [*words, "--port", str(port)]
    server = subprocess.Popen([hone.path.parent / words[0], *words[1:]], env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers={"Authorization": f"Bearer {key}"} if key else {})
                with urllib.request.urlopen(request, timeout=5) as reply:
                    found = [model["id"] for model in json.load(reply)["data"]]
                    break
            except OSError:
                assert server.poll() is None, words
                time.sleep(0.1)
        while_it_does(port)
        server.terminate()
        assert server.wait(60) == 0
        return found
    finally:
        server.kill()


def test_commands_of_the_page_on_models(hub, hone, working):
    """`--use_hf true` finds the same model on the other hub; what was downloaded is enough without a connection."""
    hub.add_folder("models", MODEL, ROOT / "models/nano")
    hub.add("datasets", "AI-ModelScope/alpaca-gpt4-data-zh", {"train.jsonl": (ROOT / "data/demo.jsonl").read_bytes(), "README.md": b"rows"})
    ran = []
    for variables, words in commands("models"):
        offline = {name: value for name, value in variables.items() if name != "MODELSCOPE_CACHE"}  # the page's is a folder of another machine
        words += ["--max_steps", "1"] if words[1] == "sft" else []
        done = hone(*words[1:], env={**hub.environment(working, False), **offline}, cwd=working)
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        ran.append(words[1])
    assert ran == ["download", "download", "download", "models", "scan-cache", "download", "sft"]
    assert (working / "models/qwen/config.json").exists() and (working / "models/Qwen2.5-0.5B-Instruct/config.json").exists()


def test_commands_of_the_page_on_serving(hub, hone, working):
    hub.add_folder("models", MODEL, ROOT / "models/nano")
    (working / "models").symlink_to(ROOT / "models")
    env = {**os.environ, **hub.environment(working, False), "NO_COLOR": "1"}
    for name in ("law", "poems"):
        trained = hone("sft", "--model", MODEL, "--dataset", "train.jsonl", "--max_steps", 1, "--output_dir", f"output/{name}", "--add_version", "false", "--create_checkpoint_symlink", "true",
                       env=hub.environment(working, False), cwd=working)
        assert trained.returncode == 0, trained.stderr[-2000:]
    *servers, (_, bench) = commands("serving")
    assert bench[:3] == ["hone", "bench", "serve"] and len(servers) == 5

    def load(port):
        words = [word.replace("8000", str(port)) for word in bench]
        done = subprocess.run([hone.path, *words[1:]], env=env, cwd=working, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and (working / "output/load.png").exists(), done.stderr[-2000:]

    named = [serves(hone, words, env, working, key="secret" if "--api_key" in words else None, while_it_does=load if i == 0 else lambda port: None)
             for i, (_, words) in enumerate(servers)]
    assert named[0] == ["nano"] and {"law", "poems"} < set(named[1]) and named[2] == ["qwen"] and named[3] == ["gpt-3.5-turbo"] and named[4] == ["nano"], named
