"""OpenAI's /v1/responses with its own SDK; and every response of the server validated by the SDK's types."""
import json
import typing

import openai
import pydantic
import pytest
from openai.types import CreateEmbeddingResponse, Model, responses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.completion import Completion

TOOL = {"type": "function", "name": "forecast", "description": "The weather.", "strict": True,
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}}
QUESTION = [{"role": "user", "content": "Who are you?"}]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def create(client, **more):
    return client.responses.create(**{"model": "nano", "input": "Who are you?", "temperature": 0, "max_output_tokens": 24, **more})


def strictly(kind, text):
    return pydantic.TypeAdapter(kind).validate_json(text, strict=True)


def test_a_response_equals_a_chat_completion(client, server):
    chat = server.chat()["choices"][0]["message"]["content"]
    response = create(client)
    assert response.output_text == chat and response.output[0].role == "assistant" and response.usage.output_tokens <= 24
    assert create(client, input=QUESTION).output_text == chat
    assert create(client, input=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Who are you?"}]}]).output_text == chat
    system = server.chat("Who are you?", messages=[{"role": "system", "content": "Be brief."}, *QUESTION])["choices"][0]["message"]["content"]
    assert create(client, instructions="Be brief.").output_text == system
    cut = create(client, max_output_tokens=1)
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    assert len(create(client, top_logprobs=2, max_output_tokens=3, include=["message.output_text.logprobs"]).output[0].content[0].logprobs[0].top_logprobs) == 2


def test_events_equal_the_full_response(client):
    whole = create(client)
    events = list(create(client, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"]
    assert kinds[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done", f"response.{whole.status}"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text and events[-1].response.usage.output_tokens == whole.usage.output_tokens
    with client.responses.stream(model="nano", input="Who are you?", temperature=0, max_output_tokens=24) as stream:
        assert [event for event in stream][-1].response.output_text == whole.output_text


@pytest.mark.parametrize("stream", [False, True])
def test_tools_and_their_results(client, stream):
    fields = {"input": "Weather?", "tools": [TOOL], "tool_choice": "required", "max_output_tokens": 100}
    response = create(client, stream=stream, **fields)
    if stream:
        events = list(response)
        response = events[-1].response
        assert "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta") == response.output[0].arguments
    call = response.output[0]
    assert call.type == "function_call" and call.name == "forecast" and json.loads(call.arguments)["city"] in ("Paris", "Rome")
    history = [{"role": "user", "content": "Weather?"}, call.to_dict(), {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
    assert create(client, input=history, tools=[TOOL]).status in ("completed", "incomplete")


def test_structured_output(client):
    class Answer(pydantic.BaseModel):
        city: typing.Literal["Paris", "Rome"]
        rains: bool

    parsed = client.responses.parse(model="nano", input="Weather?", text_format=Answer, temperature=0, max_output_tokens=200)
    assert isinstance(parsed.output_parsed, Answer)
    listed = create(client, text={"format": {"type": "json_schema", "name": "x", "schema": {"enum": [1, 2]}}})
    assert json.loads(listed.output_text) in (1, 2) and listed.text.format.type == "json_schema"


@pytest.mark.parametrize("fields, word", [({"previous_response_id": "resp_1"}, "stored"), ({"tools": [{"type": "web_search"}]}, "function"), ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
                                          ({"background": True}, "stored"), ({"input": []}, "input"), ({"truncation": "auto"}, "truncation")])
def test_what_cannot_be_is_reported(client, fields, word):
    with pytest.raises(openai.BadRequestError, match=word.replace("[", r"\[")):
        create(client, **fields)


def events_of(text):
    return [part.removeprefix("data: ") for block in text.split("\n\n") for part in block.split("\n") if part.startswith("data: ") and part != "data: [DONE]"]


def test_answers_have_the_sdks_types(server):
    chat = {"model": "nano", "messages": QUESTION, "max_tokens": 4, "temperature": 0}
    calls = {**chat, "max_tokens": 100, "tool_choice": "required", "tools": [{"type": "function", "function": {k: TOOL[k] for k in ("name", "parameters")}}]}
    more = {"logprobs": True, "top_logprobs": 2, "n": 2}
    for body in (chat, {**chat, **more}, calls):
        strictly(ChatCompletion, server.post("/v1/chat/completions", body)[2])
        for event in events_of(server.post("/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})[2]):
            strictly(ChatCompletionChunk, event)
    for body in ({"prompt": "Once"}, {"prompt": ["Once", "Twice"], "logprobs": 2, "n": 2}):
        body = {"model": "nano", "max_tokens": 4, **body}
        strictly(Completion, server.post("/v1/completions", body)[2])
        for event in events_of(server.post("/v1/completions", {**body, "stream": True})[2]):
            strictly(Completion, event.replace('"finish_reason":null', '"finish_reason":"stop"'))  # a chunk's may be null, which this type does not know
    answer = {"model": "nano", "input": "Hi", "max_output_tokens": 40}
    for body in (answer, {**answer, "top_logprobs": 1, "metadata": {"a": "b"}, "reasoning": {"effort": "low"}}, {**answer, "tools": [TOOL], "tool_choice": "required", "max_output_tokens": 100}):
        strictly(responses.Response, server.post("/v1/responses", body)[2])
        for event in events_of(server.post("/v1/responses", {**body, "stream": True})[2]):
            strictly(responses.ResponseStreamEvent, event)
    strictly(CreateEmbeddingResponse, server.post("/v1/embeddings", {"model": "nano", "input": ["a", "b"]})[2])
    for model in json.loads(server.get("/v1/models")[2])["data"]:
        strictly(Model, json.dumps(model))
