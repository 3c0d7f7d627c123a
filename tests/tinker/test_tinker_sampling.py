"""Sampling through the SDK gives transformers' tokens and log-probabilities."""
import pytest
import torch
from tinker import types
from tinker_testing import MODEL, base_model, peft_model

PROMPT = "<|im_start|>user\n"


@pytest.fixture(scope="module")
def sampler(server):
    return server.service().create_sampling_client(base_model=MODEL).result()


@pytest.fixture(scope="module")
def prompt(tokenizer):
    return tokenizer.encode(PROMPT)


def sample(sampler, prompt, num_samples=1, **params):
    more = {key: params.pop(key) for key in ("include_prompt_logprobs", "topk_prompt_logprobs", "topk_sample_logprobs", "prompt_logprobs_last_n") if key in params}
    return sampler.sample(types.ModelInput.from_ints(prompt), num_samples, types.SamplingParams(**params), **more).result()


def logprobs_of(model, prompt, tokens, temperature=1.0):
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0] / temperature
    return logits.log_softmax(-1)[:-1].gather(1, torch.tensor((prompt + tokens)[1:]).unsqueeze(1)).squeeze(1)


def test_greedy_tokens_and_logprobs_equal_transformers(sampler, prompt):
    model = base_model()
    expected = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt):].tolist()
    result = sample(sampler, prompt, max_tokens=12, temperature=0, include_prompt_logprobs=True, topk_prompt_logprobs=3, topk_sample_logprobs=2)
    answer = result.sequences[0]
    assert answer.tokens == expected
    assert answer.stop_reason == ("stop" if expected[-1] == 2 else "length")
    known = logprobs_of(model, prompt, answer.tokens)
    assert answer.logprobs == pytest.approx(known[len(prompt) - 1:].tolist(), abs=2e-4)
    assert result.prompt_logprobs[0] is None
    assert result.prompt_logprobs[1:] == pytest.approx(known[:len(prompt) - 1].tolist(), abs=2e-4)
    with torch.no_grad():
        best = model(torch.tensor([prompt])).logits[0].log_softmax(-1).topk(3)
    assert [token for token, _ in result.topk_prompt_logprobs[1]] == best.indices[0].tolist()
    assert answer.topk_logprobs[0][0][0] == answer.tokens[0]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_are_of_the_temperature(sampler, prompt, temperature):
    model = base_model()
    result = sample(sampler, prompt, 3, max_tokens=8, temperature=temperature, seed=5)
    for answer in result.sequences:
        assert answer.logprobs == pytest.approx(logprobs_of(model, prompt, answer.tokens, temperature)[len(prompt) - 1:].tolist(), abs=5e-4)
    again = sample(sampler, prompt, 3, max_tokens=8, temperature=temperature, seed=5)
    assert [a.tokens for a in again.sequences] == [a.tokens for a in result.sequences]
    assert temperature < 1 or len({tuple(a.tokens) for a in result.sequences}) > 1
    assert len({a.sequence_id for a in result.sequences}) == 3


def test_stops_are_part_of_the_answer(sampler, prompt, tokenizer):
    whole = sample(sampler, prompt, max_tokens=12, temperature=0).sequences[0].tokens
    by_token = sample(sampler, prompt, max_tokens=12, temperature=0, stop=[whole[3]]).sequences[0]
    assert by_token.tokens == whole[:whole.index(whole[3]) + 1] and by_token.stop_reason == "stop"
    text = tokenizer.decode(whole[:3])[-2:]
    by_text = sample(sampler, prompt, max_tokens=12, temperature=0, stop=text).sequences[0]
    assert text in tokenizer.decode(by_text.tokens) and len(by_text.tokens) <= 3 and by_text.stop_reason == "stop"
    assert len(by_text.logprobs) == len(by_text.tokens)


def test_scores_of_a_suffix(sampler, prompt):
    every, last = sampler.compute_logprobs(types.ModelInput.from_ints(prompt)).result(), sampler.compute_logprobs(types.ModelInput.from_ints(prompt), prompt_logprobs_last_n=2).result()
    assert last[:-2] == [None] * (len(prompt) - 2)
    assert last[-2:] == pytest.approx(every[-2:], abs=1e-4)


def test_samplers_of_trained_weights(server, prompt, tmp_path):
    """Unnamed weights sample as PEFT does with the same weights, and stay what they are while training continues."""
    from test_tinker_training import ADAM
    from tinker_testing import datum
    client = server.service().create_lora_training_client(base_model=MODEL, rank=4, seed=1).result()
    data = [datum(prompt[:-1], prompt[1:], weights=[1.0] * (len(prompt) - 1))]

    def step():
        client.forward_backward(data, "cross_entropy").result()
        client.optim_step(ADAM).result()

    step()
    path = client.save_weights_for_sampler("one").result().path
    first = client.save_weights_and_get_sampling_client().result()
    model = peft_model(server.archive(path, tmp_path))
    before = first.compute_logprobs(types.ModelInput.from_ints(prompt)).result()
    assert before[1:] == pytest.approx(logprobs_of(model, prompt[:1], prompt[1:]).tolist(), abs=3e-4)
    step()
    second = client.save_weights_and_get_sampling_client().result()
    assert first.compute_logprobs(types.ModelInput.from_ints(prompt)).result() == pytest.approx(before, nan_ok=True)
    assert sum(second.compute_logprobs(types.ModelInput.from_ints(prompt)).result()[1:]) > sum(before[1:])
    named = server.service().create_sampling_client(model_path=path).result()
    assert named.compute_logprobs(types.ModelInput.from_ints(prompt)).result()[1:] == pytest.approx(before[1:], abs=1e-5)
    assert named.get_base_model() == MODEL


def test_the_number_of_a_sampler_is_used_once(server):
    """Another run or a later step must not be sampled from by the number of an earlier sampler; a retry may repeat itself."""
    session = server.call("POST", "create_session", {"tags": [], "sdk_version": "0.16.1"})[1]["session_id"]
    one, two = (server.call("POST", "create_model", {"session_id": session, "model_seq_id": i, "base_model": MODEL, "lora_config": {"rank": 2}})[1]["model_id"] for i in (0, 1))

    def save(model, seq, number):
        status, accepted = server.call("POST", "save_weights_for_sampler", {"model_id": model, "seq_id": seq, "sampling_session_seq_id": number})
        assert status == 200
        while (answer := server.call("POST", "retrieve_future", {"request_id": accepted["request_id"]})[1]).get("type") == "try_again":
            pass
        return answer

    first = save(one, 1, 0)
    assert first["sampling_session_id"] == f"{session}:sample:0" and save(one, 1, 0) == first
    for model, seq in ((one, 2), (two, 1)):
        refused = save(model, seq, 0)
        assert refused["category"] == "user" and "sampling_session_seq_id 0 names another sampler" in refused["error"], refused
    base = {"session_id": session, "base_model": MODEL}
    assert server.call("POST", "create_sampling_session", {**base, "sampling_session_seq_id": 0})[0] == 422
    assert [server.call("POST", "create_sampling_session", {**base, "sampling_session_seq_id": 1})[0] for _ in range(2)] == [200, 200]
    assert "names another sampler" in save(one, 3, 1)["error"] and save(one, 4, 2)["sampling_session_id"] == f"{session}:sample:2"
