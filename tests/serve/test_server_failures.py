"""Bursts, clients that leave or do not read, faults in the engine, shutdown. Every one against the real program."""
import json
import random
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from serve_testing import MODEL, read_all

QUIET = ("--verbose", "false", "--log_interval", "-1")
LATE_FAULT = {"HONE_FAULT": "serve.step:throw:400"}  # late enough that the first tokens are on their way


def resident(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def at_rest(server):
    return server.metric("hone_requests_live") == 0 and server.metric("hone_cache_blocks_used") == 0 and server.metric("hone_requests_running") == 0


def test_a_burst_is_turned_away_beyond_the_queue(serve, endless, figure):
    server = serve(*QUIET, "--vllm_max_num_seqs", "4", "--max_queue", "8", model=endless)
    server.chat(max_tokens=100)
    before = resident(server)

    def ask(i):
        return server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": f"story {i}"}], "max_tokens": 60, "ignore_eos": True})

    full = [server.open_stream(max_tokens=None) for _ in range(12)]
    assert server.wait_for(lambda: server.metric("hone_requests_live") == 12)
    with ThreadPoolExecutor(120) as pool:
        refused = list(pool.map(ask, range(120)))
    assert all(status == 429 and int(headers["Retry-After"]) >= 1 for status, headers, _ in refused)
    assert server.metric("hone_requests_live") == 12
    for stream in full:
        stream.close()
    assert server.wait_for(lambda: at_rest(server))
    with ThreadPoolExecutor(120) as pool:
        statuses = [status for status, _, _ in pool.map(ask, range(120))]
    assert set(statuses) <= {200, 429} and statuses.count(200) >= 12, "who was let in is answered"
    assert server.wait_for(lambda: at_rest(server))
    assert resident(server) - before < 200 << 10
    assert server.chat()["choices"][0]["message"]["content"]
    figure(f"120 at once over 12 places: 120 told to come back; {statuses.count(200)} of 120 answered when free, {max(resident(server) - before, 0) >> 10} MB more")


def test_clients_that_leave_free_what_they_held(serve, figure):
    server = serve(*QUIET, "--vllm_max_num_seqs", "8")
    rng = random.Random(1)

    def leave(i):
        fields = {"n": rng.choice([1, 1, 3]), "max_tokens": 400}
        if i % 3 == 0:
            fields["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}}]
            fields["tool_choice"] = "required"
        connection = server.open_stream("word " * rng.choice([1, 20, 600]), **fields)
        time.sleep(rng.choice([0, 0, 0.01, 0.05, 0.2]))
        if rng.random() < 0.3:
            connection.recv(200)
        if rng.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset instead of a goodbye
        connection.close()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(leave, range(1000)))
    assert server.wait_for(lambda: at_rest(server)), server.get("/metrics")[2]
    assert server.chat()["choices"][0]["message"]["content"]
    figure("1000 leave: requests, blocks and pins at 0")


def test_a_client_that_does_not_read_is_cut_alone(serve, endless, figure):
    server = serve(*QUIET, "--write_timeout", "2", model=endless)
    slow = server.open_stream(receive_buffer=4096, max_tokens=None, n=8, logprobs=True, top_logprobs=20)
    assert server.wait_for(lambda: server.metric("hone_requests_running") == 8)
    for _ in range(3):
        assert server.chat(max_tokens=50, ignore_eos=True)["usage"]["completion_tokens"] == 50
    assert server.wait_for(lambda: at_rest(server)), "the slow one's answers are given up"
    slow.settimeout(10)
    received = b""
    try:
        while chunk := slow.recv(1 << 16):
            received += chunk
    except ConnectionResetError:
        pass
    assert b"[DONE]" not in received
    figure("cut alone; 3 of 3 others answered in full")


def test_sigterm_finishes_streams_and_refuses_new_ones(serve, figure):
    server = serve(*QUIET, "--vllm_max_num_seqs", "64", "--drain_timeout", "300")
    streams = [server.open_stream(max_tokens=150) for _ in range(50)]
    assert all(stream.recv(5, socket.MSG_PEEK) == b"HTTP/" for stream in streams), "each is being answered"
    idle = socket.create_connection(server.address)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_for(lambda: "no new requests" in server.log())
    try:
        assert server.get("/health")[0] == 503
        status, headers, _ = server.post("/v1/completions", {"prompt": "x"})
        assert status == 503 and "Retry-After" in headers
    except OSError:
        pass  # the streams were done already: a refused connection is as clear
    with ThreadPoolExecutor(50) as pool:
        texts = list(pool.map(read_all, streams))
    assert all(text.count("[DONE]") == 1 and '"finish_reason":"length"' in text for text in texts)
    assert server.process.wait(60) == 0
    assert idle.recv(10) == b""
    figure(f"{len(texts)} streams finished, exit code 0")


def test_streams_beyond_the_deadline_end_with_an_event(serve, endless, figure):
    server = serve(*QUIET, "--drain_timeout", "0.3", model=endless)
    stream = server.open_stream(max_tokens=None, n=16)
    assert server.wait_for(lambda: server.metric("hone_requests_running") > 0)
    server.process.send_signal(signal.SIGTERM)
    text = read_all(stream)
    assert '"code":"shutting_down"' in text and "[DONE]" not in text
    assert server.process.wait(60) == 0
    figure("16 beyond the deadline end with an event")


def test_a_drain_ends_though_a_client_does_not_read(serve, endless):
    server = serve(*QUIET, "--drain_timeout", "0.3", model=endless)
    stream = server.open_stream(receive_buffer=4096, max_tokens=None, n=8, logprobs=True, top_logprobs=20)
    assert server.wait_for(lambda: server.metric("hone_requests_running") == 8)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    stream.close()


def test_a_second_signal_ends_it_now(serve, endless):
    server = serve(*QUIET, "--drain_timeout", "300", model=endless)
    stream = server.open_stream(max_tokens=None)
    assert server.wait_for(lambda: server.metric("hone_requests_running") > 0)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_for(lambda: "no new requests" in server.log())
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) != 0
    stream.close()


@pytest.mark.parametrize("fault", ["serve.step:throw:1", "serve.step:throw:7", "engine.compute:throw:3", "engine.select:throw:5"])
def test_a_failed_step_costs_its_requests_and_nothing_else(serve, fault, figure):
    server = serve(*QUIET, env={"HONE_FAULT": fault})
    answers = []

    def ask(i):
        answers.append(server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": f"hello {i}"}], "max_tokens": 30, "ignore_eos": True}))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [a for a in answers if a[0] != 200]
    assert failed and all(a[0] == 500 and json.loads(a[2])["error"]["code"] == "engine_error" for a in failed)
    assert not any("fault injected" in a[2] for a in answers), "the inside stays inside"
    assert server.wait_for(lambda: at_rest(server))
    assert server.get("/health")[0] == 200
    assert server.chat()["choices"][0]["message"]["content"]
    assert server.stop() == 0
    figure(f"{fault}: {len(failed)} of 6 told 500")


@pytest.mark.parametrize("path, fields", [("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}), ("/v1/completions", {"prompt": "a"})])
def test_a_stream_whose_step_fails_ends_with_an_error_and_is_not_done(serve, path, fields):
    server = serve(*QUIET, env=LATE_FAULT)
    status, _, text = server.post(path, {**fields, "max_tokens": 800, "ignore_eos": True, "stream": True})
    *written, last = [json.loads(line.removeprefix("data: ")) for line in text.split("\n") if line.startswith("data: ") and line != "data: [DONE]"]
    assert status == 200 and written and all(event["choices"][0]["finish_reason"] is None for event in written)
    assert last["error"]["code"] == "engine_error" and "[DONE]" not in text


def test_openais_library_raises_the_error_of_an_aborted_stream(serve):
    server = serve(*QUIET, env=LATE_FAULT)
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    stream = client.chat.completions.create(model="nano", messages=[{"role": "user", "content": "a"}], max_tokens=800, stream=True, extra_body={"ignore_eos": True})
    with pytest.raises(openai.APIError, match="could not generate"):
        list(stream)
    stream.close()


def test_a_stuck_step_is_noticed(serve, figure):
    server = serve(*QUIET, "--watchdog", "3", env={"HONE_FAULT": "serve.step:sleep:3"})
    stream = server.open_stream(max_tokens=50)
    assert server.wait_for(lambda: "longer than --watchdog" in server.log())
    assert server.get("/health")[0] == 503 and server.get("/live")[0] == 200
    assert server.process.wait(60) == 9
    assert '"running"' in server.log()
    stream.close()
    figure("dump written, readiness 503, exit code 9")


def test_a_requested_port_that_is_in_use_is_an_error(serve, hone):
    first = serve(*QUIET)
    done = hone("deploy", "--model", MODEL, "--port", first.port)
    assert done.returncode == 2 and f"port {first.port} of 127.0.0.1 is taken" in done.stderr and "another --port" in done.stderr, done.stderr
    with socket.socket() as holder:
        try:
            holder.bind(("127.0.0.1", 8000))
            holder.listen()
        except OSError:
            pass  # somebody else holds it
        second = serve(*QUIET, any_port=False)
    assert second.port > 8000 and "port 8000 is taken" in second.log()


def test_queued_requests_cost_no_more_each(serve, endless):
    server = serve(*QUIET, "--vllm_max_num_seqs", "2", "--max_queue", "2000", model=endless)
    before = resident(server)
    streams = [server.open_stream(max_tokens=10_000) for _ in range(400)]
    assert server.wait_for(lambda: server.metric("hone_requests_live") == 400)
    assert resident(server) - before < 400 * 100, "under 100 kB a waiting stream"
    for stream in streams:
        stream.close()
    assert server.wait_for(lambda: at_rest(server))
