"""HTTP conformance of the server, and its error responses."""
import http.client
import json
import re
import socket
import threading

import pytest

from serve_testing import ENDLESS, read_all

KEY = "sesame-8"
HELLO = [{"role": "user", "content": "Who are you?"}]


def raw(server, text, half_close=False, timeout=60):
    with socket.create_connection(server.address, timeout=timeout) as connection:
        connection.sendall(text.encode())
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        data = b""
        while chunk := connection.recv(65536):
            data += chunk
    return data.decode()


def get(server, target="/v1/models", host="Host: localhost\r\n", more="", method="GET", **options):
    return raw(server, f"{method} {target} HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n", **options)


def post(path, body, more=""):
    body = json.dumps(body)
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n{body}"


def status(answer):
    return int(answer.split()[1])


@pytest.fixture(scope="module")
def named(serve):
    """A server with a key, a name as on a hub, and few places."""
    return serve("--api_key", KEY, "--served_model_name", "org/nano", "--vllm_max_num_seqs", "4", "--max_queue", "6")


def as_holder(server, method, path, body=None, headers=None):
    return server.request(method, path, body, headers={"Authorization": f"Bearer {KEY}", **(headers or {})})


def test_prompts_far_beyond_the_context_do_not_delay_others(server):
    """Four at once, 12 MB each: every other chat is answered while they are, and each is told its limit."""
    text = "hello " * 2_000_000
    asked = [("/v1/completions", {"prompt": text}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}),
             ("/v1/embeddings", {"input": text}), ("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": text}]})]
    answers = []
    threads = [threading.Thread(target=lambda one=one: answers.append(server.post(*one, timeout=120))) for one in asked]
    for thread in threads:
        thread.start()
    assert server.chat(max_tokens=2)["choices"][0]["message"]["content"]
    for thread in threads:
        thread.join()
    for code, _, body in answers:
        assert code == 400 and "1024 tokens; the prompt has more" in body, body[:300]
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": text})}}]}
    tool = {"type": "function", "function": {"name": "f", "description": text}}
    for path, body in (("/v1/chat/completions", {"messages": HELLO, "tools": [tool]}), ("/v1/chat/completions", {"messages": [*HELLO, called]}), ("/tokenize", {"prompt": text}),
                       ("/tokenize", {"messages": [{"role": "user", "content": text}]}),
                       ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": text}]})):
        code, _, told = server.post(path, body, timeout=120)
        assert code == 400 and ("2097152" in told or "the prompt has more" in told), told[:300]


def test_a_long_prompt_that_fits_is_not_refused(serve, endless):
    """Texts of more bytes than are tokenized at once, in a context that just holds them; another limit tells how many tokens were found."""
    texts = ["hello " * 30_000, "<|im_end|>" * 20_000, "word" * 40_000]
    counting = serve("--verbose", "false", model=endless)
    for text in texts:
        tokens = json.loads(counting.post("/tokenize", {"prompt": text})[2])["count"]
        for context, found in ((tokens + 1, f"add up to {tokens + 1} tokens"), (tokens - 100, "maximum context length")):
            server = serve("--verbose", "false", "--max_live_tokens", "100", "--vllm_max_model_len", context, model=endless)
            code, _, body = server.post("/v1/completions", {"prompt": text, "max_tokens": 1})
            assert code == 400 and found in body, body[:300]
            server.stop()


def test_names_in_a_path_may_be_escaped(named):
    for spelling in ("org/nano", "org%2Fnano", "org%2fn%61no"):
        code, _, body = as_holder(named, "GET", "/v1/models/" + spelling)
        assert code == 200 and json.loads(body)["id"] == "org/nano", spelling
    for spelling, expected in (("org%2Fother", 404), ("org%2", 400), ("org%zznano", 400), ("%", 400)):
        assert as_holder(named, "GET", "/v1/models/" + spelling)[0] == expected, spelling


def test_what_can_never_fit_gets_the_limit_instead_of_a_retry(named):
    code, _, body = as_holder(named, "POST", "/v1/chat/completions", {"messages": HELLO, "n": 20, "max_tokens": 1})
    error = json.loads(body)["error"]
    assert code == 400 and error["param"] == "n" and "20 completions" in error["message"] and "at most 10" in error["message"]
    code, _, body = as_holder(named, "POST", "/v1/completions", {"prompt": ["a"] * 64, "n": 64, "max_tokens": 1})
    assert code == 400 and "4096 completions" in body
    assert as_holder(named, "POST", "/v1/completions", {"prompt": ["a"] * 5, "n": 2, "max_tokens": 1})[0] == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_ends_its_side_gets_its_answer(server, stream):
    answer = raw(server, post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 8, "stream": stream}), half_close=True)
    assert "HTTP/1.1 200 OK" in answer and answer.rstrip().endswith("0" if stream else "}"), answer[-300:]
    assert ("[DONE]" in answer) == stream


def test_a_client_that_only_closes_its_sending_side_gets_its_response(server):
    with socket.create_connection(server.address, timeout=120) as connection:
        connection.sendall(post("/v1/completions", {"prompt": "a", "max_tokens": 1000, "n": 8, "ignore_eos": True}).encode())
        connection.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(connection, method="POST")
        answer.begin()
        assert answer.status == 200 and len(json.loads(answer.read())["choices"]) == 8


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_closes_frees_its_blocks(serve, endless, stream, figure):
    server = serve("--verbose", "false", model=endless)
    connection = server.open_stream(stream=stream, max_tokens=ENDLESS)
    assert server.wait_for(lambda: server.metric("hone_cache_blocks_used") > 0)
    connection.close()
    assert server.wait_for(lambda: server.metric("hone_requests_live") == 0 and server.metric("hone_cache_blocks_used") == 0)
    figure("one leaves in mid-answer: blocks at 0")


def test_clients_of_http_1_0_that_leave_are_noticed_and_those_that_wait_are_served(serve, endless):
    server = serve("--verbose", "false", model=endless)
    old = {tokens: post("/v1/completions", {"prompt": "a", "max_tokens": tokens, "n": 4, "ignore_eos": True}).replace("HTTP/1.1", "HTTP/1.0").encode() for tokens in (300, ENDLESS)}
    with socket.create_connection(server.address) as leaver:
        leaver.sendall(old[ENDLESS])
        assert server.wait_for(lambda: server.metric("hone_cache_blocks_used") > 0)
    assert server.wait_for(lambda: server.metric("hone_requests_live") == 0 and server.metric("hone_cache_blocks_used") == 0)
    with socket.create_connection(server.address, timeout=120) as waiter:
        waiter.sendall(old[300])
        waiter.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(waiter, method="POST")
        answer.begin()  # its first letter may have come long before the rest
        assert answer.status == 200 and len(json.loads(answer.read())["choices"]) == 4


def test_pipelined_requests_are_answered_in_order_after_a_half_close(server):
    ask = post("/v1/completions", {"prompt": "a", "max_tokens": 4})
    answer = raw(server, ask * 3 + "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", half_close=True)
    assert answer.count("HTTP/1.1 200 OK") == 4 and answer.rstrip().endswith('{"status":"ok"}')


def test_expect_continue_is_answered_before_the_body_and_refusals_instead_of_it(server):
    body = json.dumps({"prompt": "a", "max_tokens": 1})
    head = f"POST {{}} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(head.format("/v1/completions").encode())
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body.encode())
        assert read_all(connection).startswith("HTTP/1.1 200 OK")
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(head.format("/nothing").replace(str(len(body)), str(1 << 20)).encode())
        assert read_all(connection).startswith("HTTP/1.1 404"), "no body is waited for"


@pytest.mark.parametrize("end, expected", [("0\r\nX-Sum: 5\r\nX-More: 6\r\n\r\n", 200), ("0\r\n" + "X-Sum: 5\r\n" * 5000 + "\r\n", 431), ("0\r\nno trailer\r\n\r\n", 400), ("zz\r\n", 400)])
def test_chunked_bodies_and_their_trailers(server, end, expected):
    body = json.dumps({"prompt": "a", "max_tokens": 1})
    chunks = "".join(f"{len(part):x};note=1\r\n{part}\r\n" for part in (body[:5], body[5:]))
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nConnection: close\r\n\r\n"
    assert status(raw(server, head + chunks + end)) == expected


def test_a_header_sent_byte_by_byte_does_not_delay_others(server):
    with socket.create_connection(server.address, timeout=60) as slow:
        slow.sendall(b"GET /version HTTP/1.1\r\nHost: loc")
        assert status(get(server, "/version")) == 200
        for piece in (b"alhost\r", b"\nConnection: clo", b"se\r\n\r", b"\n"):
            slow.sendall(piece)
            assert status(get(server, "/health")) == 200
        assert read_all(slow).startswith("HTTP/1.1 200")


def test_sleeping_engines_let_requests_wait(serve, server):
    assert server.post("/sleep", {})[0] == 403 and server.post("/wake_up", {})[0] == 403, "only where it was allowed"
    sleeper = serve("--verbose", "false", "--enable_sleep_mode", "true")
    before = sleeper.chat()["choices"]
    asleep = lambda: json.loads(sleeper.get("/is_sleeping")[2])["is_sleeping"]
    assert not asleep() and sleeper.post("/sleep?level=2", {})[0] == 400
    assert sleeper.post("/sleep?level=1", {})[0] == 200 and asleep() and sleeper.get("/health")[0] == 200
    answers = []
    thread = threading.Thread(target=lambda: answers.append(sleeper.chat()["choices"]))
    thread.start()
    assert sleeper.wait_for(lambda: sleeper.metric("hone_requests_live") == 1)
    with socket.create_connection(sleeper.address) as leaver:
        leaver.sendall(post("/v1/completions", {"prompt": "a", "max_tokens": 4, "stream": True}).encode())
        assert sleeper.wait_for(lambda: sleeper.metric("hone_requests_live") == 2)
    assert sleeper.wait_for(lambda: sleeper.metric("hone_requests_live") == 1), "who leaves does not wait"
    assert not answers and sleeper.metric("hone_requests_waiting") == 1
    assert sleeper.post("/wake_up", {})[0] == 200 and not asleep()
    thread.join(60)
    assert answers == [before]


@pytest.mark.parametrize("path", ["/health", "/", "/v1/models", "/nothing"])
def test_head_answers_as_get_does_without_a_body(server, path):
    whole, alone = get(server, path), get(server, path, method="HEAD")
    fixed = [line for line in alone.split("\r\n") if not line.startswith("X-Request-Id")]
    assert alone.endswith("\r\n\r\n") and status(alone) == status(whole)
    assert fixed[:-2] == [line for line in whole.partition("\r\n\r\n")[0].split("\r\n") if not line.startswith("X-Request-Id")]


def test_a_wrong_method_gets_the_allowed_ones(server):
    for path, allowed in (("/v1/models", "GET, HEAD"), ("/v1/chat/completions", "POST"), ("/ping", "GET, HEAD, POST")):
        answer = get(server, path, method="DELETE")
        assert status(answer) == 405 and f"Allow: {allowed}\r\n" in answer


@pytest.mark.parametrize("host, expected", [
    ("Host: localhost\r\nHost: localhost\r\n", 400), ("Host: localhost\r\nhost: evil.example\r\n", 400), ("", 400), ("Host: LOCALHOST\r\n", 200), ("Host: LocalHost:1\r\n", 200),
    ("Host: evil.example\r\n", 403)])
def test_one_host_in_any_case(server, host, expected):
    assert status(get(server, host=host)) == expected


def test_http_1_0_needs_no_host(serve, server):
    assert status(raw(server, "GET /health HTTP/1.0\r\n\r\n")) == 200


def test_whole_addresses_as_targets(server):
    assert status(get(server, "http://localhost:1234/v1/models?a=b")) == 200
    assert status(get(server, "HTTP://127.0.0.1/v1/models", host="Host: anything\r\n")) == 200
    assert "<html" in get(server, "http://localhost").lower()
    assert status(get(server, "http://evil.example/v1/models")) == 403, "the address counts, not the header"


def test_compressed_bodies_are_refused_before_they_are_read(server):
    assert status(raw(server, post("/tokenize", {"prompt": "a"}, "Connection: close\r\nContent-Encoding: gzip\r\n"))) == 415
    assert status(raw(server, post("/tokenize", {"prompt": "a"}, "Connection: close\r\nContent-Encoding: identity\r\n"))) == 200


def test_the_scheme_of_a_key_is_read_in_any_case(named):
    for scheme in ("Bearer", "bearer", "BEARER ", "bEARER"):
        assert status(get(named, more=f"Authorization: {scheme} {KEY}\r\n")) == 200
    assert status(get(named, more=f"Authorization: bearer{KEY}\r\n")) == 401


def test_every_answer_carries_the_id_of_its_request(server):
    def id_of(answer):
        return re.search(r"X-Request-Id: (\S+)\r\n", answer)[1]

    for target in ("/v1/models", "/health", "/nothing", "/"):
        assert id_of(get(server, target, more="X-Request-Id: my.trace-7_A\r\n")) == "my.trace-7_A"
        assert id_of(get(server, target, more="x-request-id: two words\r\n")).startswith("req-")
    made = {id_of(get(server)) for _ in range(5)} | {id_of(raw(server, "nonsense\r\n\r\n"))}
    assert len(made) == 6
    with server.open_stream(max_tokens=2) as stream:
        assert "X-Request-Id: req-" in read_all(stream)


def test_requests_that_are_refused_leave_a_line_without_the_key(named):
    assert named.get("/v1/models", headers={"Authorization": f"Bearer x{KEY}"})[0] == 401
    assert as_holder(named, "GET", "/nothing%20here?secret=1")[0] == 404
    assert as_holder(named, "GET", "/version", headers={"Host": "evil.example"})[0] == 403
    for line in ("GET /v1/models 401", "GET /nothing%20here 404", "GET /version 403"):
        assert named.wait_for(lambda line=line: line in named.log()), named.log()
    assert KEY not in named.log() and "secret" not in named.log()


def test_values_are_refused_instead_of_changed(server):
    code, _, body = server.post("/v1/embeddings", {"input": "a", "dimensions": 1000})
    assert code == 400 and "160" in body
    tools = [{"type": "function", "function": {"name": "f"}}]
    code, _, body = server.post("/v1/chat/completions", {"messages": HELLO, "tools": tools, "tool_choice": "required", "guided_choice": ["a"]})
    assert code == 400 and json.loads(body)["error"]["param"] == "guided_choice"
