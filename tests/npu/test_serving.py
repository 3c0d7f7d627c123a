"""Servers on an emulated NPU: swift deploy generates the same text as on the CPU, tenants of serve-tinker get the CPU's losses."""
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from workers import free_port

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/serve"))
from tenants import expect_runs_together_as_alone  # noqa: E402


def ask(hone, device):
    port = free_port()
    server = subprocess.Popen([hone.path, "emulate-npu", hone.path.parent / "swift", "deploy", "--model", ROOT / "models/nano", "--torch_dtype", "float32",
                               "--port", str(port), "--device", device], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    question = {"model": "nano", "messages": [{"role": "user", "content": "Who are you?"}], "temperature": 0, "max_tokens": 10}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(question).encode(), {"Content-Type": "application/json"})
    try:
        for _ in range(300):
            try:
                return json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["message"]["content"]
            except urllib.error.URLError:
                assert server.poll() is None, server.stderr.read().decode()[-2000:]
                time.sleep(0.2)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        server.stderr.close()
    raise AssertionError("the server did not answer")


def test_answers_are_the_same(hone):
    assert ask(hone, "npu:0") == ask(hone, "cpu")


def test_tenants_get_the_cpus_losses(hone, tmp_path):
    expected = expect_runs_together_as_alone(tmp_path / "cpu", "cpu")
    found = expect_runs_together_as_alone(tmp_path / "npu", "npu:0", verb=["emulate-npu", hone.path, "serve-tinker"])
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-4)
