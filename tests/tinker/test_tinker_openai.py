"""What tenants saved for sampling, through OpenAI's and Anthropic's interfaces of the same server."""
import threading

import anthropic
import openai
import pytest
from serve_testing import Server
from tinker import types
from tinker_testing import ALICE, BOB, MODEL, datum, rows

SENTENCE = "Who trained you? A tinkerer did, with a small hammer."


@pytest.fixture(scope="module")
def taught(server, tokenizer):
    """Alice's run that knows a sentence by heart, saved under a name and without one."""
    client = server.service().create_lora_training_client(base_model=MODEL, rank=16, seed=1).result()
    (tokens, targets), = rows(tokenizer, [SENTENCE])
    for _ in range(25):
        client.forward_backward([datum(tokens, targets, weights=[1.0] * len(targets))], "cross_entropy")
        client.optim_step(types.AdamParams(learning_rate=5e-3)).result()
    return {"client": client, "path": client.save_weights_for_sampler("heart").result().path, "sampler": client.save_weights_and_get_sampling_client().result()}


def openai_client(server, key=ALICE):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


def test_a_checkpoint_is_a_model(server, taught, tokenizer):
    client, prompt = openai_client(server), "Who trained you?"
    told = client.completions.create(model=taught["path"], prompt=prompt, max_tokens=8, temperature=0)
    sampled = taught["sampler"].sample(types.ModelInput.from_ints(tokenizer.encode(prompt)), 1, types.SamplingParams(max_tokens=8, temperature=0)).result()
    assert told.model == taught["path"] and told.choices[0].text == tokenizer.decode(sampled.sequences[0].tokens) and "tinkerer" in told.choices[0].text
    base = client.completions.create(model=MODEL, prompt=prompt, max_tokens=8, temperature=0)
    assert base.model == MODEL and base.choices[0].text != told.choices[0].text
    chat = client.chat.completions.create(model=taught["path"], messages=[{"role": "user", "content": prompt}], max_tokens=6, temperature=0)
    streamed = client.chat.completions.create(model=taught["path"], messages=[{"role": "user", "content": prompt}], max_tokens=6, temperature=0, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in streamed) == chat.choices[0].message.content
    message = anthropic.Anthropic(base_url=server.url, api_key=ALICE, max_retries=0).messages.create(model=taught["path"], max_tokens=6, extra_body={"temperature": 0}, messages=[{"role": "user", "content": prompt}])
    assert message.content[0].text == chat.choices[0].message.content


def test_models_are_the_tenants_own(server, taught):
    mine, theirs = openai_client(server), openai_client(server, BOB)
    assert {MODEL, taught["path"]} <= {model.id for model in mine.models.list()}
    assert taught["path"] not in {model.id for model in theirs.models.list()}
    sampler_id = f"{taught['client'].model_id.split(':')[0]}:sample:0"
    for name in (taught["path"], taught["path"] + "x", sampler_id, "another"):
        with pytest.raises(openai.NotFoundError):
            theirs.completions.create(model=name, prompt="x", max_tokens=1)
    with pytest.raises(anthropic.NotFoundError):
        anthropic.Anthropic(base_url=server.url, api_key=BOB, max_retries=0).messages.create(model=taught["path"], max_tokens=1, messages=[{"role": "user", "content": "x"}])
    with pytest.raises(openai.AuthenticationError):
        openai_client(server, "tml-wrong-0123456789").models.list()
    for method, path in (("POST", "/v1/load_lora_adapter"), ("POST", "/sleep"), ("POST", "/update_weights/"), ("GET", "/nothing")):
        assert server.request(method, path, {} if method == "POST" else None, headers={"X-API-Key": ALICE})[0] == 404


def test_chats_beside_training_and_sampling(server, taught, tokenizer):
    """All three at once: the checkpoint's answers stay as they were."""
    ask = dict(model=taught["path"], prompt="Who trained you?", max_tokens=8, temperature=0)
    expected = openai_client(server).completions.create(**ask).choices[0].text
    tokens, targets = rows(tokenizer)[2]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(openai_client(server).completions.create(**ask).choices[0].text)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        taught["client"].forward_backward([datum(tokens, targets, weights=[1.0] * len(targets))], "cross_entropy")
        taught["client"].optim_step(types.AdamParams(learning_rate=1e-3)).result()
        taught["sampler"].sample(types.ModelInput.from_ints(tokens), 2, types.SamplingParams(max_tokens=3)).result()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 6


def test_deploy_answers_the_sdk_too(tmp_path, tokenizer):
    server = Server("--tinker", "true", "--tinker_dir", tmp_path / "state", "--api_key", ALICE, "--torch_dtype", "float32", model=MODEL)
    try:
        import tinker
        with tinker.ServiceClient(base_url=server.url, api_key=ALICE) as service:
            client = service.create_lora_training_client(base_model=MODEL, rank=2).result()
            tokens, targets = rows(tokenizer)[0]
            assert client.forward_backward([datum(tokens, targets, weights=[1.0] * len(targets))], "cross_entropy").result().metrics["loss:sum"] > 0
            path = client.save_weights_for_sampler("one").result().path
        assert openai_client(server).completions.create(model=path, prompt="One", max_tokens=2).usage.completion_tokens > 0
    finally:
        assert server.stop() == 0
