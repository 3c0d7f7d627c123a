"""Something inside fails, hangs or fills up: what those outside see, and how the server ends. Each against the real program, with its fault points armed."""
import contextlib
import http.client
import json
import signal
import socket
import time

import pytest

from serve_testing import read_all

QUIET = ("--verbose", "false", "--log_interval", "-1")
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}


def resident(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def send(server, path, body):
    """A raw socket with a request sent, nothing read."""
    text = json.dumps(body)
    connection = socket.create_connection(server.address)
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    return connection


def test_refused_requests_leave_nothing_behind(serve):
    server = serve(*QUIET, "--api_key", "k")
    with socket.create_connection(server.address) as connection:
        connection.settimeout(60)

        def refused(count):
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * count)
            received = b""
            while received.count(b"invalid_api_key") < count:
                received += connection.recv(1 << 16)
            assert received.count(b"HTTP/1.1 401") == count

        refused(500)
        before = resident(server)
        for _ in range(50):
            refused(400)
        assert resident(server) - before < 16 << 10, "20,000 refusals on one connection"


@pytest.mark.parametrize("point", ["serve.step", "engine.compute", "engine.select"])
def test_an_engine_that_does_not_recover_ends_the_server(serve, point, figure):
    server = serve(*QUIET, env={"HONE_FAULT": f"{point}:throw:2+"})
    statuses = []
    with contextlib.suppress(OSError):
        for _ in range(20):
            statuses.append(server.post("/v1/chat/completions", {**CHAT, "ignore_eos": True})[0])
    assert statuses[:3] == [500] * 3 and set(statuses[3:]) <= {500, 503}
    assert server.process.wait(60) == 1
    assert "3 times in a row" in server.log() and "does not recover" in server.log()
    figure(f"{point} for ever: exit code 1")


def test_an_error_in_mid_stream_ends_the_connection(serve):
    server = serve(*QUIET, env={"HONE_FAULT": "serve.event:throw:3"})
    stream = server.open_stream(max_tokens=20)
    text = read_all(stream)
    assert text.startswith("HTTP/1.1 200") and "chat.completion.chunk" in text
    assert not text.endswith("0\r\n\r\n"), "the client can tell that it was not the end"
    assert stream.recv(1) == b"", "nothing more comes on this connection"
    assert server.chat()["choices"] and server.stop() == 0


def test_a_request_is_counted_out_though_no_answer_can_be_sent(serve):
    server = serve(*QUIET, "--drain_timeout", "300", env={"HONE_FAULT": "serve.respond:throw:1+"})
    with pytest.raises(http.client.RemoteDisconnected):
        server.post("/tokenize", {"prompt": "x"})
    assert server.stop() == 0, "a drain does not wait for it"


def test_requests_stuck_in_preparation_fill_the_queue_and_hold_up_no_drain(serve):
    server = serve(*QUIET, "--vllm_max_num_seqs", "1", "--max_queue", "3", "--watchdog", "1", "--drain_timeout", "0.3", env={"HONE_FAULT": "serve.aside:hang:1+"})
    stuck = [send(server, path, body) for path, body in (("/v1/chat/completions", CHAT), ("/v1/embeddings", {"input": "x"}), ("/tokenize", {"prompt": "x"}), ("/v1/chat/completions", CHAT))]
    assert server.wait_for(lambda: server.metric("hone_requests_beside") == 4)
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", {"prompt": "x"}), ("/v1/embeddings", {"input": "x"}), ("/tokenize", {"prompt": "x"}),
                       ("/infer/", {"infer_requests": [CHAT]}), ("/v1/messages", CHAT), ("/v1/messages/count_tokens", CHAT)):
        status, headers, _ = server.post(path, body)
        assert status == 429 and int(headers["Retry-After"]) >= 1, path
    assert server.wait_for(lambda: server.get("/health")[0] == 503), "no thread is left to prepare a request"
    assert json.loads(server.get("/health")[2])["status"] == "stuck" and server.get("/live")[0] == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert "ending without them" in server.log()
    for connection in stuck:
        connection.close()


def test_a_stuck_call_is_noticed(serve):
    server = serve(*QUIET, "--watchdog", "3", env={"HONE_FAULT": "serve.call:hang:1"})
    asked = send(server, "/v1/embeddings", {"input": "x"})
    assert server.wait_for(lambda: "longer than --watchdog" in server.log())
    assert server.get("/health")[0] == 503 and server.get("/live")[0] == 200
    assert server.process.wait(60) == 9
    asked.close()


def test_a_large_answer_is_written_aside(serve):
    server = serve(*QUIET, "--drain_timeout", "0.3", env={"HONE_FAULT": "serve.aside:hang:2"})
    asked = send(server, "/v1/chat/completions", {**CHAT, "max_tokens": 100, "ignore_eos": True, "logprobs": True, "top_logprobs": 20})
    assert server.wait_for(lambda: server.metric("hone_requests_finished_total") == 1)
    assert server.chat()["choices"], "a small one needs no second thread, and the I/O thread is free"
    asked.setblocking(False)
    with pytest.raises(BlockingIOError):
        asked.recv(1)
    assert server.stop() == 0


def test_log_probabilities_have_a_limit(serve, endless):
    server = serve(*QUIET, model=endless)
    status, _, body = server.post("/v1/completions", {"prompt": [5] * 30_000, "max_tokens": 1, "prompt_logprobs": 20})
    assert status == 400 and json.loads(body)["error"]["param"] == "prompt_logprobs"
    whole = {"prompt": [5] * 900, "max_tokens": 1, "n": 2, "prompt_logprobs": 20}
    status, _, body = server.post("/v1/completions", whole)
    assert status == 200 and [len(c["prompt_logprobs"]) for c in json.loads(body)["choices"]] == [900, 900], "a megabyte at once is not a client that does not read"


def test_a_slow_reader_gets_its_whole_answer(serve):
    server = serve(*QUIET, "--write_timeout", "4")
    asked = socket.socket()
    asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asked.connect(server.address)
    text = json.dumps({"prompt": "a b " * 500_000, "return_token_strs": True})
    asked.sendall(f"POST /tokenize HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    received = b""
    asked.settimeout(60)
    while b"\r\n\r\n" not in received:
        received += asked.recv(4096)
    head, _, body = received.partition(b"\r\n\r\n")
    size, got = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]), len(body)
    assert size > 8 << 20
    pause = 8 / (size / (256 << 10))  # so that all of it takes twice the limit
    while got < size:
        end = got + (256 << 10)
        while got < min(end, size):
            chunk = asked.recv(65536)
            assert chunk, f"cut after {got} of {size} bytes"
            got += len(chunk)
        time.sleep(pause)
