"""cookbook/ray/serve_tinker.py on a Ray cluster that is there already: a worker that dies is placed again, and its client continues."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import tinker
from serve_testing import BINARY
from test_tinker_crowd import supervised, train
from tinker_testing import ALICE, MODEL, ROOT
from workers import free_port


@pytest.fixture
def ray_cluster():
    """A head node as `ray start` makes one; gives its address."""
    port = free_port()
    subprocess.run([ROOT / ".venv/bin/ray", "start", "--head", "--port", str(port), "--num-cpus", "1", "--include-dashboard", "false", "--temp-dir", f"/tmp/ray-{port}", "--disable-usage-stats"], check=True, capture_output=True)
    yield f"127.0.0.1:{port}"
    for process in processes_with(f"/tmp/ray-{port}"):
        os.kill(process, signal.SIGKILL)
    shutil.rmtree(f"/tmp/ray-{port}", ignore_errors=True)


def processes_with(text):
    """Of those whose command line holds it."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_text()
        except OSError:
            continue
        if text in words and int(entry) != os.getpid():
            found.append(int(entry))
    return found


def status(port):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/status", headers={"X-API-Key": ALICE})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())
    except OSError:
        return {"workers": []}


def alive(port, count, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if sum(each["alive"] for each in status(port)["workers"]) == count:
            return True
        time.sleep(0.3)
    return False


def test_workers_on_an_existing_ray_cluster(ray_cluster, tokenizer, tmp_path):
    keys, port = tmp_path / "keys", free_port()
    keys.write_text(f"alice {ALICE}\n")
    command = [sys.executable, ROOT / "cookbook/ray/serve_tinker.py", "--address", ray_cluster, "--model", MODEL, "--api_keys", keys, "--state", tmp_path / "state", "--port", str(port),
               "--torch_dtype", "float32"]
    script = subprocess.Popen([str(word) for word in command], cwd=ROOT, env={**os.environ, "HONE": str(BINARY), "RAY_USAGE_STATS_ENABLED": "0"})
    try:
        assert alive(port, 1)
        service = tinker.ServiceClient(base_url=f"http://127.0.0.1:{port}", api_key=ALICE)
        assert {each.model_name for each in service.get_server_capabilities().supported_models} == {MODEL}
        client = service.create_lora_training_client(base_model=MODEL, rank=4).result()
        losses = train(client, supervised(tokenizer), 2)
        (worker,) = processes_with(f"--tinker_dir\0{tmp_path / 'state/0'}\0")
        os.kill(worker, signal.SIGKILL)
        losses += train(client, supervised(tokenizer), 2)
        assert losses == sorted(losses, reverse=True)
    finally:
        script.send_signal(signal.SIGTERM)
        assert script.wait(120) == 0
