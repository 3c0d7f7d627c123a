"""A server for the tests: the built binary serving models/nano, on a port of its own."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))

MODEL = ROOT / "models/nano"
ENDLESS = 1_000_000


class Server:
    """A running `hone deploy`. Its log is collected; `stop()` gives the exit code."""

    def __init__(self, *words, program="hone", verb="deploy", env=None, model=MODEL, any_port=True):
        environment = {**os.environ, "NO_COLOR": "1", **(env or {})}
        flag = "--model_name_or_path" if program == "llamafactory-cli" else "--model"
        port = [] if not any_port or any(str(w) == "--port" for w in words) else ["--port", "0"]
        command = [BINARY.parent / program, *(verb if isinstance(verb, list) else [verb]), *([flag, model] if model else []), *port, *words]
        self.process = subprocess.Popen([str(w) for w in command], stderr=subprocess.PIPE, text=True, env=environment)
        self.lines, self.url = [], None
        self.started = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.started.wait(60) or self.url is None:
            self.process.kill()
            raise RuntimeError("the server did not start:\n" + self.log())

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"is served at (https?://\S+)", line):
                self.url = found[1]
                self.started.set()
        self.started.set()

    def log(self):
        return "".join(self.lines)

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def request(self, method, path, body=None, headers=None, timeout=30):
        """(status, headers, text); errors are answers too."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers={"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, dict(answer.headers), answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, dict(answer.headers), answer.read().decode()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def chat(self, text="Who are you?", **fields):
        status, _, body = self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 24, **fields})
        assert status == 200, body
        return json.loads(body)

    def metric(self, name):
        text = self.get("/metrics")[2]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{"))

    def wait_for(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return False

    def open_stream(self, text="Tell me a long story.", receive_buffer=None, **fields):
        """A raw socket with a streaming request sent, nothing read."""
        body = json.dumps({"messages": [{"role": "user", "content": text}], "stream": True, "temperature": 1, "max_tokens": 200, "ignore_eos": True, **fields})
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(self.address)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n\r\n"
        connection.sendall(head.encode() + body.encode())
        return connection

    def stop(self, how=signal.SIGTERM, timeout=60):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout)
        self.reader.join(10)
        return code


def read_all(connection, timeout=60):
    connection.settimeout(timeout)
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            data += chunk
            if data.endswith(b"0\r\n\r\n"):
                break
    return data.decode(errors="replace")


@pytest.fixture(scope="session")
def endless(tmp_path_factory):
    """models/nano with a context that no test fills: with ignore_eos its answer ends only when somebody ends it."""
    folder = tmp_path_factory.mktemp("endless") / "nano"
    shutil.copytree(MODEL, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": ENDLESS}))
    return folder


@pytest.fixture(scope="module")
def serve():
    """serve(*flags) starts a server; all of them are ended with the module."""
    servers = []

    def start(*words, **more):
        servers.append(Server(*words, **more))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@pytest.fixture(scope="module")
def server(serve):
    return serve("--verbose", "false", "--log_interval", "-1")
