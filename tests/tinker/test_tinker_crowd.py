"""Many at once: 50 tenants, a killed server under several runs, thousands of clients that wait."""
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tinker import types
from tinker_testing import ALICE, BOB, MODEL, TinkerServer, datum, resident_bytes, rows
from workers import free_port

ADAM = types.AdamParams(learning_rate=2e-3)


def supervised(tokenizer):
    return [datum(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in rows(tokenizer)]


def train(client, data, steps):
    pairs = [(client.forward_backward(data, "cross_entropy"), client.optim_step(ADAM)) for _ in range(steps)]
    return [(forward.result().metrics["loss:sum"], update.result())[0] for forward, update in pairs]


def test_fifty_tenants_at_once(tokenizer, tmp_path):
    """Each trains, saves and samples on its own; more runs than --max_loras take turns; the losses are those of one alone."""
    tenants = {f"tenant{i}": f"tml-tenant{i:04}-0123456789" for i in range(50)}
    server = TinkerServer(tmp_path, "--max_loras", 20, "--verbose", "false", tenants="".join(f"{name} {key}\n" for name, key in tenants.items()))
    data = supervised(tokenizer)

    def whole(key):
        client = server.service(key).create_lora_training_client(base_model=MODEL, rank=4, seed=7).result()
        losses = train(client, data, 2)
        path = client.save_weights_for_sampler("own").result().path
        sampler = client.create_sampling_client(path).result()
        return losses, path, len(sampler.sample(types.ModelInput.from_ints(rows(tokenizer)[0][0]), 1, types.SamplingParams(max_tokens=2, temperature=0)).result().sequences[0].tokens)

    try:
        alone = whole(tenants["tenant0"])[0]
        with ThreadPoolExecutor(50) as pool:
            results = list(pool.map(whole, tenants.values()))
        assert all(losses == pytest.approx(alone, rel=1e-5) and tokens > 0 for losses, _, tokens in results)
        assert len({path for _, path, _ in results}) == 50
        status, _, text = server.request("GET", "/metrics", headers={"X-API-Key": tenants["tenant0"]})
        runs, passes = (float(re.search(rf"^hone_tinker_{name}_total (\S+)$", text, re.M)[1]) for name in ("runs_in_passes", "passes"))
        assert status == 200 and runs > 1.5 * passes  # they shared passes
    finally:
        assert server.stop() == 0, server.log()


def test_kill_in_the_middle_of_several_runs(tokenizer, tmp_path):
    """Twenty runs of two tenants in different places when the server is killed: each continues and ends where it would have ended."""
    port = free_port()
    server = TinkerServer(tmp_path, "--port", port)
    data = supervised(tokenizer)
    whole = train(server.service().create_lora_training_client(base_model=MODEL, rank=4, seed=7).result(), data, 5)
    clients = [server.service(BOB if i % 2 else ALICE).create_lora_training_client(base_model=MODEL, rank=4, seed=7).result() for i in range(20)]
    done = [train(client, data, i % 3) for i, client in enumerate(clients)]
    under_way = [[(client.forward_backward(data, "cross_entropy"), client.optim_step(ADAM)) for _ in range(5 - i % 3)] for i, client in enumerate(clients)]
    server.kill()
    server = TinkerServer(tmp_path, "--port", port)
    for i, steps in enumerate(under_way):
        losses = done[i] + [(forward.result().metrics["loss:sum"], update.result())[0] for forward, update in steps]
        assert losses == pytest.approx(whole, rel=1e-5)
    assert server.stop() == 0


def test_two_thousand_open_polls(server, tokenizer):
    """They take less than 200 MB together, and are all answered at once when their result is there."""
    client = server.service(BOB).create_lora_training_client(base_model=MODEL, rank=2).result()
    future = server.call("POST", "optim_step", {"model_id": client.model_id, "seq_id": 2, "adam_params": {}}, key=BOB)[1]["request_id"]  # waits for number 1
    body = json.dumps({"request_id": future}).encode()
    poll = f"POST /api/v1/retrieve_future HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {BOB}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    before = resident_bytes(server)
    waiting = []
    for _ in range(2000):
        waiting.append(socket.create_connection(server.address, 30))
        waiting[-1].sendall(poll)
    for _ in range(100):
        if server.call("GET", "status", key=BOB)[1]["server"]["polls_open"] >= 2000:
            break
        time.sleep(0.1)
    grown = resident_bytes(server) - before
    assert server.call("GET", "status", key=BOB)[1]["server"]["polls_open"] >= 2000
    assert grown < 200e6, f"{grown / 1e6:.0f} MB"
    print(f"2,000 polls take {grown / 1e6:.1f} MB")
    assert server.call("POST", "optim_step", {"model_id": client.model_id, "seq_id": 1, "adam_params": {}}, key=BOB)[0] == 200
    for connection in waiting:
        connection.settimeout(30)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        connection.close()


def test_a_slow_client_holds_up_nobody(server, tokenizer):
    """A request that trickles in byte by byte, and an answer that is read as slowly, during normal training."""
    client = server.service().create_lora_training_client(base_model=MODEL, rank=2).result()
    stop = threading.Event()

    def trickle():
        with socket.create_connection(server.address, 10) as connection:
            connection.sendall(f"POST /api/v1/create_session HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {BOB}\r\nContent-Length: 5000\r\n\r\n".encode())
            while not stop.is_set():
                connection.sendall(b" ")
                stop.wait(0.05)
    slow = [threading.Thread(target=trickle) for _ in range(20)]
    for thread in slow:
        thread.start()
    try:
        began = time.monotonic()
        losses = train(client, supervised(tokenizer), 3)
        assert losses[2] < losses[0] and time.monotonic() - began < 20
    finally:
        stop.set()
        for thread in slow:
            thread.join()
