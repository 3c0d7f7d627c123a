"""`hone bench serve` with servers whose responses are known."""
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from workers import free_port

DELAY = 0.15


class OneAtATime(BaseHTTPRequestHandler):
    """Answers each request after DELAY seconds, and none while another is being answered."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(DELAY)
        body = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def slow():
    class Patient(HTTPServer):
        request_queue_size = 64

    server = Patient(("127.0.0.1", 0), OneAtATime)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_waiting_counts_when_requests_come_at_a_rate(hone, slow):
    done = hone("bench", "serve", "--url", slow, "-n", "12", "-c", "1", "--rate", "200", "--format", "json")
    run = json.loads(done.stdout)
    assert run["requests"] == 12 and run["failed"] == 0 and run["output_tokens"] == 12
    assert run["request_latency"]["max"] > 6 * DELAY, "the last waited for most of the others, which came before it was served"


def test_a_refusal_is_reported_with_its_reason(hone, server):
    asked = ("bench", "serve", "--url", server.url, "-n", "2", "-c", "1", "--model", "nobody")
    (what, count), = json.loads(hone(*asked, "--format", "json").stdout)["errors"].items()
    assert count == 2 and what.startswith("status 404: ") and "nobody" in what


def test_without_a_rate_concurrency_limits_requests_in_flight(hone, slow):
    run = json.loads(hone("bench", "serve", "--url", slow, "-n", "4", "-c", "2", "--format", "json").stdout)
    assert run["requests"] == 4 and run["seconds"] >= 4 * DELAY


@pytest.mark.parametrize("format", ("text", "json"))
def test_a_closed_port_is_an_error_not_a_table_of_zeros(hone, format):
    url = f"http://127.0.0.1:{free_port()}"
    done = hone("bench", "serve", "--url", url, "-n", "3", "-c", "2", "--format", format)
    assert done.returncode == 1 and f"none of 3 requests to {url} was answered" in done.stderr and "3 x no connection: Connection refused" in done.stderr, done
    assert "hint: start the server" in done.stderr and "correct --url" in done.stderr
    assert json.loads(done.stdout)["failed"] == 3 if format == "json" else done.stdout == ""
