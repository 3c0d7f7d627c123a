"""OpenAI's API, driven by OpenAI's own library, with completions compared with transformers."""
import asyncio
import json
import math
from typing import Annotated, Literal

import openai
import pytest
from pydantic import BaseModel, Field

from serve_testing import MODEL

QUESTION = [{"role": "user", "content": "Who are you?"}]
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city.",
                                            "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                                                           "required": ["city", "days"], "additionalProperties": False}}}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def peer():
    import torch
    import transformers
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    return tokenizer, transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


@pytest.fixture(scope="module")
def exact(serve):
    """The same model in float32, as the peer runs it."""
    served = serve("--verbose", "false", "--torch_dtype", "float32")
    return openai.OpenAI(base_url=served.url + "/v1", api_key="none", max_retries=0)


def greedy(client, **more):
    return client.chat.completions.create(**{"model": "nano", "messages": QUESTION, "temperature": 0, "max_tokens": 32, **more})


def test_an_answer_equals_transformers(exact, peer):
    tokenizer, model = peer
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    ids = model.generate(**prompt, max_new_tokens=32, do_sample=False)[0, prompt["input_ids"].shape[1]:]
    answer = greedy(exact)
    assert answer.choices[0].message.content == tokenizer.decode(ids, skip_special_tokens=True)
    assert answer.usage.prompt_tokens == prompt["input_ids"].shape[1]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.object == "chat.completion" and answer.model == "nano"


def test_a_stream_returns_the_same_with_usage(client):
    whole = greedy(client)
    chunks = list(greedy(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage == whole.usage.model_copy(update={"prompt_tokens_details": chunks[-1].usage.prompt_tokens_details})
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert len({c.id for c in chunks}) == 1


def test_concurrent_requests_return_the_same_as_one(server, client):
    alone = greedy(client).choices[0].message.content

    async def together():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none") as many:
            calls = [many.chat.completions.create(model="nano", messages=QUESTION, temperature=0, max_tokens=32) for _ in range(24)]
            streamed = await many.chat.completions.create(model="nano", messages=QUESTION, temperature=0, max_tokens=32, stream=True)
            text = "".join([c.choices[0].delta.content or "" async for c in streamed if c.choices])
            return [a.choices[0].message.content for a in await asyncio.gather(*calls)] + [text]

    assert set(asyncio.run(together())) == {alone}


def test_logprobs_are_the_models(exact, peer):
    import torch
    tokenizer, model = peer
    answer = greedy(exact, logprobs=True, top_logprobs=3)
    prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
    entries = answer.choices[0].logprobs.content
    ids = tokenizer.encode(answer.choices[0].message.content, add_special_tokens=False)
    with torch.no_grad():
        theirs = model(torch.tensor([prompt[0].tolist() + ids])).logits[0, prompt.shape[1] - 1:-1].log_softmax(-1)
    assert [e.token for e in entries][:len(ids)] == [tokenizer.decode([i]) for i in ids]
    for entry, row, token in zip(entries, theirs, ids):
        assert math.isclose(entry.logprob, row[token].item(), abs_tol=2e-4)
        assert [t.logprob for t in entry.top_logprobs] == pytest.approx(row.topk(3).values.tolist(), abs=2e-4)
        assert bytes(entry.bytes).decode() == entry.token


def test_seeds_repeat_and_n_differ(client):
    def ask(seed):
        answer = client.chat.completions.create(model="nano", messages=QUESTION, temperature=1.5, seed=seed, n=3, max_tokens=20)
        return [c.message.content for c in answer.choices]

    first = ask(7)
    assert first == ask(7)
    assert len(set(first)) > 1
    assert first != ask(8)


def test_stop_texts_end_the_answer(client):
    text = greedy(client).choices[0].message.content
    stop = text[6:9]
    answer = greedy(client, stop=[stop])
    assert answer.choices[0].message.content == text[:text.index(stop)]
    assert answer.choices[0].finish_reason == "stop"


def test_length_is_a_finish_reason(client):
    answer = client.chat.completions.create(model="nano", messages=QUESTION, temperature=0, max_completion_tokens=2)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 2


def test_logit_bias_forbids(client):
    first = greedy(client, logprobs=True).choices[0].logprobs.content[0].token
    ids = json.loads(client.post("../tokenize", cast_to=str, body={"prompt": first}))["tokens"]
    assert greedy(client, logit_bias={str(ids[0]): -100}, logprobs=True).choices[0].logprobs.content[0].token != first


def test_a_named_tool_is_called_by_its_schema(client):
    answer = greedy(client, tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "get_weather"}}, max_tokens=300)
    call = answer.choices[0].message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "get_weather" and call.type == "function"
    assert arguments["city"] in ("Paris", "Rome") and 1 <= arguments["days"] <= 9
    assert answer.choices[0].finish_reason == "tool_calls"


def test_required_calls_stream_as_deltas(client):
    chunks = list(greedy(client, tools=[WEATHER], tool_choice="required", stream=True, max_tokens=300))
    deltas = [call for c in chunks if c.choices for call in c.choices[0].delta.tool_calls or []]
    assert deltas[0].id and deltas[0].function.name == "get_weather"
    assert all(d.id is None and d.function.name is None for d in deltas[1:])
    assert json.loads("".join(d.function.arguments for d in deltas))["city"] in ("Paris", "Rome")
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def calls_by_itself(name, arguments):
    """An answer in which the model decides to call, written by holding its output to that text."""
    text = '<tool_call>\n' + json.dumps({"name": name, "arguments": arguments}) + '\n</tool_call>'
    return {"extra_body": {"structured_outputs": {"choice": [text]}}}


@pytest.mark.parametrize("stream", [False, True])
def test_calls_the_model_writes_are_recognised(client, stream):
    held = calls_by_itself("get_weather", {"city": "Paris", "note": 'a "quoted" {brace}'})
    answer = client.chat.completions.create(model="nano", messages=QUESTION, tools=[WEATHER], max_tokens=200, stream=stream, **held)
    if stream:
        deltas = [call for c in answer if c.choices for call in c.choices[0].delta.tool_calls or []]
        name, arguments = deltas[0].function.name, "".join(d.function.arguments or "" for d in deltas)
        assert len(deltas) > 3, "arguments come as they are written"
    else:
        assert answer.choices[0].message.content is None
        name, arguments = answer.choices[0].message.tool_calls[0].function.name, answer.choices[0].message.tool_calls[0].function.arguments
    assert name == "get_weather"
    assert json.loads(arguments) == {"city": "Paris", "note": 'a "quoted" {brace}'}


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_are_split_off(client, stream):
    held = {"extra_body": {"structured_outputs": {"choice": ["<think>\nhm, well\n</think>\n\nYes."]}}}
    answer = client.chat.completions.create(model="nano", messages=QUESTION, max_tokens=100, stream=stream, **held)
    if stream:
        deltas = [c.choices[0].delta for c in answer if c.choices]
        text, thought = ("".join(getattr(d, name, None) or "" for d in deltas) for name in ("content", "reasoning_content"))
    else:
        text, thought = answer.choices[0].message.content, answer.choices[0].message.reasoning_content
    assert (text, thought) == ("Yes.", "hm, well")


def test_a_whole_tool_conversation_is_read(client):
    messages = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
    answer = client.chat.completions.create(model="nano", messages=messages, tools=[WEATHER], tool_choice="none", temperature=0, max_tokens=8)
    assert answer.choices[0].message.content


def test_legacy_functions(client):
    answer = greedy(client, functions=[WEATHER["function"]], function_call={"name": "get_weather"}, max_tokens=300)
    assert answer.choices[0].message.function_call.name == "get_weather"
    assert answer.choices[0].finish_reason == "function_call"


class Person(BaseModel):
    name: Literal["Ann", "Bo"]
    age: Annotated[int, Field(ge=0, le=120)]
    tags: Annotated[list[Literal["kind", "tall"]], Field(max_length=2)]


def test_structured_output_parses(client):
    answer = client.chat.completions.parse(model="nano", messages=QUESTION, response_format=Person, temperature=0.7, seed=3, max_tokens=800)
    assert isinstance(answer.choices[0].message.parsed, Person)
    assert answer.choices[0].finish_reason == "stop"


def test_json_object(client):
    answer = client.chat.completions.create(model="nano", messages=QUESTION, response_format={"type": "json_object"}, temperature=0, max_tokens=400)
    assert answer.choices[0].message.content.lstrip().startswith("{")
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_completions_continue_a_text(exact, peer):
    import torch
    tokenizer, model = peer
    texts = ["The sky is", "I am a small"]
    answer = exact.completions.create(model="nano", prompt=texts, max_tokens=6, temperature=0, logprobs=2)
    for text, choice in zip(texts, answer.choices):
        ids = torch.tensor([tokenizer.encode(text)])
        mine = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)[0, ids.shape[1]:]
        assert choice.text == tokenizer.decode(mine, skip_special_tokens=True)
        assert len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == len(choice.logprobs.top_logprobs)
    echoed = exact.completions.create(model="nano", prompt=texts[0], max_tokens=3, temperature=0, echo=True)
    assert echoed.choices[0].text.startswith(texts[0])
    streamed = exact.completions.create(model="nano", prompt=texts[0], max_tokens=6, temperature=0, stream=True)
    assert "".join(c.choices[0].text for c in streamed if c.choices) == answer.choices[0].text
    best = exact.completions.create(model="nano", prompt=texts[0], max_tokens=6, temperature=1, seed=1, n=1, best_of=4)
    assert len(best.choices) == 1


@pytest.mark.parametrize("settings", [{"num_beams": 2}, {"num_beams": 4, "n": 3}, {"num_beams": 4, "length_penalty": -1.0}, {"num_beams": 3, "length_penalty": 2.5, "n": 2},
                                      {"num_beams": 4, "early_stopping": True, "n": 4}, {"num_beams": 3, "early_stopping": "never"}, {"num_beams": 5, "repetition_penalty": 1.3},
                                      {"use_beam_search": True, "n": 4}])
def test_beams_find_what_transformers_finds(exact, peer, settings):
    tokenizer, model = peer
    theirs = {"num_beams": settings.get("n"), **settings, "num_return_sequences": settings.get("n", 1)}
    theirs.pop("n", None), theirs.pop("use_beam_search", None)
    for question in ("Who are you?", "What is the capital of France?", "Tell me a story."):
        messages = [{"role": "user", "content": question}]
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        found = model.generate(**prompt, max_new_tokens=24, do_sample=False, **theirs)[:, prompt["input_ids"].shape[1]:]
        extra = {k: v for k, v in settings.items() if k != "n"}
        answer = exact.chat.completions.create(model="nano", messages=messages, max_tokens=24, temperature=0, n=settings.get("n", 1), extra_body=extra)
        assert [c.message.content for c in answer.choices] == [tokenizer.decode(ids, skip_special_tokens=True) for ids in found]


def test_beams_stream_and_draw(client):
    asked = {"model": "nano", "messages": QUESTION, "max_tokens": 24, "temperature": 0, "extra_body": {"num_beams": 3}}
    whole = client.chat.completions.create(**asked).choices[0]
    chunks = list(client.chat.completions.create(**asked, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.message.content
    assert chunks[-1].choices[0].finish_reason == whole.finish_reason
    hot = {**asked, "temperature": 8.0, "max_tokens": 6, "extra_body": {"num_beams": 2, "top_k": 0}}
    drawn = [client.chat.completions.create(**hot, seed=seed).choices[0].message.content for seed in (1, 1, 2, 3)]
    assert drawn[0] == drawn[1] and len(set(drawn)) > 1
    best = client.completions.create(model="nano", prompt="The sky", max_tokens=8, best_of=4, n=2, logprobs=0, extra_body={"use_beam_search": True})
    sums = [sum(c.logprobs.token_logprobs) / len(c.logprobs.token_logprobs) for c in best.choices]
    assert len(sums) == 2 and sums[0] >= sums[1]


def test_many_chats_in_one_request(server, client):
    asked = {"infer_requests": [{"messages": QUESTION, "images": [], "tools": None}, {"messages": [{"role": "user", "content": "Tell me a story."}]}],
             "request_config": {"max_tokens": 12, "temperature": 0.0, "stream": False, "n": 2, "return_details": False, "stop": [], "seed": None}, "use_tqdm": False}
    status, _, body = server.post("/infer/", asked)
    assert status == 200, body
    for reply, request in zip(json.loads(body), asked["infer_requests"], strict=True):
        alone = client.chat.completions.create(model="nano", messages=request["messages"], temperature=0, max_tokens=12)
        assert [c["message"]["content"] for c in reply["choices"]] == [alone.choices[0].message.content] * 2
        assert reply["object"] == "chat.completion" and reply["usage"]["prompt_tokens"] == alone.usage.prompt_tokens
        assert reply["usage"]["completion_tokens"] == 2 * alone.usage.completion_tokens
    status, _, body = server.post("/infer/", {"infer_requests": [{"messages": QUESTION}, {"messages": []}]})
    assert status == 400 and "infer_requests[1]" in body
    status, _, body = server.post("/v1/score/evaluation", {"model": "nano", "messages": ["x"]})
    assert status == 405 and "no scores" in body


def test_embeddings_are_the_models_hidden_states(exact, peer):
    import torch
    tokenizer, model = peer
    texts = ["the sea", "a hill in spring"]
    answer = exact.embeddings.create(model="nano", input=texts)
    for text, item in zip(texts, answer.data):
        with torch.no_grad():
            hidden = model.model(torch.tensor([tokenizer.encode(text)])).last_hidden_state[0, -1]
        assert item.embedding == pytest.approx((hidden / hidden.norm()).tolist(), abs=1e-4)
    short = exact.embeddings.create(model="nano", input="the sea", dimensions=16, encoding_format="float").data[0].embedding
    assert len(short) == 16 and math.isclose(sum(x * x for x in short), 1, rel_tol=1e-4)


def test_models(client):
    assert [m.id for m in client.models.list().data] == ["nano"]
    assert client.models.retrieve("nano").owned_by == "swift"


@pytest.mark.parametrize("fields, error, word", [
    ({"model": "gpt-9"}, openai.NotFoundError, "model"),
    ({"temperature": 900}, openai.BadRequestError, "temperature"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, openai.BadRequestError, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x"}}]}]}, openai.BadRequestError, "not fetched"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}, openai.BadRequestError, "text-only"),
    ({"messages": [{"role": "user", "content": "word " * 3000}]}, openai.BadRequestError, "context"),
    ({"extra_body": {"temprature": 1}}, openai.BadRequestError, "did you mean temperature"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}}, openai.BadRequestError, "output format"),
    ({"top_logprobs": 5}, openai.BadRequestError, "logprobs"),
])
def test_errors_have_openais_shape(client, fields, error, word):
    with pytest.raises(error) as caught:
        client.chat.completions.create(**{"model": "nano", "messages": QUESTION, **fields})
    assert word in caught.value.message
    assert set(caught.value.body) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("fields, param, message", [
    ({"messages": [{"content": "x"}]}, "messages[0].role", "found nothing; expected system, developer, user, assistant or tool"),
    ({"messages": [*QUESTION, {"role": None, "content": "x"}]}, "messages[1].role", "found null; expected system, developer, user, assistant or tool"),
    ({"messages": [{"role": 5, "content": "x"}]}, "messages[0].role", "found a number; expected system, developer, user, assistant or tool"),
    ({"messages": [{"role": "bot", "content": "x"}]}, "messages[0].role", 'found "bot"; expected system, developer, user, assistant or tool'),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "expected an object with name and schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format.json_schema.schema", "found nothing; expected a JSON schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": None}}}, "response_format.json_schema.schema", "expected a JSON schema"),
])
def test_an_error_inside_a_field_names_its_place(client, fields, param, message):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{"model": "nano", "messages": QUESTION, "max_tokens": 1, **fields})
    assert caught.value.body["message"] == f"{param}: {message}"
    assert caught.value.body["param"] == param and caught.value.body["code"] == "invalid_value"


def test_what_is_wrong_with_a_field_is_told_in_plain_words(client):
    with pytest.raises(openai.BadRequestError, match="suffix: found a text of 1 byte; expected an empty text"):
        client.completions.create(model="nano", prompt="a", suffix="b")
    with pytest.raises(openai.BadRequestError, match=r"input\[0\]: found no tokens; expected 1 or more"):
        client.embeddings.create(model="nano", input="")
