"""Other people's clients, unchanged: Anthropic's library, LangChain, OpenAI's npm package, curl."""
import json
import shutil
import subprocess
from typing import Annotated, Literal

import anthropic
import pytest
from pydantic import BaseModel, Field

from serve_testing import ROOT

WEATHER = {"name": "get_weather", "description": "Weather of a city.",
           "input_schema": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}}


@pytest.fixture(scope="module")
def client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


def ask(client, **more):
    return client.messages.create(**{"model": "nano", "max_tokens": 24, "messages": [{"role": "user", "content": "Who are you?"}], **more})


def test_anthropic_and_openai_return_the_same(server, client):
    answer = ask(client)
    assert answer.content[0].text == server.chat(max_tokens=24)["choices"][0]["message"]["content"]
    assert answer.stop_reason in ("end_turn", "max_tokens") and answer.role == "assistant"
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 0
    counted = client.messages.count_tokens(model="nano", messages=[{"role": "user", "content": "Who are you?"}])
    assert counted.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens


def test_anthropic_streams(client):
    with client.messages.stream(model="nano", max_tokens=24, extra_body={"temperature": 0}, system="Be brief.", messages=[{"role": "user", "content": "Who are you?"}]) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text and final.content[0].text == text
    assert final.stop_reason in ("end_turn", "max_tokens") and final.usage.output_tokens > 0


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic_tools(client, stream):
    fields = {"model": "nano", "max_tokens": 60, "messages": [{"role": "user", "content": "Weather?"}], "tools": [WEATHER], "tool_choice": {"type": "any"}}
    if stream:
        with client.messages.stream(**fields) as events:
            answer = events.get_final_message()
    else:
        answer = client.messages.create(**fields)
    call = next(block for block in answer.content if block.type == "tool_use")
    assert answer.stop_reason == "tool_use" and call.name == "get_weather" and call.input["city"] in ("Paris", "Rome")
    history = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]}]
    assert ask(client, messages=history, tools=[WEATHER], tool_choice={"type": "none"}).content[0].type == "text"


def test_anthropic_stop_sequences_and_errors(client):
    text = ask(client).content[0].text
    answer = ask(client, stop_sequences=[text[5:8]])
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == text[5:8]
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/"}}]}])
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError):
        ask(client, model="claude")


class Person(BaseModel):
    name: Literal["Ann", "Bo"]
    tags: Annotated[list[Literal["kind", "tall"]], Field(max_length=2)]


def test_anthropic_structured_output(client):
    asked = {"model": "nano", "max_tokens": 400, "messages": [{"role": "user", "content": "Who?"}], "output_format": Person}
    assert isinstance(client.messages.parse(**asked).parsed_output, Person)
    with client.messages.stream(**asked) as stream:
        assert Person.model_validate_json("".join(stream.text_stream))
    with pytest.raises(anthropic.BadRequestError, match="output_config.format"):
        ask(client, output_config={"format": {"type": "yaml"}})


def test_anthropic_fields_of_its_own_servers(client):
    hosted = {"cache_control": {"type": "ephemeral"}, "container": "c", "inference_geo": "eu", "speed": "fast", "context_management": {"edits": []}}
    assert ask(client, extra_body=hosted, output_config={"effort": "low"}).content == ask(client).content
    with pytest.raises(anthropic.BadRequestError, match="tools\\[1\\].type.*web_search_20250305.*custom"):
        ask(client, tools=[{"type": "custom", **WEATHER}, {"type": "web_search_20250305", "name": "web_search"}])


def test_anthropic_empty_lists(client):
    assert ask(client, system=[]).content == ask(client).content
    with pytest.raises(anthropic.BadRequestError, match="messages\\[0\\].content.*at least one block"):
        ask(client, messages=[{"role": "user", "content": []}])


def test_anthropic_models(client, server):
    listed = client.models.list()
    model = listed.data[0]
    assert (model.id, model.type, model.display_name) == ("nano", "model", "nano") and model.created_at.year > 2000
    assert listed.has_more is False and [m.id for m in listed] == ["nano"] and client.models.retrieve("nano").id == "nano"
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.models.retrieve("claude")
    assert caught.value.body["error"]["type"] == "not_found_error"
    assert json.loads(server.get("/v1/models")[2])["object"] == "list"


def test_langchain(server):
    from langchain_core.messages import HumanMessage
    from langchain_openai import ChatOpenAI
    model = ChatOpenAI(base_url=server.url + "/v1", api_key="none", model="nano", temperature=0, max_tokens=24)
    question = [HumanMessage("Who are you?")]
    whole = model.invoke(question)
    assert whole.content == server.chat(max_tokens=24)["choices"][0]["message"]["content"]
    assert "".join(chunk.content for chunk in model.stream(question)) == whole.content

    def get_weather(city: Literal["Paris", "Rome"]) -> str:
        """Weather of a city."""

    called = model.bind_tools([get_weather], tool_choice="get_weather").invoke(question, max_tokens=600)
    assert called.tool_calls[0]["name"] == "get_weather" and "city" in called.tool_calls[0]["args"]


NODE = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none" });
const question = { model: "nano", temperature: 0, max_tokens: 24, messages: [{ role: "user", content: "Who are you?" }] };
const whole = await client.chat.completions.create(question);
let streamed = "";
for await (const chunk of await client.chat.completions.create({ ...question, stream: true })) streamed += chunk.choices[0]?.delta?.content ?? "";
console.log(JSON.stringify({ whole: whole.choices[0].message.content, streamed }));
"""


@pytest.fixture(scope="session")
def node_folder():
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed")
    folder = ROOT / ".setup/node"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules/openai").is_dir():
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", "openai@6"], cwd=folder, capture_output=True, text=True, timeout=180)
        if done.returncode:
            pytest.skip("the npm package openai cannot be installed: " + done.stderr[-300:])
    (folder / "ask.mjs").write_text(NODE)
    return folder


def test_openai_npm_package(server, node_folder):
    done = subprocess.run(["node", "ask.mjs", server.url + "/v1"], cwd=node_folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["whole"] == result["streamed"] == server.chat(max_tokens=24)["choices"][0]["message"]["content"]


def test_curl(server):
    body = json.dumps({"messages": [{"role": "user", "content": "Who are you?"}], "temperature": 0, "max_tokens": 24, "stream": True})
    done = subprocess.run(["curl", "-sN", server.url + "/v1/chat/completions", "-d", body], capture_output=True, text=True, timeout=60)
    events = [line[6:] for line in done.stdout.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    text = "".join(json.loads(e)["choices"][0]["delta"].get("content", "") for e in events[:-1])
    assert text == server.chat(max_tokens=24)["choices"][0]["message"]["content"]
    old = subprocess.run(["curl", "-s0", server.url + "/v1/models"], capture_output=True, text=True, timeout=60)  # HTTP/1.0
    assert json.loads(old.stdout)["data"][0]["id"] == "nano"
    large = subprocess.run(["curl", "-s", "-H", "Expect: 100-continue", server.url + "/tokenize", "-d", "@-"], input=json.dumps({"prompt": "a b " * 300000}),
                           capture_output=True, text=True, timeout=60)
    assert json.loads(large.stdout)["count"] > 100000
