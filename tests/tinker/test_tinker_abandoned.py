"""Samples that nobody can fetch any more do not hold the engine."""
import json
import re
import socket
import time

import pytest
from tinker import types
from tinker_testing import ALICE, BOB, MODEL, TinkerServer

PROMPT = [5] * 8
LONG = {"max_tokens": 1000, "temperature": 1000.0}  # any token is as likely as the one that ends a sample


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    server = TinkerServer(tmp_path_factory.mktemp("abandoned"))
    yield server
    assert server.stop() == 0, server.log()


def number(server, name):
    return float(re.search(rf"^hone_tinker_{name} (\S+)$", server.request("GET", "/metrics", headers={"X-API-Key": ALICE})[2], re.M)[1])


def wait_until(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def a_session(server):
    session = server.call("POST", "create_session", {"tags": [], "sdk_version": "0.38.0"})[1]["session_id"]
    return session, server.call("POST", "create_sampling_session", {"session_id": session, "sampling_session_seq_id": 0, "base_model": MODEL})[1]["sampling_session_id"]


def submit(server, sampler, seq=0, samples=64):
    body = {"sampling_session_id": sampler, "seq_id": seq, "num_samples": samples, "prompt": {"chunks": [{"type": "encoded_text", "tokens": PROMPT}]}, "sampling_params": LONG}
    status, answer = server.call("POST", "asample", body)
    assert status == 200, answer
    return answer["request_id"]


def running(server):
    """Sequences that the engine computes, or will."""
    text = server.request("GET", "/metrics", headers={"X-API-Key": ALICE})[2]
    return sum(float(value) for value in re.findall(r"^hone_requests_(?:running|waiting)\{.*\} (\S+)$", text, re.M))


def test_the_sdk_cancels_a_sample(own):
    before = number(own, "samples_cancelled_total")
    sampler = own.service().create_sampling_client(base_model=MODEL).result()
    future = sampler.sample(types.ModelInput.from_ints(PROMPT), 64, types.SamplingParams(**LONG))
    wait_until(lambda: running(own) > 0)
    assert future.cancel()
    wait_until(lambda: number(own, "samples_cancelled_total") == before + 1)
    wait_until(lambda: running(own) == 0)
    assert len(sampler.sample(types.ModelInput.from_ints(PROMPT), 1, types.SamplingParams(max_tokens=2)).result().sequences) == 1


def test_a_cancelled_sample_has_failed_and_stays_so(own):
    _, sampler = a_session(own)
    sample = submit(own, sampler)
    wait_until(lambda: running(own) > 0)
    assert own.call("POST", "cancel_future", {"request_id": sample}, key=BOB)[0] == 200 and running(own) > 0, "it is alice's"
    for _ in range(2):
        assert own.call("POST", "cancel_future", {"request_id": sample}) == (200, {})
    wait_until(lambda: running(own) == 0)
    for _ in range(2):
        status, answer = own.call("POST", "retrieve_future", {"request_id": sample})
        assert status == 200 and answer["category"] == "user" and "cancelled by its client" in answer["error"]
        assert submit(own, sampler) == sample, "a retry that was under way"
    assert number(own, "samples_waiting") == 0


def test_samples_end_with_their_session(own):
    session, sampler = a_session(own)
    _, other = a_session(own)
    samples, kept = [submit(own, sampler, seq, 16) for seq in range(2)], submit(own, other, samples=16)
    wait_until(lambda: running(own) > 32)  # of 48: some may have ended by themselves
    assert own.call("POST", f"sessions/{session}/finish")[0] == 200
    wait_until(lambda: 0 < running(own) <= 16)
    assert all("session finished" in own.call("POST", "retrieve_future", {"request_id": sample})[1]["error"] for sample in samples)
    assert own.call("POST", "cancel_future", {"request_id": kept})[0] == 200
    wait_until(lambda: running(own) == 0)


def test_samples_of_twinkles_client_end_with_its_connection(own):
    body = json.dumps({"inputs": [{"input_ids": PROMPT}] * 2, "sampling_params": {**LONG, "num_samples": 16}}).encode()
    with socket.create_connection(own.address, 30) as client:
        client.sendall(f"POST /api/v1/sampler/{MODEL}/twinkle/sample HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ALICE}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: running(own) > 16)
    wait_until(lambda: running(own) == 0)
    assert number(own, "samples_waiting") == 0


@pytest.mark.parametrize("body, status", (({"request_id": "nothing:sample:0:0"}, 200), ({"request_id": "s:train:0:1"}, 400), ({}, 400), ({"request_id": 5}, 400), ([], 400)))
def test_cancelling_what_is_no_sample(own, body, status):
    assert own.call("POST", "cancel_future", body)[0] == status
