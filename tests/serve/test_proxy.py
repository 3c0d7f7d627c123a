"""`app --base_url`: the chat page of another server. What it hands on, what it keeps to itself, and how it bears that server's bad days."""
import http.server
import json
import signal
import socket
import ssl
import subprocess
import threading

import pytest
from serve_testing import BINARY, read_all


class Other:
    """A server with OpenAI's interface that streams an answer event by event, the next one when it is told to."""

    def __init__(self, key=None, certificate=None, cut=False):
        other = self
        self.asked, self.go_on, self.left = [], threading.Semaphore(0), threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                other.asked.append((self.path, dict(self.headers)))
                if key and self.headers["Authorization"] != f"Bearer {key}":
                    return self.answer(401, {"error": {"message": "no key"}})
                self.answer(200, {"object": "list", "data": [{"id": "other-model", "object": "model"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                other.asked.append((self.path, dict(self.headers), body))
                if not body.get("stream"):
                    return self.answer(418, {"error": {"message": "teapot"}})
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    for word in ("one", "two", "three"):
                        event = f"data: {json.dumps({'choices': [{'delta': {'content': word}}]})}\n\n".encode()
                        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
                        self.wfile.flush()
                        assert other.go_on.acquire(timeout=60)
                        if cut:
                            return self.connection.close()
                    while body.get("endless"):
                        self.wfile.write(b"8\r\n: still\n\r\n")
                except OSError:
                    return other.left.set()
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"{scheme}://localhost:{self.server.server_port}/v1"


@pytest.fixture
def other():
    started = []

    def start(**settings):
        started.append(Other(**settings))
        return started[-1]

    yield start
    for each in started:
        for _ in range(9):
            each.go_on.release()
        each.server.shutdown()


@pytest.fixture
def relay(serve):
    return lambda url, *words, **more: serve("--base_url", url, "--verbose", "false", *words, verb="app", model=None, **more)


def read_until(connection, mark):
    data = b""
    while mark not in data:
        piece = connection.recv(4096)
        assert piece, data
        data += piece
    return data


def test_events_pass_one_by_one(relay, other):
    behind = other()
    page = relay(behind.url)
    connection = page.open_stream()
    connection.settimeout(60)
    assert b"two" not in read_until(connection, b"one")  # the first arrives while the second does not exist yet
    behind.go_on.release()
    assert b"three" not in read_until(connection, b"two")
    behind.go_on.release()
    read_until(connection, b"three")
    behind.go_on.release()
    assert read_all(connection).endswith("0\r\n\r\n")
    path, _, body = behind.asked[-1]
    assert path == "/v1/chat/completions" and body["messages"][0]["content"] == "Tell me a long story."


def test_other_answers_pass_whole(relay, other):
    page = relay(other().url)
    status, _, text = page.post("/v1/chat/completions", {"messages": []})
    assert status == 418 and json.loads(text) == {"error": {"message": "teapot"}}
    assert json.loads(page.get("/v1/models")[2])["data"][0]["id"] == "other-model"


def test_a_disconnected_client_gets_no_more(relay, other):
    behind = other()
    page = relay(behind.url)
    connection = page.open_stream(endless=True)
    read_until(connection, b"one")
    connection.close()
    for _ in range(3):
        behind.go_on.release()
    assert behind.left.wait(60), "the other server stops"


def test_a_cut_answer_is_not_taken_for_whole(relay, other):
    behind = other(cut=True)
    connection = relay(behind.url).open_stream()
    read_until(connection, b"one")
    behind.go_on.release()
    assert not read_all(connection).endswith("0\r\n\r\n")


def test_only_what_the_page_needs_is_handed_on(relay, other):
    behind = other()
    page = relay(behind.url, "--api_key", "ours")
    key = {"Authorization": "Bearer ours"}
    before = len(behind.asked)
    assert page.get("/v1/models")[0] == 401 and page.get("/")[0] == 401
    assert page.post("/v1/load_lora_adapter", {}, headers=key)[0] == 404 and page.get("/v1/files", headers=key)[0] == 404
    assert page.get("/v1/models", headers={**key, "Origin": "https://elsewhere.example"})[0] == 403
    assert len(behind.asked) == before
    assert page.get("/v1/models", headers=key)[0] == 200 and page.get("/health")[0] == 200
    assert "Authorization" not in behind.asked[-1][1], "our visitors' key is not for others"


def test_the_other_servers_key_comes_from_the_environment(relay, other):
    behind = other(key="theirs")
    page = relay(behind.url, env={"OPENAI_API_KEY": "theirs"})
    assert page.get("/v1/models")[0] == 200
    done = subprocess.run([BINARY, "app", "--base_url", behind.url, "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "OPENAI_API_KEY" in done.stderr


def test_the_page_reports_a_lost_server(relay, other):
    behind = other()
    page = relay(behind.url)
    behind.server.shutdown()
    behind.server.server_close()
    status, _, text = page.get("/v1/models")
    assert status == 502 and "no response from the upstream server" in json.loads(text)["error"]["message"]
    assert page.get("/")[0] == 200 and page.stop() == 0


def test_certificates_are_checked(relay, other, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    behind = other(certificate=tmp_path)
    done = subprocess.run([BINARY, "app", "--base_url", behind.url, "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "certificate" in done.stderr
    assert relay(behind.url, env={"SSL_CERT_FILE": str(tmp_path / "cert.pem")}).get("/v1/models")[0] == 200


@pytest.mark.parametrize("address, message", [("nowhere", "not an address"), ("http://127.0.0.1:{}/v1", "no response"), ("http://127.0.0.1:port", "not an address")])
def test_a_wrong_address_is_reported_at_once(address, message):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = address.format(taken.getsockname()[1])
        done = subprocess.run([BINARY, "app", "--base_url", url, "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and message in done.stderr and "base_url" in done.stderr


@pytest.fixture
def silent():
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


def test_it_can_be_ended_while_it_waits_for_the_other_server(silent):
    waiting = subprocess.Popen([BINARY, "app", "--base_url", f"http://127.0.0.1:{silent.getsockname()[1]}/v1", "--port", "0"], stderr=subprocess.PIPE)
    with silent.accept()[0] as connection:
        read_until(connection, b"\r\n\r\n")
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(60) == 128 + signal.SIGTERM


def test_a_handshake_that_does_not_end_is_given_up(silent):
    done = subprocess.run([BINARY, "app", "--base_url", f"https://127.0.0.1:{silent.getsockname()[1]}/v1", "--port", "0"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "too long" in done.stderr


def test_an_internal_failure_is_reported_and_survived(relay, other):
    page = relay(other().url, env={"HONE_FAULT": "serve.respond:throw"})
    status, _, text = page.get("/v1/models")
    assert status == 500 and json.loads(text)["error"]["code"] == "internal_error"
    assert page.get("/v1/models")[0] == 200 and page.stop() == 0
