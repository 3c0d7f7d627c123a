"""Older SDKs, unmodified: 0.25, the first without JSON for data, and 0.16.1, which sends and expects JSON alone. Their losses are the newest one's."""
import json
import os
import subprocess
import sys

import pytest
from tinker import types
from tinker_testing import ALICE, MODEL, ROOT, SDK, datum, rows

LOOP = """
import json, sys, tinker
from tinker import types
url, key, model, data = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
service = tinker.ServiceClient(base_url=url, api_key=key)
client = service.create_lora_training_client(base_model=model, rank=4, seed=5)
def made(tokens, targets, **inputs):
    return types.Datum(model_input=types.ModelInput.from_ints(tokens), loss_fn_inputs={"target_tokens": targets, **inputs})
supervised = [made(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in data]
out = {"version": tinker.__version__, "losses": []}
for _ in range(3):
    forward, update = client.forward_backward(supervised, "cross_entropy"), client.optim_step(types.AdamParams(learning_rate=1e-2))
    update.result()
    out["losses"].append(forward.result().metrics["loss:sum"])
scored = client.forward(supervised, "cross_entropy").result()
out["logprobs"] = [each["logprobs"].tolist() for each in scored.loss_fn_outputs]
rewarded = [made(tokens, targets, logprobs=logps, advantages=[0.5] * len(targets)) for (tokens, targets), logps in zip(data, out["logprobs"])]
out["ppo"] = client.forward_backward(rewarded, "ppo", loss_fn_config={"clip_low_threshold": 0.9, "clip_high_threshold": 1.1}).result().metrics["loss:sum"]
sampler = client.save_weights_and_get_sampling_client("older")
prompt = types.ModelInput.from_ints(data[0][0])
answer = sampler.sample(prompt, num_samples=2, sampling_params=types.SamplingParams(max_tokens=4, temperature=0), include_prompt_logprobs=True, topk_prompt_logprobs=2).result()
out["tokens"] = [list(each.tokens) for each in answer.sequences]
out["sampled"] = [list(each.logprobs) for each in answer.sequences]
out["prompt"] = list(answer.prompt_logprobs)
out["top"] = [row and [list(pair) for pair in row] for row in answer.topk_prompt_logprobs]
state = client.save_state("older").result().path
out["again"] = service.create_training_client_from_state(state).forward(supervised, "cross_entropy").result().metrics["loss:sum"]
print(json.dumps(out))
"""


def run_loop(server, data, *folders):
    done = subprocess.run([sys.executable, "-c", LOOP, server.url, ALICE, MODEL, json.dumps(data)], cwd=ROOT, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def newest(server, tokenizer):
    return run_loop(server, rows(tokenizer), SDK)


@pytest.mark.parametrize("version", ["0.25.0", "0.16.1"])
def test_an_older_sdk_trains_and_samples(server, tokenizer, newest, version):
    older = run_loop(server, rows(tokenizer), ROOT / f".venv/tinker-{version}", SDK)
    assert older["version"] == version and newest["version"] != version
    assert older["losses"] == pytest.approx(newest["losses"], rel=1e-5) and older["losses"][2] < older["losses"][0]
    for name in ("logprobs", "sampled"):
        for ours, theirs in zip(older[name], newest[name]):
            assert ours == pytest.approx(theirs, abs=1e-4), name
    assert older["ppo"] == pytest.approx(newest["ppo"], rel=1e-4)
    assert older["tokens"] == newest["tokens"]
    assert older["prompt"][1:] == pytest.approx(newest["prompt"][1:], abs=1e-4) and older["prompt"][0] is None
    assert [row and [pair[0] for pair in row] for row in older["top"]] == [row and [pair[0] for pair in row] for row in newest["top"]]
    assert older["again"] == pytest.approx(newest["again"], rel=1e-5)


def test_damaged_json_names_its_field(server, tokenizer):
    client = server.service().create_lora_training_client(base_model=MODEL, rank=2).result()
    good = {"model_input": {"chunks": [{"type": "encoded_text", "tokens": [5, 6]}]}, "loss_fn_inputs": {"target_tokens": {"data": [6, 7], "dtype": "int64"}}}

    def message(data, **more):
        body = {"model_id": client.model_id, "seq_id": 1, "forward_backward_input": {"data": data, "loss_fn": "cross_entropy", **more}}
        status, answer = server.call("POST", "forward_backward", body)
        assert status == 400
        return answer["error"]["message"]
    assert message({}) == "data: expected a list"
    assert message([{}]) == "chunks: expected a list"
    for wrong in (None, True, 5, "x", [], [good]):
        assert message([good, wrong]) == "data: expected objects with model_input and loss_fn_inputs"
    for token in (2**32 + 5, -2**31 - 1, 2**64 - 1, 1.5):
        assert message([{**good, "model_input": {"chunks": [{"type": "encoded_text", "tokens": [5, token]}]}}]) == "tokens: expected whole numbers of 32 bits"
    assert message([{**good, "loss_fn_inputs": {"target_tokens": {"data": [6, 2**63], "dtype": "int64"}}}]) == "data: expected whole numbers of 64 bits"
    assert message([{**good, "model_input": {"chunks": [{"type": "image"}]}}]) == '"image" in training data is not supported by this server'
    assert message([{**good, "loss_fn_inputs": {"weights": {"data": ["x"]}}}]) == "data: expected numbers"
    assert message([{**good, "loss_fn_inputs": {"weights": {"data": [1], "dtype": "float64"}}}]) == 'dtype is "float64"; expected float32 or int64'
    assert message([good], loss_fn_config={"beta": "x"}) == 'loss_fn_config "beta": expected a number'
    assert client.forward([datum([5, 6], [6, 7], weights=[1.0, 1.0])], "cross_entropy").result().metrics["loss:sum"] > 0
    assert isinstance(client.optim_step(types.AdamParams()).result().metrics, dict)
